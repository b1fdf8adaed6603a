//! The calls themselves: one connection each, the deadline as `grpc-timeout`.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use mount_guard::csi;
use mount_guard::csi::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};
use prost::Message;
use tokio::time::Instant;
use tonic::Status;

use super::wire::{Publish, Stage, entries};
use super::{Claimed, Kubelet};
use crate::support::plugin::Method;
use crate::support::rpc;

impl Kubelet {
    pub(super) async fn ask_capabilities(&self, times: u8, until: Instant) -> Result<(), Status> {
        for _ in 0..times {
            self.call(Method::GetCapabilities, Vec::new(), until).await?;
        }
        Ok(())
    }

    pub(super) async fn call_stage(
        &self,
        volume: &Claimed,
        turn: usize,
        until: Instant,
    ) -> Result<(), Status> {
        self.call(Method::Stage, self.stage_request(volume, turn), until).await.map(drop)
    }

    pub(super) async fn call_publish(
        &self,
        pod: &str,
        volume: &Claimed,
        turn: usize,
        until: Instant,
    ) -> Result<(), Status> {
        let request = self.publish_request(pod, volume, turn);
        self.call(Method::Publish, request, until).await.map(drop)
    }

    /// The bytes of a Stage; `turn` chooses the order of map entries.
    pub fn stage_request(&self, volume: &Claimed, turn: usize) -> Vec<u8> {
        let request = Stage {
            volume_id: volume.id.clone(),
            publish_context: entries(&volume.publish_context, turn),
            staging_target_path: self.paths.staging(volume).display().to_string(),
            volume_capability: Some(capability(volume)),
            secrets: entries(&volume.secrets, turn),
            volume_context: entries(&volume.volume_context, turn),
        };
        request.encode_to_vec()
    }

    /// The bytes of a Publish; `turn` chooses the order of map entries.
    pub fn publish_request(&self, pod: &str, volume: &Claimed, turn: usize) -> Vec<u8> {
        let request = Publish {
            volume_id: volume.id.clone(),
            publish_context: entries(&volume.publish_context, turn),
            staging_target_path: self.paths.staging(volume).display().to_string(),
            target_path: self.paths.target(pod, volume).display().to_string(),
            volume_capability: Some(capability(volume)),
            readonly: volume.read_only,
            secrets: entries(&volume.secrets, turn),
            volume_context: entries(&volume.volume_context, turn),
        };
        request.encode_to_vec()
    }

    pub(super) async fn call_unstage(
        &self,
        volume: &Claimed,
        until: Instant,
    ) -> Result<(), Status> {
        let request = csi::NodeUnstageVolumeRequest {
            volume_id: volume.id.clone(),
            staging_target_path: self.paths.staging(volume).display().to_string(),
        };
        self.call(Method::Unstage, request.encode_to_vec(), until).await.map(drop)
    }

    pub(super) async fn call_unpublish(
        &self,
        pod: &str,
        volume: &Claimed,
        until: Instant,
    ) -> Result<(), Status> {
        let request = csi::NodeUnpublishVolumeRequest {
            volume_id: volume.id.clone(),
            target_path: self.paths.target(pod, volume).display().to_string(),
        };
        self.call(Method::Unpublish, request.encode_to_vec(), until).await.map(drop)
    }

    pub(super) async fn call_expand(
        &self,
        pod: &str,
        volume: &Claimed,
        required_bytes: i64,
        until: Instant,
    ) -> Result<(), Status> {
        let request = csi::NodeExpandVolumeRequest {
            volume_id: volume.id.clone(),
            volume_path: self.paths.target(pod, volume).display().to_string(),
            capacity_range: Some(csi::CapacityRange { required_bytes, limit_bytes: 0 }),
            staging_target_path: self.paths.staging(volume).display().to_string(),
            volume_capability: Some(capability(volume)),
            secrets: volume.secrets.clone(),
        };
        self.call(Method::Expand, request.encode_to_vec(), until).await.map(drop)
    }

    pub(super) async fn call_volume_stats(
        &self,
        pod: &str,
        volume: &Claimed,
        until: Instant,
    ) -> Result<csi::NodeGetVolumeStatsResponse, Status> {
        let request = csi::NodeGetVolumeStatsRequest {
            volume_id: volume.id.clone(),
            volume_path: self.paths.target(pod, volume).display().to_string(),
            staging_target_path: self.paths.staging(volume).display().to_string(),
        };
        let reply = self.call(Method::GetVolumeStats, request.encode_to_vec(), until).await?;
        csi::NodeGetVolumeStatsResponse::decode(reply)
            .map_err(|error| Status::internal(error.to_string()))
    }

    /// One call as kubelet makes it. At the deadline the stream is reset.
    ///
    /// # Errors
    /// The driver's status; DEADLINE_EXCEEDED; UNAVAILABLE where nobody listens.
    pub async fn call(
        &self,
        method: Method,
        request: Vec<u8>,
        until: Instant,
    ) -> Result<Bytes, Status> {
        let headers = headers(until);
        let answer = rpc::call_once(&self.socket, method.path(), &headers, &request);
        match tokio::time::timeout_at(until, answer).await {
            Err(_) => Err(Status::deadline_exceeded("context deadline exceeded")),
            Ok(Err(error)) => Err(Status::unavailable(format!("connection error: {error}"))),
            Ok(Ok(answer)) => answer.reply(),
        }
    }
}

/// The headers kubelet sends, and none besides.
fn headers(until: Instant) -> HeaderMap {
    let left = until.saturating_duration_since(Instant::now());
    let timeout = format!("{}m", left.as_micros().div_ceil(1000));
    let mut headers = HeaderMap::new();
    headers.insert("user-agent", HeaderValue::from_static("grpc-go/1.81.1"));
    headers.insert("grpc-accept-encoding", HeaderValue::from_static("gzip"));
    headers.insert("grpc-timeout", HeaderValue::from_str(&timeout).expect("a timeout"));
    headers
}

fn capability(volume: &Claimed) -> csi::VolumeCapability {
    let access_type = match volume.block {
        true => AccessType::Block(BlockVolume {}),
        false => AccessType::Mount(MountVolume {
            fs_type: volume.fs_type.clone(),
            mount_flags: volume.mount_flags.clone(),
            ..Default::default()
        }),
    };
    csi::VolumeCapability {
        access_type: Some(access_type),
        access_mode: Some(AccessMode { mode: volume.access.into() }),
    }
}
