//! Connections from kubelet and its kind.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use h2::server::{Builder, SendResponse};
use h2::{Reason, RecvStream};
use http::{Request, Response};
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout_at};
use tracing::{info, warn};

use super::body;
use super::listen::{BindError, Endpoint};
use super::pipe::Pipe;
use super::router::Router;
use super::{CONNECTION_WINDOW_BYTES, MAX_HEADER_LIST_BYTES, STREAM_WINDOW_BYTES};
use crate::host::Host;
use crate::telemetry::{Telemetry, Trouble};

/// How often the socket is looked at: a deleted one is back within this time. A look is one
/// system call.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Between two tries to bind.
const BIND_PAUSE: Duration = Duration::from_millis(250);

/// Calls that one connection may have reset before they were looked at. Kubelet makes a
/// connection a call; h2's default of 20 would punish a client that cancels a burst.
const MAX_RESET_STREAMS: usize = 10_000;

/// Serves connections until told to stop.
pub struct Server<H: Host> {
    router: Arc<Router<H>>,
    telemetry: Arc<Telemetry>,
    /// Tells every connection to end. Each holds a receiver until it has.
    leaving: watch::Sender<()>,
}

impl<H: Host> Server<H> {
    #[must_use]
    pub fn new(router: Router<H>, telemetry: Arc<Telemetry>) -> Self {
        Self { router: Arc::new(router), telemetry, leaving: watch::Sender::default() }
    }

    /// Binds `path` and serves it; binds it again when it is gone. Never returns: dropping the
    /// future stops listening and removes the socket.
    pub async fn run(&self, path: &std::path::Path) {
        loop {
            let endpoint = self.bind(path).await;
            self.telemetry.cleared(Trouble::Endpoint);
            info!(path = %path.display(), "listening");
            self.accept_while_in_place(&endpoint).await;
            self.telemetry.troubled(Trouble::Endpoint);
            warn!(path = %path.display(), "the socket was removed; it is made again");
        }
    }

    /// Lets the calls of open connections finish, but no longer than until `give_up`.
    pub async fn drain(self, give_up: Instant) {
        self.leaving.send_replace(());
        let _ = timeout_at(give_up, self.leaving.closed()).await;
    }

    async fn bind(&self, path: &std::path::Path) -> Endpoint {
        let mut said: Option<String> = None;
        loop {
            let error = match Endpoint::bind(path).await {
                Ok(endpoint) => return endpoint,
                Err(error) => error,
            };
            let text = error.to_string();
            // Said once for each new reason, not four times a second.
            if said.as_ref() != Some(&text) && !matches!(error, BindError::Lock { .. }) {
                let error: &dyn std::error::Error = &error;
                warn!(error, "not listening yet");
                said = Some(text);
            }
            sleep(BIND_PAUSE).await;
        }
    }

    async fn accept_while_in_place(&self, endpoint: &Endpoint) {
        let mut look = interval(LOOK_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                accepted = endpoint.listener.accept() => match accepted {
                    Ok((stream, _)) => self.serve(stream),
                    Err(error) => {
                        // Out of descriptors or memory: the next try may do better.
                        let error: &dyn std::error::Error = &error;
                        warn!(error, "cannot accept a connection");
                        sleep(LOOK_EVERY).await;
                    }
                },
                _ = look.tick() => if !endpoint.is_in_place() {
                    return;
                },
            }
        }
    }

    fn serve(&self, stream: UnixStream) {
        match stream.peer_cred() {
            Ok(peer) if peer.uid() == 0 => {}
            peer => {
                warn!(peer.uid = ?peer.map(|peer| peer.uid()), "connection refused: not root");
                return;
            }
        }
        let (router, leaving) = (Arc::clone(&self.router), self.leaving.subscribe());
        tokio::spawn(converse(stream, router, leaving));
    }
}

/// Serves one connection to its end. How it ends says nothing that its calls have not said.
async fn converse<H: Host>(
    stream: UnixStream,
    router: Arc<Router<H>>,
    mut leaving: watch::Receiver<()>,
) {
    let handshake = Builder::new()
        .max_header_list_size(MAX_HEADER_LIST_BYTES)
        .max_pending_accept_reset_streams(MAX_RESET_STREAMS)
        .max_local_error_reset_streams(Some(MAX_RESET_STREAMS))
        .initial_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .handshake::<_, Bytes>(stream);
    let mut connection = tokio::select! {
        shaken = handshake => match shaken {
            Ok(connection) => connection,
            Err(_) => return,
        },
        _ = leaving.changed() => return,
    };
    let mut told = false;
    loop {
        tokio::select! {
            biased;
            accepted = connection.accept() => match accepted {
                Some(Ok((request, respond))) => {
                    tokio::spawn(answer(Arc::clone(&router), request, respond));
                }
                Some(Err(_)) | None => return,
            },
            _ = leaving.changed(), if !told => {
                told = true;
                connection.graceful_shutdown();
            }
        }
    }
}

/// Answers one request, unless its caller goes away.
async fn answer<H: Host>(
    router: Arc<Router<H>>,
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
) {
    let response = tokio::select! {
        biased;
        response = router.route(request) => response,
        _ = poll_fn(|cx| respond.poll_reset(cx)) => return,
    };
    let (head, body) = match response {
        Ok(response) => response.into_parts(),
        Err(error) => return respond.send_reset(body::reason_of(&error)),
    };
    let over = body.is_over();
    match respond.send_response(Response::from_parts(head, ()), over) {
        Ok(stream) if !over => Pipe::new(body, stream).await,
        Ok(_) => {}
        Err(_) => respond.send_reset(Reason::INTERNAL_ERROR),
    }
}
