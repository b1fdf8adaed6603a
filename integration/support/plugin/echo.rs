//! Services that show whether what lies between is transparent. Raw: no codec, no limits.
//!
//! * `/csi.v1.Controller/ControllerGetCapabilities`: a fixed reply; `…/CreateVolume`: the request.
//! * `/csi.v1.SnapshotMetadata/GetMetadataAllocated`: as many copies of the request as the
//!   metadata `x-messages` says (default 3), then DATA_LOSS with details and trailers.
//! * `/test.Echo/Chat`: every DATA frame comes back as it arrives; the metadata comes back as
//!   headers at once and as trailers at the end.
//! * `/test.Echo/Reply`: the bytes of the request; the metadata as headers and trailers.
//!   `x-sleep-ms` makes it wait, `x-status` makes it fail with that code.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::BodyExt;
use hyper::body::{Frame, Incoming};
use tonic::{Code, Status};

use super::process::Shared;
use super::serve::{Body, failure, respond, trailers_of, unknown};
use crate::support::rpc::{frame, unframe};

pub const SERVICES: [&str; 3] = ["csi.v1.Controller", "csi.v1.SnapshotMetadata", "test.Echo"];

/// `ControllerGetCapabilitiesResponse{capabilities: [{rpc: {type: CREATE_DELETE_VOLUME}}]}`.
const CONTROLLER_CAPABILITIES: [u8; 6] = [0x0a, 4, 0x0a, 2, 0x08, 1];

pub async fn answer(shared: &Arc<Shared>, request: Request<Incoming>) -> Response<Body> {
    let path = request.uri().path().to_owned();
    match path.as_str() {
        "/csi.v1.Controller/ControllerGetCapabilities" => {
            let reply = frame(&CONTROLLER_CAPABILITIES);
            respond(HeaderMap::new(), stream::iter([Frame::data(reply), Frame::trailers(ok())]))
        }
        "/csi.v1.Controller/CreateVolume" | "/test.Echo/Reply" => reply(request).await,
        "/csi.v1.SnapshotMetadata/GetMetadataAllocated" => allocated(request).await,
        "/test.Echo/Chat" => chat(shared, request),
        _ => unknown(&path),
    }
}

async fn reply(request: Request<Incoming>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let metadata = metadata_of(&head.headers);
    let Ok(body) = body.collect().await else {
        return failure(&Status::cancelled("the caller went away"));
    };
    if let Some(wait) = number(&head.headers, "x-sleep-ms") {
        tokio::time::sleep(Duration::from_millis(wait)).await;
    }
    if let Some(code) = number(&head.headers, "x-status") {
        let code = Code::from_i32(i32::try_from(code).unwrap_or(2));
        return failure(&Status::new(code, "as you asked"));
    }
    let mut trailers = metadata.clone();
    trailers.extend(ok());
    let frames = [Frame::data(body.to_bytes()), Frame::trailers(trailers)];
    respond(metadata, stream::iter(frames))
}

async fn allocated(request: Request<Incoming>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let Ok(body) = body.collect().await else {
        return failure(&Status::cancelled("the caller went away"));
    };
    let message = unframe(&body.to_bytes()).into_iter().next().unwrap_or_default();
    let count = number(&head.headers, "x-messages").unwrap_or(3);
    let details = Bytes::from_static(b"\x00details\xff");
    let status = Status::with_details(Code::DataLoss, "the snapshot ends here", details);
    let mut trailers = trailers_of(&status);
    trailers.insert("x-trailer", HeaderValue::from_static("last words"));
    let messages = stream::iter(0..count).map(move |_| Frame::data(frame(&message)));
    respond(HeaderMap::new(), messages.chain(stream::iter([Frame::trailers(trailers)])))
}

fn chat(shared: &Arc<Shared>, request: Request<Incoming>) -> Response<Body> {
    let open = OpenChat::enter(shared);
    let (head, mut body) = request.into_parts();
    let metadata = metadata_of(&head.headers);
    let mut trailers = metadata.clone();
    trailers.extend(ok());
    let echoes = stream::poll_fn(move |context| {
        // Dropped with the stream: when it ended, or when the caller went away.
        let _open = &open;
        use hyper::body::Body as _;
        std::pin::Pin::new(&mut body).poll_frame(context)
    });
    let echoes = echoes.filter_map(async |frame| frame.ok()?.into_data().ok().map(Frame::data));
    respond(metadata, echoes.chain(stream::iter([Frame::trailers(trailers)])))
}

/// The metadata of a request: all headers that are not the protocol's own.
fn metadata_of(headers: &HeaderMap) -> HeaderMap {
    let own = ["content-type", "te", "user-agent", "content-length"];
    let is_metadata = |name: &str| !own.contains(&name) && !name.starts_with("grpc-");
    headers
        .iter()
        .filter(|(name, _)| is_metadata(name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .fold(HeaderMap::new(), |mut map, (name, value)| {
            map.append(name, value);
            map
        })
}

fn number(headers: &HeaderMap, name: &str) -> Option<u64> {
    headers.get(name)?.to_str().ok()?.parse().ok()
}

fn ok() -> HeaderMap {
    HeaderMap::from_iter([(
        http::HeaderName::from_static("grpc-status"),
        HeaderValue::from_static("0"),
    )])
}

/// A conversation that both sides still hold.
struct OpenChat(Arc<Shared>);

impl OpenChat {
    fn enter(shared: &Arc<Shared>) -> Self {
        shared.counts.chat_began();
        Self(Arc::clone(shared))
    }
}

impl Drop for OpenChat {
    fn drop(&mut self) {
        self.0.counts.chat_ended();
    }
}
