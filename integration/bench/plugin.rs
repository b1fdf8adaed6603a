//! `integration bench-plugin`: a CSI node plugin that does nothing, at once.

use std::convert::Infallible;
use std::ffi::OsString;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::ExitCode;
use std::task::{Context, Poll};

use clap::Parser;
use futures_util::stream;
use mount_guard::csi::{
    GetPluginCapabilitiesRequest, GetPluginCapabilitiesResponse, GetPluginInfoRequest,
    GetPluginInfoResponse, NodeExpandVolumeRequest, NodeExpandVolumeResponse,
    NodeGetCapabilitiesRequest, NodeGetCapabilitiesResponse, NodeGetInfoRequest,
    NodeGetInfoResponse, NodeGetVolumeStatsRequest, NodeGetVolumeStatsResponse,
    NodePublishVolumeRequest, NodePublishVolumeResponse, NodeServiceCapability,
    NodeStageVolumeRequest, NodeStageVolumeResponse, NodeUnpublishVolumeRequest,
    NodeUnpublishVolumeResponse, NodeUnstageVolumeRequest, NodeUnstageVolumeResponse, ProbeRequest,
    ProbeResponse, VolumeCondition,
    node_service_capability::{Rpc, Type, rpc},
};
use tokio::net::UnixListener;
use tonic::transport::Server;
use tonic::{Request, Response, Status, body::Body};
use tower_service::Service;

use super::client::runtime;
use super::error::BenchError;
use super::messages::{ABSENT, SLOW};
use crate::support::csi::identity_server::{Identity, IdentityServer};
use crate::support::csi::node_server::{Node, NodeServer};

/// A reply as large as a node with thousands of conditions could send; gRPC allows 4 MiB.
pub const LARGE_REPLY_BYTES: usize = 2 << 20;

#[derive(Parser)]
struct Arguments {
    #[arg(long)]
    socket: PathBuf,
    /// How large the reply to `NodeGetVolumeStats` is.
    #[arg(long, default_value_t = LARGE_REPLY_BYTES)]
    stats_bytes: usize,
}

pub fn run(words: impl Iterator<Item = OsString>) -> ExitCode {
    let arguments = Arguments::parse_from(std::iter::once("bench-plugin".into()).chain(words));
    match runtime().block_on(serve(&arguments.socket, arguments.stats_bytes)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-plugin: {}", error.with_causes());
            ExitCode::FAILURE
        }
    }
}

pub fn capabilities() -> NodeGetCapabilitiesResponse {
    use rpc::Type::{ExpandVolume, GetVolumeStats, StageUnstageVolume};
    let capability = |kind: rpc::Type| NodeServiceCapability {
        r#type: Some(Type::Rpc(Rpc { r#type: kind.into() })),
    };
    NodeGetCapabilitiesResponse {
        capabilities: [StageUnstageVolume, GetVolumeStats, ExpandVolume].map(capability).into(),
    }
}

pub fn statistics(bytes: usize) -> NodeGetVolumeStatsResponse {
    NodeGetVolumeStatsResponse {
        volume_condition: Some(VolumeCondition { abnormal: false, message: "x".repeat(bytes) }),
        ..Default::default()
    }
}

async fn serve(socket: &Path, stats_bytes: usize) -> Result<(), BenchError> {
    let listener = UnixListener::bind(socket)
        .map_err(|source| BenchError::Listen { path: socket.to_owned(), source })?;
    let incoming = stream::unfold(listener, async |listener| {
        Some((listener.accept().await.map(|(stream, _)| stream), listener))
    });
    let plugin = Plugin { statistics: statistics(stats_bytes) };
    let services =
        Services { identity: IdentityServer::new(plugin.clone()), node: NodeServer::new(plugin) };
    let served = Server::builder().serve_with_incoming(services, incoming).await;
    served.map_err(|error| BenchError::Serve { path: socket.to_owned(), source: error })
}

/// Both services on one socket: tonic's router is not built in.
#[derive(Clone)]
struct Services {
    identity: IdentityServer<Plugin>,
    node: NodeServer<Plugin>,
}

impl Service<http::Request<Body>> for Services {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        match request.uri().path().starts_with("/csi.v1.Node/") {
            true => self.node.call(request),
            false => self.identity.call(request),
        }
    }
}

#[derive(Clone)]
struct Plugin {
    statistics: NodeGetVolumeStatsResponse,
}

/// A method of the plugin that succeeds with an empty reply.
macro_rules! at_once {
    ($($method:ident($request:ty) -> $response:ty;)+) => {$(
        #[allow(clippy::type_complexity, reason = "the shape of async_trait's methods")]
        fn $method<'a, 't>(&'a self, _: Request<$request>)
            -> Pin<Box<dyn Future<Output = Result<Response<$response>, Status>> + Send + 't>>
        where
            'a: 't,
            Self: 't,
        {
            Box::pin(async { Ok(Response::new(Default::default())) })
        }
    )+};
}

#[tonic::async_trait]
impl Identity for Plugin {
    async fn get_plugin_info(
        &self,
        _: Request<GetPluginInfoRequest>,
    ) -> Result<Response<GetPluginInfoResponse>, Status> {
        let name = "driver.longhorn.io".to_owned();
        Ok(Response::new(GetPluginInfoResponse { name, ..Default::default() }))
    }

    at_once! {
        probe(ProbeRequest) -> ProbeResponse;
        get_plugin_capabilities(GetPluginCapabilitiesRequest) -> GetPluginCapabilitiesResponse;
    }
}

#[tonic::async_trait]
impl Node for Plugin {
    async fn node_get_capabilities(
        &self,
        _: Request<NodeGetCapabilitiesRequest>,
    ) -> Result<Response<NodeGetCapabilitiesResponse>, Status> {
        Ok(Response::new(capabilities()))
    }

    async fn node_get_volume_stats(
        &self,
        request: Request<NodeGetVolumeStatsRequest>,
    ) -> Result<Response<NodeGetVolumeStatsResponse>, Status> {
        match request.get_ref().volume_id.as_str() {
            ABSENT => Err(Status::not_found("no such volume")),
            SLOW => std::future::pending().await,
            _ => Ok(Response::new(self.statistics.clone())),
        }
    }

    at_once! {
        node_stage_volume(NodeStageVolumeRequest) -> NodeStageVolumeResponse;
        node_unstage_volume(NodeUnstageVolumeRequest) -> NodeUnstageVolumeResponse;
        node_publish_volume(NodePublishVolumeRequest) -> NodePublishVolumeResponse;
        node_unpublish_volume(NodeUnpublishVolumeRequest) -> NodeUnpublishVolumeResponse;
        node_expand_volume(NodeExpandVolumeRequest) -> NodeExpandVolumeResponse;
        node_get_info(NodeGetInfoRequest) -> NodeGetInfoResponse;
    }
}
