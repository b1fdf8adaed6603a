//! The socket: HTTP/2 in, the right handler, HTTP/2 out. No codec, so that nothing is hidden.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{UnixListener, UnixStream};
use tonic::{Code, Status};

use super::process::Life;
use super::{Act, Call, End, Method, echo};
use crate::support::rpc::{frame, unframe};

/// grpc-go's default limit of a header list.
const HEADER_LIST_BYTES: u32 = 16 << 20;

/// Room for a large message to arrive without waiting for the reader.
const WINDOW_BYTES: u32 = 1 << 20;

pub type Body = UnsyncBoxBody<Bytes, Infallible>;

/// Accepts until the life ends.
pub async fn serve(listener: UnixListener, life: &Arc<Life>) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(converse(stream, Arc::clone(life)));
    }
}

async fn converse(stream: UnixStream, life: Arc<Life>) {
    let service = service_fn(move |request| {
        let life = Arc::clone(&life);
        async move { Ok::<_, Infallible>(answer(&life, request).await) }
    });
    let _ = http2::Builder::new(TokioExecutor::new())
        // grpc-go sends none.
        .auto_date_header(false)
        .max_header_list_size(HEADER_LIST_BYTES)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn answer(life: &Arc<Life>, request: Request<Incoming>) -> Response<Body> {
    let kind = request.headers().get("content-type").and_then(|kind| kind.to_str().ok());
    if !kind.is_some_and(|kind| kind.starts_with("application/grpc")) {
        let mut refusal = failure(&Status::unknown("invalid gRPC request content-type"));
        *refusal.status_mut() = http::StatusCode::UNSUPPORTED_MEDIA_TYPE;
        return refusal;
    }
    match Method::from_path(request.uri().path()) {
        Some(method) => unary(life, method, request).await,
        None => echo::answer(&life.shared, request).await,
    }
}

/// Grpc-go's answer to a service or method nobody registered.
pub fn unknown(path: &str) -> Response<Body> {
    let (service, method) = path.trim_start_matches('/').rsplit_once('/').unwrap_or(("", ""));
    let known = Method::ALL.iter().any(|method| method.path().starts_with(&format!("/{service}/")));
    failure(&Status::unimplemented(match known || echo::SERVICES.contains(&service) {
        true => format!("unknown method {method} for service {service}"),
        false => format!("unknown service {service}"),
    }))
}

async fn unary(life: &Arc<Life>, method: Method, request: Request<Incoming>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let Ok(body) = body.collect().await else {
        return failure(&Status::cancelled("the caller went away"));
    };
    let message = match only_message(&body.to_bytes(), life.habits().receives_at_most_bytes) {
        Ok(message) => message,
        Err(status) => return failure(&status),
    };
    let volume = method.volume_of(&message);
    life.shared.counts.note_call(Call {
        method,
        volume: volume.clone(),
        headers: head.headers,
        message: message.clone(),
        at: Instant::now(),
    });
    // A task of its own: Longhorn's handlers never look at their context, so the work goes on
    // when the caller is gone.
    let work = tokio::spawn(act_out(Arc::clone(life), method, volume, message));
    let done = work.await.expect("a handler does not panic by itself");
    life.shared.counts.note_answer();
    match done {
        Ok((act, reply)) => success(reply, act),
        Err(status) => failure(&status),
    }
}

/// The work of one call and whatever the script does to it.
async fn act_out(
    life: Arc<Life>,
    method: Method,
    volume: String,
    message: Bytes,
) -> Result<(Act, Bytes), Status> {
    let at_work = life.shared.counts.enter(&volume);
    if !life.habits().no_in_flight_guard && !volume.is_empty() && at_work.others > 0 {
        return Err(Status::aborted(format!("an operation on volume {volume} is in progress")));
    }
    let act = life.shared.script.next(method, &volume);
    tokio::time::sleep(act.delay_before).await;
    if let Some(end) = &act.instead {
        return Err(end_by_command(&life, end).await);
    }
    let done = life.perform(method, message).await;
    tokio::time::sleep(act.delay_after).await;
    if let Some(end) = &act.then {
        return Err(end_by_command(&life, end).await);
    }
    done.map(|reply| (act, reply))
}

async fn end_by_command(life: &Life, end: &End) -> Status {
    match end {
        End::Fail(status) => status.clone(),
        End::Hang => std::future::pending().await,
        End::Panic => {
            life.crash.notify_one();
            std::future::pending().await
        }
    }
}

fn only_message(body: &Bytes, limit_bytes: usize) -> Result<Bytes, Status> {
    if body.first() == Some(&1) {
        return Err(Status::unimplemented("grpc: Decompressor is not installed"));
    }
    let messages = unframe(body);
    match messages.as_slice() {
        [message] if message.len() <= limit_bytes => Ok(message.clone()),
        [message] => Err(Status::resource_exhausted(format!(
            "grpc: received message larger than max ({} vs. {limit_bytes})",
            message.len()
        ))),
        _ => Err(Status::internal("cardinality violation: a unary call has one message")),
    }
}

fn success(reply: Bytes, act: Act) -> Response<Body> {
    let mut trailers = act.trailers;
    trailers.insert("grpc-status", http::HeaderValue::from_static("0"));
    let frames = [Frame::data(frame(&reply)), Frame::trailers(trailers)];
    respond(act.headers, stream::iter(frames))
}

/// Headers, then whatever frames come.
pub fn respond<S>(headers: HeaderMap, frames: S) -> Response<Body>
where
    S: stream::Stream<Item = Frame<Bytes>> + Send + 'static,
{
    use futures_util::StreamExt;
    let body = UnsyncBoxBody::new(StreamBody::new(frames.map(Ok)));
    let mut response = Response::new(body);
    *response.headers_mut() = headers;
    response
        .headers_mut()
        .insert("content-type", http::HeaderValue::from_static("application/grpc"));
    response
}

/// An answer that has no message: grpc-go sends it as one block of headers.
pub fn failure(status: &Status) -> Response<Body> {
    debug_assert_ne!(status.code(), Code::Ok);
    respond(trailers_of(status), stream::empty())
}

pub fn trailers_of(status: &Status) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    status.add_header(&mut trailers).expect("a status that fits into headers");
    trailers
}
