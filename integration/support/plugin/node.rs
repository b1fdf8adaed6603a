//! The methods of Identity and Node: from bytes to bytes.

use std::path::Path;

use bytes::Bytes;
use mount_guard::csi;
use mount_guard::csi::node_service_capability::rpc::Type as NodeCan;
use mount_guard::csi::plugin_capability::{self, service, volume_expansion};
use mount_guard::csi::volume_capability::AccessType;
use nix::sys::statvfs::statvfs;
use prost::Message;
use tonic::Status;

use super::Method;
use super::process::Life;
use super::request::{capability, required};

impl Life {
    /// Does what `method` asks for.
    ///
    /// # Errors
    /// The plugin's status.
    pub async fn perform(&self, method: Method, request: Bytes) -> Result<Bytes, Status> {
        Ok(match method {
            Method::GetPluginInfo => encode(&plugin_info()),
            Method::GetPluginCapabilities => encode(&plugin_capabilities()),
            Method::Probe => encode(&csi::ProbeResponse::default()),
            Method::Stage => encode(&self.stage(&decode(request)?).await?),
            Method::Unstage => encode(&self.unstage(&decode(request)?).await?),
            Method::Publish => encode(&self.publish(&decode(request)?).await?),
            Method::Unpublish => encode(&self.unpublish(&decode(request)?).await?),
            Method::GetVolumeStats => encode(&self.volume_stats(&decode(request)?)?),
            Method::Expand => encode(&self.expand(&decode(request)?).await?),
            Method::GetCapabilities => encode(&node_capabilities()),
            Method::GetInfo => encode(&node_info()),
        })
    }

    fn volume_stats(
        &self,
        req: &csi::NodeGetVolumeStatsRequest,
    ) -> Result<csi::NodeGetVolumeStatsResponse, Status> {
        let path = Path::new(required(&req.volume_path, "volume path")?);
        let id = required(&req.volume_id, "volume id")?;
        let volume = self.volume(id)?;
        let meta = std::fs::metadata(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                let path = path.display();
                Status::not_found(format!("volume {id} is not mounted on path {path}"))
            }
            _ => Status::internal(format!("failed to check volume mode for {id}: {error}")),
        })?;
        let is_block = std::os::unix::fs::FileTypeExt::is_block_device(&meta.file_type());
        let usage = match is_block {
            true => vec![usage(csi::volume_usage::Unit::Bytes, volume.size_bytes, 0, 0)],
            false => filesystem_usage(path)?,
        };
        Ok(csi::NodeGetVolumeStatsResponse { usage, volume_condition: None })
    }

    async fn expand(
        &self,
        req: &csi::NodeExpandVolumeRequest,
    ) -> Result<csi::NodeExpandVolumeResponse, Status> {
        let Some(range) = &req.capacity_range else {
            return Err(Status::invalid_argument("capacity range missing in request"));
        };
        let capability = capability(req.volume_capability.as_ref())?;
        let id = required(&req.volume_id, "volume id")?;
        let capacity_bytes = range.required_bytes;
        if matches!(capability.access_type, Some(AccessType::Block(_))) {
            return Ok(csi::NodeExpandVolumeResponse { capacity_bytes: 0 });
        }
        let volume = self.volume(id)?;
        if volume.controllers != 1 {
            let count = volume.controllers;
            let text = format!("invalid controller count {count} for volume {id} node expansion");
            return Err(Status::invalid_argument(text));
        }
        let Some(device) = volume.device.filter(|_| volume.attached) else {
            let text = format!("invalid state detached for volume {id} node expansion");
            return Err(Status::failed_precondition(text));
        };
        let device = self.shared.host.is_mapped(id).unwrap_or(device);
        let staging = Path::new(&req.staging_target_path);
        self.resize(id, &device, staging).await.map_err(Status::internal)?;
        Ok(csi::NodeExpandVolumeResponse { capacity_bytes })
    }
}

fn decode<M: Message + Default>(request: Bytes) -> Result<M, Status> {
    M::decode(request).map_err(|error| {
        Status::internal(format!("grpc: failed to unmarshal the received message: {error}"))
    })
}

fn encode(message: &impl Message) -> Bytes {
    message.encode_to_vec().into()
}

fn plugin_info() -> csi::GetPluginInfoResponse {
    csi::GetPluginInfoResponse {
        name: "driver.longhorn.io".to_owned(),
        vendor_version: "stand-in".to_owned(),
        ..Default::default()
    }
}

fn plugin_capabilities() -> csi::GetPluginCapabilitiesResponse {
    let serves = |kind: service::Type| plugin_capability::Service { r#type: kind.into() };
    let online = volume_expansion::Type::Online.into();
    let types = [
        plugin_capability::Type::Service(serves(service::Type::ControllerService)),
        plugin_capability::Type::Service(serves(service::Type::VolumeAccessibilityConstraints)),
        plugin_capability::Type::VolumeExpansion(plugin_capability::VolumeExpansion {
            r#type: online,
        }),
    ];
    let capabilities = types.map(|kind| csi::PluginCapability { r#type: Some(kind) }).to_vec();
    csi::GetPluginCapabilitiesResponse { capabilities }
}

fn node_capabilities() -> csi::NodeGetCapabilitiesResponse {
    let can = [
        NodeCan::GetVolumeStats,
        NodeCan::StageUnstageVolume,
        NodeCan::ExpandVolume,
        NodeCan::SingleNodeMultiWriter,
    ];
    let one = |kind: NodeCan| csi::NodeServiceCapability {
        r#type: Some(csi::node_service_capability::Type::Rpc(csi::node_service_capability::Rpc {
            r#type: kind.into(),
        })),
    };
    csi::NodeGetCapabilitiesResponse { capabilities: can.map(one).to_vec() }
}

fn node_info() -> csi::NodeGetInfoResponse {
    csi::NodeGetInfoResponse { node_id: "node-1".to_owned(), ..Default::default() }
}

fn filesystem_usage(path: &Path) -> Result<Vec<csi::VolumeUsage>, Status> {
    let stat = statvfs(path).map_err(|errno| {
        let path = path.display();
        Status::internal(format!("failed to retrieve capacity statistics for {path}: {errno}"))
    })?;
    let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let bytes = |blocks: u64| number(blocks * stat.fragment_size());
    Ok(vec![
        usage(
            csi::volume_usage::Unit::Bytes,
            bytes(stat.blocks()),
            bytes(stat.blocks_available()),
            bytes(stat.blocks() - stat.blocks_free()),
        ),
        usage(
            csi::volume_usage::Unit::Inodes,
            number(stat.files()),
            number(stat.files_free()),
            number(stat.files() - stat.files_free()),
        ),
    ])
}

fn usage(unit: csi::volume_usage::Unit, total: i64, available: i64, used: i64) -> csi::VolumeUsage {
    csi::VolumeUsage { total, available, used, unit: unit.into() }
}
