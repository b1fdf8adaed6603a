//! A gRPC client that hides nothing: raw frames out; status line, headers, bytes, trailers or the
//! reason of a reset back.

#![allow(dead_code, reason = "part of the kit: not every test asks for everything")]

use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::path::Path;

use bytes::{BufMut, Bytes, BytesMut};
use futures_util::stream;
use http::{HeaderMap, Request};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tonic::Status;

/// What grpc-go takes as a header list; hyper's own 16 KiB cut Longhorn's long messages off.
const HEADER_LIST_BYTES: u32 = 16 << 20;

/// Room for a large message to arrive without waiting for the reader.
const WINDOW_BYTES: u32 = 1 << 20;

/// All that came back for one call.
#[derive(Debug, Clone)]
pub struct Answer {
    pub http_status: u16,
    pub headers: HeaderMap,
    /// Every byte of every DATA frame, in order, gRPC's message prefixes included.
    pub data: Bytes,
    pub trailers: Option<HeaderMap>,
    /// Why the stream ended, where it did not end well.
    pub broken: Option<String>,
}

impl Answer {
    pub fn messages(&self) -> Vec<Bytes> {
        unframe(&self.data)
    }

    /// The gRPC status, from the trailers or from a response that has nothing but headers.
    pub fn status(&self) -> Status {
        if let Some(reason) = &self.broken {
            return Status::unavailable(reason.clone());
        }
        let trailers = self.trailers.as_ref().and_then(Status::from_header_map);
        trailers
            .or_else(|| Status::from_header_map(&self.headers))
            .unwrap_or_else(|| Status::unknown("no grpc-status"))
    }

    /// The one message of a call that went well.
    ///
    /// # Errors
    /// The status of one that did not.
    pub fn reply(&self) -> Result<Bytes, Status> {
        match self.status() {
            status if status.code() == tonic::Code::Ok => {
                Ok(self.messages().into_iter().next().unwrap_or_default())
            }
            status => Err(status),
        }
    }
}

/// A connection to a socket; calls on it run side by side.
#[derive(Debug, Clone)]
pub struct Rpc {
    sender: SendRequest<UnsyncBoxBody<Bytes, Infallible>>,
}

impl Rpc {
    /// # Errors
    /// What connect(2) says, or a failed HTTP/2 handshake.
    pub async fn connect(socket: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(socket).await?;
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .max_header_list_size(HEADER_LIST_BYTES)
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(io::Error::other)?;
        tokio::spawn(connection);
        Ok(Self { sender })
    }

    /// Sends `messages` and waits for the end of the answer. Dropped, it resets the stream.
    pub async fn call(&self, path: &str, headers: &HeaderMap, messages: &[Bytes]) -> Answer {
        let mut stream = self.open(path, headers).await;
        for message in messages {
            stream.send(&frame(message));
        }
        stream.finish();
        stream.rest().await
    }

    /// Opens a call whose two directions the test moves by itself.
    pub async fn open(&self, path: &str, headers: &HeaderMap) -> Stream {
        let (outgoing, mut queue) = mpsc::unbounded_channel::<Bytes>();
        let frames = stream::poll_fn(move |context| {
            queue.poll_recv(context).map(|next| next.map(|data| Ok(Frame::data(data))))
        });
        let body = UnsyncBoxBody::new(http_body_util::StreamBody::new(frames));
        let mut request = Request::post(format!("http://localhost{path}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(body)
            .expect("a request");
        request.headers_mut().extend(headers.clone());
        let mut sender = self.sender.clone();
        let response = tokio::spawn(async move { sender.send_request(request).await });
        Stream { outgoing: Some(outgoing), response: Some(Abort(response)), incoming: None }
    }
}

/// One call on a connection of its own, as kubelet makes them.
///
/// # Errors
/// What connect(2) says, or a failed HTTP/2 handshake.
pub async fn call_once(
    socket: &Path,
    path: &str,
    headers: &HeaderMap,
    message: &[u8],
) -> io::Result<Answer> {
    let rpc = Rpc::connect(socket).await?;
    Ok(rpc.call(path, headers, &[Bytes::copy_from_slice(message)]).await)
}

type Response = http::Response<Incoming>;

/// A task that ends with its handle: a call that nobody waits for is reset.
#[derive(Debug)]
struct Abort(tokio::task::JoinHandle<Result<Response, hyper::Error>>);

impl Drop for Abort {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A call under way. Dropping it resets the stream.
#[derive(Debug)]
pub struct Stream {
    outgoing: Option<mpsc::UnboundedSender<Bytes>>,
    response: Option<Abort>,
    incoming: Option<Incoming>,
}

impl Stream {
    /// Sends bytes as they are; see [`frame`].
    pub fn send(&self, data: &Bytes) {
        if let Some(outgoing) = &self.outgoing {
            let _ = outgoing.send(data.clone());
        }
    }

    /// Ends the sending direction.
    pub fn finish(&mut self) {
        self.outgoing = None;
    }

    /// Waits for status line and headers; the rest of the answer is empty yet.
    pub async fn head(&mut self) -> Answer {
        let mut response = self.response.take().expect("the head is asked for once");
        match (&mut response.0).await.expect("the call's task") {
            Ok(response) => {
                let (head, body) = response.into_parts();
                self.incoming = Some(body);
                answer(head.status.as_u16(), head.headers)
            }
            Err(error) => Answer { broken: Some(reason(&error)), ..answer(0, HeaderMap::new()) },
        }
    }

    /// The next DATA frame; `None` at the end or at the trailers.
    pub async fn data(&mut self) -> Option<Bytes> {
        self.incoming.as_mut()?.frame().await?.ok()?.into_data().ok()
    }

    /// Reads to the end. Headers that [`Stream::head`] returned are not in the answer again.
    pub async fn rest(mut self) -> Answer {
        let mut answer = match self.response.is_some() {
            true => self.head().await,
            false => answer(200, HeaderMap::new()),
        };
        let mut data = BytesMut::new();
        while let Some(body) = self.incoming.as_mut() {
            match body.frame().await {
                None => break,
                Some(Err(error)) => {
                    answer.broken = Some(reason(&error));
                    break;
                }
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(bytes) => data.extend_from_slice(&bytes),
                    Err(frame) => answer.trailers = frame.into_trailers().ok(),
                },
            }
        }
        answer.data = data.freeze();
        answer
    }
}

/// A message with gRPC's prefix: not compressed, its length.
pub fn frame(message: &[u8]) -> Bytes {
    let mut framed = BytesMut::with_capacity(message.len() + 5);
    framed.put_u8(0);
    framed.put_u32(u32::try_from(message.len()).expect("a message below 4 GiB"));
    framed.extend_from_slice(message);
    framed.freeze()
}

/// The messages in `data`; a last one that is cut off is left out.
pub fn unframe(data: &Bytes) -> Vec<Bytes> {
    let (mut messages, mut rest) = (Vec::new(), data.clone());
    while let Some(prefix) = rest.get(1..5) {
        let length = u32::from_be_bytes(prefix.try_into().expect("four bytes")) as usize;
        if rest.len() < 5 + length {
            break;
        }
        messages.push(rest.slice(5..5 + length));
        rest = rest.slice(5 + length..);
    }
    messages
}

fn answer(http_status: u16, headers: HeaderMap) -> Answer {
    Answer { http_status, headers, data: Bytes::new(), trailers: None, broken: None }
}

/// An error with everything it was caused by: the HTTP/2 reason stands at the end.
fn reason(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
