//! Connections to the plugin: one that is kept, and more only while it is full.

use std::future::Future;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep, timeout_at};

use super::body::Body;
use super::gather::Gather;
use super::{CONNECTION_WINDOW_BYTES, MAX_HEADER_LIST_BYTES, STREAM_WINDOW_BYTES};
use crate::facts::call::PluginRun;
use crate::telemetry::{Telemetry, Trouble};

/// How many calls share a connection.
///
/// The plugin may admit as few as 100 streams (grpc-go's advice; hyper's default is 200), and a
/// call beyond that waits behind the others, which a Probe must never do. Sixty leave room; at
/// half, connections are made without need; at double, a plugin with 100 makes calls wait.
pub(super) const MAX_STREAMS: usize = 60;

/// Between two tries to reach a plugin that is not there.
///
/// Fifty milliseconds are not felt by a caller and cost nothing. At half or double likewise.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// A place on a connection, taken for as long as a call lasts.
pub type Seat = Arc<()>;

/// Connections to the plugin's socket.
pub struct Pool {
    address: PathBuf,
    connections: Mutex<Vec<Connection>>,
    telemetry: Arc<Telemetry>,
}

#[derive(Clone)]
struct Connection {
    sender: SendRequest<Body>,
    /// Held once by the pool and once by each call.
    seats: Seat,
    run: Option<PluginRun>,
}

/// Why a request got no response.
#[derive(Debug)]
pub enum SendError {
    /// It never left: the plugin is not there.
    NotSent(io::Error),
    /// The plugin reset this one call. Its reason is inside.
    Reset(hyper::Error),
    /// The connection broke after the request had left.
    Lost(hyper::Error),
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

    /// Sends `request`; waits for a plugin that is not there, but not past `give_up`.
    /// `before_sending` may change the request at the last moment (its deadline has moved on).
    ///
    /// # Errors
    /// See [`SendError`].
    pub async fn send(
        &self,
        mut request: Request<Body>,
        give_up: Instant,
        before_sending: impl Fn(&mut Request<Body>),
    ) -> Result<(Response<Incoming>, Seat), SendError> {
        loop {
            let connection = self.connection(give_up).await.map_err(SendError::NotSent)?;
            let Connection { mut sender, seats: seat, .. } = connection;
            before_sending(&mut request);
            match sender.try_send_request(request).await {
                Ok(response) => {
                    self.telemetry.cleared(Trouble::Plugin);
                    return Ok((response, seat));
                }
                Err(mut failed) => match failed.take_message() {
                    // The connection had ended before the request left: try a new one.
                    Some(unsent) => request = unsent,
                    None => return Err(classify(failed.into_error())),
                },
            }
            sleep(Duration::from_millis(1)).await;
        }
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
            let taken = Arc::strong_count(&connection.seats) > 1;
            idle += usize::from(current && !taken);
            // Those in use end by themselves; of the idle ones, one is kept.
            !connection.sender.is_closed() && (current || taken) && (taken || idle <= 1)
        });
        let free = |connection: &&Connection| {
            let current = run.is_none() || connection.run.as_ref() == run;
            current && Arc::strong_count(&connection.seats) <= MAX_STREAMS
        };
        connections.iter().find(free).cloned()
    }

    async fn connect(&self, run: Option<PluginRun>) -> io::Result<Connection> {
        let stream = UnixStream::connect(&self.address).await?;
        let (sender, driver) = Builder::new(TokioExecutor::new())
            .max_header_list_size(MAX_HEADER_LIST_BYTES)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_concurrent_reset_streams(1024)
            .handshake(Gather::new(TokioIo::new(stream)))
            .await
            .map_err(io::Error::other)?;
        tokio::spawn(Self::drive(driver, Arc::clone(&self.telemetry)));
        let connection = Connection { sender, seats: Arc::new(()), run };
        let mut connections = self.connections.lock().expect("nothing panics under this lock");
        connections.push(connection.clone());
        Ok(connection)
    }

    /// Runs a connection to its end. How it ended is learned by the calls on it.
    async fn drive(driver: impl Future<Output = hyper::Result<()>>, telemetry: Arc<Telemetry>) {
        telemetry.connected();
        let _ = driver.await;
        telemetry.disconnected();
    }
}

fn classify(error: hyper::Error) -> SendError {
    if super::body::reset_by_peer(&error) {
        SendError::Reset(error)
    } else {
        SendError::Lost(error)
    }
}
