//! Where a request goes: through the guard if it is one of the five volume calls, straight on if
//! it is anything else.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use h2::RecvStream;
use http::request::Parts;
use http::{HeaderMap, Request, Response};
use tokio::time::Instant;
use tracing::{info, warn};

use super::body::{Body, ResponseBody, Whole};
use super::frame::{self, Unary};
use super::plugin::{Plugin, WholeCall, authorized};
use super::pool::{Pool, Reply, SendError};
use super::{content, deadline, request, status};
use crate::facts::call::Method;
use crate::guard::answer::Answer;
use crate::guard::{Call, Guard, PLUGIN_WAIT};
use crate::host::Host;
use crate::telemetry::{Decision, Side, Telemetry};

/// Takes every request of every connection.
pub struct Router<H: Host> {
    guard: Arc<Guard<Plugin, H>>,
    pool: Arc<Pool>,
    telemetry: Arc<Telemetry>,
}

/// A request that arrived, and what it said of its deadline.
struct Arrived {
    method: &'static str,
    at: Instant,
    patience: Option<Duration>,
}

impl<H: Host> Router<H> {
    #[must_use]
    pub fn new(guard: Arc<Guard<Plugin, H>>, pool: Arc<Pool>, telemetry: Arc<Telemetry>) -> Self {
        Self { guard, pool, telemetry }
    }

    /// Answers one request.
    ///
    /// # Errors
    /// Where the plugin reset the call, or the caller did: the reason goes on as it is.
    pub async fn route(&self, request: Request<RecvStream>) -> Result<Response<Body>, h2::Error> {
        let path = request.uri().path();
        let arrived = Arrived {
            method: label(path),
            at: Instant::now(),
            patience: deadline::parse(request.headers()),
        };
        let guarded = guarded(path);
        let (parts, body) = request.into_parts();
        match guarded {
            Some(method) => self.volume_call(&arrived, method, parts, body).await,
            None => self.pass(&arrived, parts, Body::Request(body)).await,
        }
    }

    /// One of the five: taken in whole, decoded as a copy, sent as it came.
    async fn volume_call(
        &self,
        arrived: &Arrived,
        method: Method,
        parts: Parts,
        mut body: RecvStream,
    ) -> Result<Response<Body>, h2::Error> {
        let body = Whole::read(&mut body).await?;
        let (request, digest) = match understand(method, &body.data) {
            Ok(understood) => understood,
            Err(decision) => {
                self.telemetry.decided(method, decision);
                warn!(%method, ?decision, "call sent unguarded");
                return self.pass(arrived, parts, Body::Whole(body)).await;
            }
        };
        let volume = request.volume().clone();
        let wire = WholeCall { parts: sendable(parts), body };
        let call = Call { request, digest, wire, patience: arrived.patience };
        let response = match self.guard.call(call).await {
            Answer::Plugin(reply) => {
                let code = status::name_in(reply.final_headers());
                self.telemetry.answered(arrived.method, code, Side::Plugin);
                reply.into_response()
            }
            Answer::Own(own) => status::response_of(&own),
        };
        let final_headers = match response.body() {
            Body::Whole(Whole { trailers: Some(trailers), .. }) => trailers,
            _ => response.headers(),
        };
        let code = status::name_in(final_headers);
        self.telemetry.answered(arrived.method, code, Side::Caller);
        let waited_ms = arrived.at.elapsed().as_millis();
        info!(volume.id = %volume, %method, code, waited_ms, "call answered");
        Ok(response)
    }

    /// Anything else, or a volume call that is not understood: its deadline and its cancellation
    /// go on to the plugin.
    async fn pass(
        &self,
        arrived: &Arrived,
        parts: Parts,
        body: Body,
    ) -> Result<Response<Body>, h2::Error> {
        let deadline = arrived.patience.map(|patience| arrived.at + patience);
        let wait = arrived.at + PLUGIN_WAIT;
        let give_up = deadline.map_or(wait, |deadline| deadline.min(wait));
        let at_deadline = deadline == Some(give_up);
        let sent = self.pool.send(sendable(parts), body, give_up, |head| {
            move_on(&mut head.headers, arrived);
        });
        let response = match sent.await {
            Ok(Reply { head, tail }) => {
                if head.headers.contains_key(status::GRPC_STATUS) {
                    let code = status::name_in(&head.headers);
                    self.telemetry.answered(arrived.method, code, Side::Plugin);
                    self.telemetry.answered(arrived.method, code, Side::Caller);
                }
                let telemetry = Arc::clone(&self.telemetry);
                let body = ResponseBody::new(tail, arrived.method, telemetry);
                return Ok(Response::from_parts(head, Body::Response(body)));
            }
            Err(SendError::Reset(reset)) => return Err(reset),
            Err(SendError::NotSent(_)) if at_deadline => status::deadline_exceeded(
                "mount-guard: longhorn-csi-plugin did not come back in time",
            ),
            Err(SendError::NotSent(error)) => status::unavailable(&format!(
                "mount-guard: longhorn-csi-plugin does not answer on its socket ({error}); look \
                 at the longhorn-csi-plugin container of this node"
            )),
            Err(SendError::Lost(_)) => status::unavailable(
                "mount-guard: longhorn-csi-plugin broke the connection before it answered",
            ),
        };
        let code = status::name_in(response.headers());
        self.telemetry.answered(arrived.method, code, Side::Caller);
        Ok(response)
    }
}

/// Decodes a volume call, or says why it goes unguarded.
fn understand(
    method: Method,
    body: &Bytes,
) -> Result<(crate::guard::request::Request, crate::guard::ContentDigest), Decision> {
    let message = match frame::parse_unary(body) {
        Unary::Message(message) => message,
        Unary::Compressed => return Err(Decision::Compressed),
        Unary::Malformed => return Err(Decision::Malformed),
    };
    // A panic here is our own mistake, and no reason to stop a volume.
    let parsed = std::panic::catch_unwind(|| {
        let request = request::parse(method, message).ok()?;
        Some((request, content::digest(method, message)?))
    });
    parsed.ok().flatten().ok_or(Decision::Malformed)
}

/// The request as the plugin's connection takes it; nothing the caller said is changed.
fn sendable(mut parts: Parts) -> Parts {
    parts.uri = authorized(&parts.uri);
    parts
}

/// A call that waited has less time left than it said; one that did not is left alone.
fn move_on(headers: &mut HeaderMap, arrived: &Arrived) {
    let waited = arrived.at.elapsed();
    if waited < Duration::from_millis(10) {
        return;
    }
    if let Some(patience) = arrived.patience {
        let left = patience.saturating_sub(waited);
        headers.insert(deadline::GRPC_TIMEOUT, deadline::header(left));
    }
}

/// Is this one of the five volume calls?
fn guarded(path: &str) -> Option<Method> {
    match path.strip_prefix("/csi.v1.Node/")? {
        "NodeStageVolume" => Some(Method::Stage),
        "NodeUnstageVolume" => Some(Method::Unstage),
        "NodePublishVolume" => Some(Method::Publish),
        "NodeUnpublishVolume" => Some(Method::Unpublish),
        "NodeExpandVolume" => Some(Method::Expand),
        _ => None,
    }
}

/// The name of a method in metrics: one of a fixed list, so that nobody who calls made-up
/// methods can fill the memory with them.
fn label(path: &str) -> &'static str {
    const KNOWN: [&str; 3] = ["Probe", "GetPluginInfo", "GetPluginCapabilities"];
    const NODE: [&str; 3] = ["NodeGetCapabilities", "NodeGetInfo", "NodeGetVolumeStats"];
    if let Some(method) = guarded(path) {
        return method.name();
    }
    let known = |prefix: &str, names: &[&'static str]| {
        let method = path.strip_prefix(prefix)?;
        names.iter().copied().find(|name| *name == method)
    };
    known("/csi.v1.Identity/", &KNOWN).or_else(|| known("/csi.v1.Node/", &NODE)).unwrap_or(
        match path {
            _ if path.starts_with("/csi.v1.Controller/") => "controller",
            _ => "other",
        },
    )
}
