//! Connections to the plugin: one that is kept, and more only while it is full.

use std::future::poll_fn;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use h2::RecvStream;
use h2::client::{Builder, SendRequest};
use http::{Request, request, response};
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep, timeout_at};

use super::body::{self, Body};
use super::pipe::Pipe;
use super::{CONNECTION_WINDOW_BYTES, MAX_HEADER_LIST_BYTES, STREAM_WINDOW_BYTES};
use crate::facts::call::PluginRun;
use crate::telemetry::{Telemetry, Trouble};

/// How many calls share a connection.
///
/// The plugin may admit as few as 100 streams (grpc-go's advice; hyper's servers say 200), and a
/// call beyond that waits behind the others, which a Probe must never do. Sixty leave room; at
/// half, connections are made without need; at double, a plugin with 100 makes calls wait.
pub(super) const MAX_STREAMS: usize = 60;

/// Between two tries to reach a plugin that is not there.
///
/// Fifty milliseconds are not felt by a caller and cost nothing. At half or double likewise.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// A place on a connection, taken for as long as a call lasts.
pub type Seat = Arc<Link>;

/// What is known of a connection beside the stream it is.
#[derive(Default)]
pub struct Link {
    ended: AtomicBool,
}

/// Connections to the plugin's socket.
pub struct Pool {
    address: PathBuf,
    connections: Mutex<Vec<Connection>>,
    telemetry: Arc<Telemetry>,
}

#[derive(Clone)]
struct Connection {
    sender: SendRequest<Bytes>,
    /// Held by the pool, by the task that runs the connection, and once by each call.
    seat: Seat,
    run: Option<PluginRun>,
}

/// How many hold a seat of an open connection that no call is on.
const HOLDERS: usize = 2;

/// The plugin's answer, as far as it has come.
pub struct Reply {
    pub head: response::Parts,
    pub tail: Tail,
}

/// What follows the head of an answer.
pub struct Tail {
    pub stream: RecvStream,
    /// What of the request is still to be sent. Boxed: a pipe may itself hold a tail.
    pub request: Option<Box<Pipe>>,
    /// Kept as long as the call lasts.
    pub seat: Seat,
}

/// Why a request got no response.
#[derive(Debug)]
pub enum SendError {
    /// It never left: the plugin is not there.
    NotSent(io::Error),
    /// The plugin reset this one call. Its reason is inside.
    Reset(h2::Error),
    /// The connection broke after the request had left.
    Lost(h2::Error),
}

impl Pool {
    #[must_use]
    pub fn new(address: &Path, telemetry: Arc<Telemetry>) -> Self {
        Self { address: address.to_owned(), connections: Mutex::default(), telemetry }
    }

    /// Which run of the plugin is behind the socket now.
    #[expect(clippy::disallowed_methods, reason = "the sockets are this room's")]
    pub fn plugin_run(&self) -> Option<PluginRun> {
        let socket = std::fs::metadata(&self.address).ok()?;
        let changed_ns =
            i128::from(socket.ctime()) * 1_000_000_000 + i128::from(socket.ctime_nsec());
        Some(PluginRun { device: socket.dev(), inode: socket.ino(), changed_ns })
    }

    /// Which run of the plugin would take a request; waits for one that is not there, but not past
    /// `give_up`.
    ///
    /// # Errors
    /// Why it could not be reached.
    pub async fn reach(&self, give_up: Instant) -> io::Result<Option<PluginRun>> {
        Ok(self.connection(give_up).await?.run)
    }

    /// Sends `head` and `body`; waits for a plugin that is not there, but not past `give_up`.
    /// `before_sending` may change the head at the last moment (its deadline has moved on).
    ///
    /// # Errors
    /// See [`SendError`].
    pub async fn send(
        &self,
        mut head: request::Parts,
        body: Body,
        give_up: Instant,
        before_sending: impl Fn(&mut request::Parts),
    ) -> Result<Reply, SendError> {
        let Connection { mut sender, seat, .. } = loop {
            let mut connection = self.connection(give_up).await.map_err(SendError::NotSent)?;
            if poll_fn(|cx| connection.sender.poll_ready(cx)).await.is_ok() {
                break connection;
            }
            // The connection had ended before the request left: try a new one.
            connection.seat.ended.store(true, Ordering::Relaxed);
            sleep(Duration::from_millis(1)).await;
        };
        before_sending(&mut head);
        let over = body.is_over();
        let sent = sender.send_request(Request::from_parts(head, ()), over);
        let (mut response, stream) = sent.map_err(classify)?;
        let mut request = (!over).then(|| Pipe::new(body, stream));
        let response = poll_fn(|cx| {
            // Polled in one turn with the head, so that both leave in one write.
            if request.as_mut().is_some_and(|request| request.poll(cx).is_ready()) {
                request = None;
            }
            Pin::new(&mut response).poll(cx)
        });
        let (head, stream) = response.await.map_err(classify)?.into_parts();
        self.telemetry.cleared(Trouble::Plugin);
        Ok(Reply { head, tail: Tail { stream, request: request.map(Box::new), seat } })
    }

    /// A connection with a free place.
    async fn connection(&self, give_up: Instant) -> io::Result<Connection> {
        loop {
            let run = self.plugin_run();
            if let Some(connection) = self.kept(run.as_ref()) {
                return Ok(connection);
            }
            let failed = match timeout_at(give_up, self.connect(run)).await {
                Ok(Ok(connection)) => return Ok(connection),
                Ok(Err(error)) => error,
                Err(_) => io::ErrorKind::TimedOut.into(),
            };
            self.telemetry.troubled(Trouble::Plugin);
            if Instant::now() + RETRY_PAUSE >= give_up {
                return Err(failed);
            }
            sleep(RETRY_PAUSE).await;
        }
    }

    /// An open connection to the plugin that runs now. If its socket is gone, one to the plugin
    /// that was there will do: it may still be at work.
    fn kept(&self, run: Option<&PluginRun>) -> Option<Connection> {
        let mut connections = self.connections.lock().expect("nothing panics under this lock");
        let mut idle = 0;
        connections.retain(|connection| {
            let current = run.is_none() || connection.run.as_ref() == run;
            let taken = Arc::strong_count(&connection.seat) > HOLDERS;
            idle += usize::from(current && !taken);
            // Those in use end by themselves; of the idle ones, one is kept.
            !connection.seat.ended.load(Ordering::Relaxed)
                && (current || taken)
                && (taken || idle <= 1)
        });
        let free = |connection: &&Connection| {
            let current = run.is_none() || connection.run.as_ref() == run;
            current && Arc::strong_count(&connection.seat) < HOLDERS + MAX_STREAMS
        };
        connections.iter().find(free).cloned()
    }

    async fn connect(&self, run: Option<PluginRun>) -> io::Result<Connection> {
        let stream = UnixStream::connect(&self.address).await?;
        let (sender, driver) = Builder::new()
            .enable_push(false)
            .max_header_list_size(MAX_HEADER_LIST_BYTES)
            .initial_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_concurrent_reset_streams(1024)
            .handshake(stream)
            .await
            .map_err(io::Error::other)?;
        let seat = Seat::default();
        tokio::spawn(Self::drive(driver, Arc::clone(&seat), Arc::clone(&self.telemetry)));
        let connection = Connection { sender, seat, run };
        let mut connections = self.connections.lock().expect("nothing panics under this lock");
        connections.push(connection.clone());
        Ok(connection)
    }

    /// Runs a connection to its end. How it ended is learned by the calls on it.
    async fn drive(
        driver: h2::client::Connection<UnixStream>,
        seat: Seat,
        telemetry: Arc<Telemetry>,
    ) {
        telemetry.connected();
        let _ = driver.await;
        seat.ended.store(true, Ordering::Relaxed);
        telemetry.disconnected();
    }
}

fn classify(error: h2::Error) -> SendError {
    if body::reset_by_peer(&error) { SendError::Reset(error) } else { SendError::Lost(error) }
}
