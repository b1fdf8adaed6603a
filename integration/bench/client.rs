//! A caller that costs little, so that the proxy's share of a call shows.

use std::io;
use std::path::Path;

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::UnixStream;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use super::messages::Call;

/// Room for a whole large reply: a window that has to be reopened would measure the caller.
const WINDOW_BYTES: u32 = 8 << 20;

/// One thread, like one of kubelet's calls: it waits for its answer.
pub fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("build the runtime")
}

pub struct Connection {
    sender: SendRequest<Full<Bytes>>,
    driver: JoinHandle<hyper::Result<()>>,
}

/// What came back, as far as the bench looks at it.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    pub grpc_status: String,
    pub bytes: usize,
}

#[derive(Debug, thiserror::Error)]
pub enum CallError {
    #[error("cannot connect")]
    Connect { source: io::Error },
    #[error("no HTTP/2 on the connection")]
    Handshake { source: hyper::Error },
    #[error("the call broke off")]
    Broken { source: hyper::Error },
    #[error("answered with HTTP status {status}")]
    Http { status: StatusCode },
    #[error("answered without a gRPC status")]
    NoStatus,
    #[error("answered, but not as the plugin does")]
    NotReady,
    #[error("not answered in time")]
    Silent,
}

impl Connection {
    pub async fn open(socket: &Path) -> Result<Self, CallError> {
        let stream = UnixStream::connect(socket).await;
        let stream = stream.map_err(|source| CallError::Connect { source })?;
        let (sender, driver) = Builder::new(TokioExecutor::new())
            // No call before the other side's SETTINGS: grpc-go, and so kubelet, waits for them
            // (`newHTTP2Client` blocks until the server's preface has come).
            .initial_max_send_streams(0)
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|source| CallError::Handshake { source })?;
        Ok(Self { sender, driver: tokio::spawn(driver) })
    }

    pub async fn call(&mut self, call: &Call) -> Result<Answer, CallError> {
        let broken = |source| CallError::Broken { source };
        self.sender.ready().await.map_err(broken)?;
        let response = self.sender.send_request(request(call)).await.map_err(broken)?;
        if response.status() != StatusCode::OK {
            return Err(CallError::Http { status: response.status() });
        }
        let (head, mut body) = response.into_parts();
        // A call that failed at once carries its status in the head.
        let mut grpc_status = status_in(&head.headers);
        let mut bytes = 0;
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(broken)?;
            if let Some(data) = frame.data_ref() {
                bytes += data.len();
            }
            if let Some(trailers) = frame.trailers_ref() {
                grpc_status = status_in(trailers);
            }
        }
        Ok(Answer { grpc_status: grpc_status.ok_or(CallError::NoStatus)?, bytes })
    }

    /// Says goodbye and waits until the socket is closed.
    pub async fn close(self) {
        drop(self.sender);
        // How the other side took it is of no interest any more.
        let _ = self.driver.await;
    }
}

/// Connects, calls once, closes: what kubelet does for every call to a plugin.
pub async fn call_afresh(socket: &Path, call: &Call) -> Result<Answer, CallError> {
    let mut connection = Connection::open(socket).await?;
    let answer = connection.call(call).await;
    connection.close().await;
    answer
}

/// The head that grpc-go sends in kubelet's name.
fn request(call: &Call) -> Request<Full<Bytes>> {
    Request::post(call.path.as_str())
        .header(header::CONTENT_TYPE, "application/grpc")
        .header(header::USER_AGENT, "grpc-go/1.72.1")
        .header(header::TE, "trailers")
        .header("grpc-timeout", "119S")
        .body(Full::new(call.body.clone()))
        .expect("the head is made of constants")
}

fn status_in(headers: &HeaderMap) -> Option<String> {
    Some(headers.get("grpc-status")?.to_str().ok()?.to_owned())
}
