//! The plugin, as the guard sees it.

use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri, Version};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::Instant;

use super::body::{Body, Whole};
use super::deadline::GRPC_TIMEOUT;
use super::frame::EMPTY_MESSAGE;
use super::pool::{Pool, SendError};
use super::status;
use crate::facts::call::PluginRun;
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
        let request = Request::builder()
            .method(Method::POST)
            .uri(authorized(&Uri::from_static(Self::PLUGIN_INFO)))
            .version(Version::HTTP_2)
            .header(http::header::CONTENT_TYPE, "application/grpc")
            .header(http::header::TE, "trailers")
            .body(())
            .expect("every part of it is a constant");
        let body = Whole { data: Bytes::from_static(&EMPTY_MESSAGE), trailers: None };
        let call = WholeCall { parts: request.into_parts().0, body };
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
        let mut request = Request::from_parts(call.parts, Body::Whole(call.body));
        request.headers_mut().remove(GRPC_TIMEOUT);
        let sent = self.pool.send(request, give_up, |_| {}).await;
        let (response, _seat) = sent.map_err(|error| match error {
            SendError::NotSent(error) => NoReply::NotSent { why: error.to_string() },
            SendError::Reset(error) | SendError::Lost(error) => lost(&error),
        })?;
        collect(response).await.map_err(|error| lost(&error))
    }

    fn outcome(reply: &WholeReply) -> Outcome {
        status::outcome(reply.final_headers())
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

async fn collect(response: Response<Incoming>) -> Result<WholeReply, hyper::Error> {
    let (parts, body) = response.into_parts();
    let collected = body.collect().await?;
    let trailers = collected.trailers().cloned();
    let body = Whole { data: collected.to_bytes(), trailers };
    Ok(WholeReply { status: parts.status, headers: parts.headers, body })
}

/// hyper's errors say "http2 error"; what happened is in their cause.
fn lost(error: &hyper::Error) -> NoReply {
    let cause = std::error::Error::source(error);
    NoReply::Lost { why: cause.map_or_else(|| error.to_string(), ToString::to_string) }
}
