//! The plugin, as the guard sees it.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri, Version};
use tokio::time::Instant;

use super::body::{Body, Whole};
use super::deadline::GRPC_TIMEOUT;
use super::frame::{EMPTY_MESSAGE, framed};
use super::pool::{Pool, Reply, SendError};
use super::status;
use crate::csi::{NodeUnpublishVolumeRequest, NodeUnstageVolumeRequest};
use crate::facts::call::PluginRun;
use crate::guard::request::{
    self as guard, PublishRequest, StageRequest, UnpublishRequest, UnstageRequest,
};
use crate::guard::{NoReply, Outcome, Upstream};

/// Carries whole calls to the plugin and whole answers back.
pub struct Plugin {
    pool: Arc<Pool>,
}

/// A call that has arrived completely.
pub struct WholeCall {
    pub parts: Parts,
    pub body: Whole,
}

/// An answer that has arrived completely. Cloned for every caller that waits for it.
#[derive(Debug, Clone)]
pub struct WholeReply {
    status: StatusCode,
    headers: HeaderMap,
    body: Whole,
}

impl Plugin {
    #[must_use]
    pub fn new(pool: Arc<Pool>) -> Self {
        Self { pool }
    }

    /// The method path of Identity.GetPluginInfo, the first thing anybody asks a plugin.
    const PLUGIN_INFO: &'static str = "/csi.v1.Identity/GetPluginInfo";

    /// Asks the plugin for its name and version; `None` in place of an answer that is no success.
    ///
    /// # Errors
    /// [`NoReply`] if the plugin does not answer until `give_up`.
    pub async fn read_info(
        &self,
        give_up: Instant,
    ) -> Result<Option<crate::csi::GetPluginInfoResponse>, NoReply> {
        let call = own_call(Self::PLUGIN_INFO, Bytes::from_static(&EMPTY_MESSAGE));
        let asked = tokio::time::timeout_at(give_up, self.forward(call, give_up)).await;
        let reply = asked.map_err(|_| NoReply::Lost { why: "no answer in time".into() })??;
        let super::frame::Unary::Message(message) = super::frame::parse_unary(&reply.body.data)
        else {
            return Ok(None);
        };
        Ok(prost::Message::decode(message).ok())
    }
}

impl Upstream for Plugin {
    type Call = WholeCall;
    type Reply = WholeReply;

    fn plugin_run(&self) -> Option<PluginRun> {
        self.pool.plugin_run()
    }

    async fn reach(&self, give_up: Instant) -> Result<Option<PluginRun>, NoReply> {
        let reached = self.pool.reach(give_up).await;
        reached.map_err(|error| NoReply::NotSent { why: error.to_string() })
    }

    async fn forward(&self, call: WholeCall, give_up: Instant) -> Result<WholeReply, NoReply> {
        let WholeCall { mut parts, body } = call;
        parts.headers.remove(GRPC_TIMEOUT);
        let sent = self.pool.send(parts, Body::Whole(body), give_up, |_| {}).await;
        // The tail holds the seat until the whole answer is there.
        let Reply { head, mut tail } = sent.map_err(|error| match error {
            SendError::NotSent(error) => NoReply::NotSent { why: error.to_string() },
            SendError::Reset(error) | SendError::Lost(error) => lost(&error),
        })?;
        let body = Whole::read(&mut tail.stream).await.map_err(|error| lost(&error))?;
        Ok(WholeReply { status: head.status, headers: head.headers, body })
    }

    fn outcome(reply: &WholeReply) -> Outcome {
        status::outcome(reply.final_headers())
    }

    fn undo(request: &guard::Request) -> Option<(guard::Request, WholeCall)> {
        let volume = request.volume().clone();
        let volume_id = volume.to_string();
        match request {
            guard::Request::Stage(StageRequest { staging, .. }) => {
                let staging_target_path = text(staging.as_path())?;
                let message = NodeUnstageVolumeRequest { volume_id, staging_target_path };
                let staging = staging.clone();
                let undo = guard::Request::Unstage(UnstageRequest { volume, staging });
                Some((undo, own_call("/csi.v1.Node/NodeUnstageVolume", framed(&message))))
            }
            guard::Request::Publish(PublishRequest { target, .. }) => {
                let target_path = text(target.as_path())?;
                let message = NodeUnpublishVolumeRequest { volume_id, target_path };
                let target = target.clone();
                let undo = guard::Request::Unpublish(UnpublishRequest { volume, target });
                Some((undo, own_call("/csi.v1.Node/NodeUnpublishVolume", framed(&message))))
            }
            guard::Request::Unstage(_)
            | guard::Request::Unpublish(_)
            | guard::Request::Expand(_) => None,
        }
    }
}

impl WholeReply {
    /// The headers that carry the status: the trailers, or the only headers there are.
    pub(super) fn final_headers(&self) -> &HeaderMap {
        self.body.trailers.as_ref().unwrap_or(&self.headers)
    }

    pub(super) fn into_response(self) -> Response<Body> {
        let mut response = Response::new(Body::Whole(self.body));
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        response
    }
}

/// A call of the guard's own.
fn own_call(path: &'static str, message: Bytes) -> WholeCall {
    let request = Request::builder()
        .method(Method::POST)
        .uri(authorized(&Uri::from_static(path)))
        .version(Version::HTTP_2)
        .header(http::header::CONTENT_TYPE, "application/grpc")
        .header(http::header::TE, "trailers")
        .body(())
        .expect("every part of it is a constant");
    WholeCall { parts: request.into_parts().0, body: Whole { data: message, trailers: None } }
}

/// A path came as text.
fn text(path: &Path) -> Option<String> {
    path.to_str().map(str::to_owned)
}

/// `uri` with the scheme and authority that HTTP/2 wants, if it has none.
pub(super) fn authorized(uri: &Uri) -> Uri {
    if uri.authority().is_some() {
        return uri.clone();
    }
    Uri::builder()
        .scheme("http")
        .authority("localhost")
        .path_and_query(uri.path_and_query().map_or("/", |path| path.as_str()))
        .build()
        .expect("a path that was parsed is a path")
}

fn lost(error: &h2::Error) -> NoReply {
    NoReply::Lost { why: error.to_string() }
}
