//! NodeStageVolume and NodeUnstageVolume, step by step as `csi/node_server.go` takes them.

use std::path::{Path, PathBuf};

use mount_guard::csi;
use mount_guard::csi::volume_capability::{AccessType, MountVolume};
use tonic::Status;

use super::format::Wanted;
use super::manager::{Access, DataEngine, Volume};
use super::process::Life;
use super::request::{capability, check_frontend, check_ready, filesystem, needs_share, required};
use crate::support::disk::path_str;
use crate::support::mounts;

/// Bounds the tmpfs that stands for a share.
const SHARE_OPTIONS: &str = "size=16m";

impl Life {
    pub async fn stage(
        &self,
        req: &csi::NodeStageVolumeRequest,
    ) -> Result<csi::NodeStageVolumeResponse, Status> {
        let staging = Path::new(required(&req.staging_target_path, "staging target path")?);
        let capability = capability(req.volume_capability.as_ref())?;
        let id = required(&req.volume_id, "volume id")?;
        let volume = self.volume(id)?;
        check_frontend(id, &volume, capability)?;
        let Some(device) = volume.device.as_ref().filter(|_| volume.attached) else {
            if self.habits().unmounts_when_not_attached {
                let _ = self.unmount(id, staging).await;
            }
            return Err(Status::invalid_argument(format!("volume {id} hasn't been attached yet")));
        };
        check_ready(id, &volume)?;
        if self.habits().says_ok_without_mounting {
            return Ok(csi::NodeStageVolumeResponse {});
        }
        if needs_share(&volume, Some(capability)) {
            self.stage_share(id, &volume, staging).await?;
            return Ok(csi::NodeStageVolumeResponse {});
        }
        let another = self.habits().stages_another_device;
        let device = another.as_ref().unwrap_or(device);
        let format = self.disk_format(id, device).await.map_err(|error| {
            let device = device.display();
            Status::internal(format!(
                "failed to evaluate device filesystem {device} format: {error}"
            ))
        })?;
        let device = match volume.encrypted {
            true => {
                let name = match volume.engine {
                    DataEngine::V1 => id.to_owned(),
                    DataEngine::V2 => format!("{id}-encrypted"),
                };
                self.open_encrypted(id, &name, device, &format, &req.secrets)?
            }
            false => device.clone(),
        };
        match &capability.access_type {
            Some(AccessType::Block(_)) => {
                self.bind_device(id, &device, &staging.join(id)).await?;
            }
            Some(AccessType::Mount(mount)) => {
                self.stage_filesystem(req, &device, staging, mount).await?;
            }
            None => {
                self.stage_filesystem(req, &device, staging, &MountVolume::default()).await?;
            }
        }
        Ok(csi::NodeStageVolumeResponse {})
    }

    async fn stage_filesystem(
        &self,
        req: &csi::NodeStageVolumeRequest,
        device: &Path,
        staging: &Path,
        mount: &MountVolume,
    ) -> Result<(), Status> {
        let volume = req.volume_id.as_str();
        if self.prepare(volume, staging).await? {
            self.compare_device(volume, device, staging)?;
        } else {
            std::fs::metadata(device)
                .map_err(|error| Status::internal(format!("stat {}: {error}", device.display())))?;
            let (fs_type, mut options) = filesystem(mount);
            if self.habits().stages_read_only {
                options.push("ro".to_owned());
            }
            let params = req.volume_context.get("mkfsParams").map_or("", String::as_str);
            let mkfs_params = params.split_whitespace().map(str::to_owned).collect();
            let target = staging;
            let wanted = Wanted { volume, device, target, fs_type, options, mkfs_params };
            self.format_and_mount(&wanted).await?;
        }
        let resized = self.resize(volume, device, staging).await;
        if resized.is_err() && !self.habits().leaves_mount_when_resize_fails {
            let _ = self.unmount(volume, staging).await;
        }
        resized.map_err(Status::internal)
    }

    /// Only where the habit of not looking is given up.
    fn compare_device(&self, volume: &str, device: &Path, staging: &Path) -> Result<(), Status> {
        if self.habits().trusts_any_mount_at_staging {
            return Ok(());
        }
        let wanted = mounts::device_number(device)
            .map_err(|error| Status::internal(format!("stat {}: {error}", device.display())))?;
        match mounts::at(staging).last() {
            Some(mount) if mount.number == wanted => Ok(()),
            _ => Err(Status::already_exists(format!("volume {volume} is staged otherwise"))),
        }
    }

    async fn stage_share(&self, id: &str, volume: &Volume, staging: &Path) -> Result<(), Status> {
        if volume.access != Access::Rwx {
            return Err(Status::failed_precondition(format!(
                "volume {id} requires shared access but is not marked for shared use"
            )));
        }
        let endpoint = volume.share_endpoint.as_deref().filter(|_| volume.share_running);
        let Some(endpoint) = endpoint else {
            return Err(Status::aborted(format!("volume {id} share not yet available")));
        };
        if self.prepare(id, staging).await? {
            return Ok(());
        }
        let export = endpoint.strip_prefix("nfs://").and_then(|rest| rest.split_once('/'));
        let Some((host, path)) = export else {
            return Err(Status::invalid_argument(format!("invalid share endpoint {endpoint}")));
        };
        let source = format!("{host}:/{path}");
        let args = ["-t", "tmpfs", "-o", SHARE_OPTIONS, source.as_str(), path_str(staging)];
        self.mount(id, staging, &args).await.map_err(Status::internal)
    }

    /// Makes the staging path ready; whether something healthy is mounted there already.
    async fn prepare(&self, volume: &str, path: &Path) -> Result<bool, Status> {
        self.ensure_mount_point(volume, path).await.map_err(|error| {
            let path = path.display();
            let what = "failed to prepare mount point";
            Status::internal(format!("{what} {path} for volume {volume}: {error}"))
        })
    }

    pub async fn unstage(
        &self,
        req: &csi::NodeUnstageVolumeRequest,
    ) -> Result<csi::NodeUnstageVolumeResponse, Status> {
        let staging = PathBuf::from(required(&req.staging_target_path, "staging target path")?);
        let id = required(&req.volume_id, "volume id")?;
        self.unmount(id, &staging).await.map_err(|error| {
            let path = staging.display();
            Status::internal(format!("failed to unmount volume {id} mount point {path}: {error}"))
        })?;
        self.unmount_and_remove(id, &staging.join(id)).await.map_err(|error| {
            Status::internal(format!("failed to clean up volume {id} device mount point: {error}"))
        })?;
        let known = self.shared.manager.by_id(id).ok().flatten();
        if !known.is_some_and(|volume| needs_share(&volume, None)) {
            self.luks_close(id);
        }
        Ok(csi::NodeUnstageVolumeResponse {})
    }

    /// What the manager says of `id`.
    pub fn volume(&self, id: &str) -> Result<Volume, Status> {
        match self.shared.manager.by_id(id) {
            Ok(Some(volume)) => Ok(volume),
            Ok(None) => Err(Status::not_found(format!("volume {id} not found"))),
            Err(error) => Err(Status::internal(format!("failed to get volume {id}: {error}"))),
        }
    }
}
