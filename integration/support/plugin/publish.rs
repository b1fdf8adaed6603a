//! NodePublishVolume and NodeUnpublishVolume, as `csi/node_server.go` takes them.

use std::path::Path;

use mount_guard::csi;
use mount_guard::csi::volume_capability::AccessType;
use tonic::Status;

use super::manager::DataEngine;
use super::process::Life;
use super::request::{capability, check_frontend, check_ready, filesystem, required};
use crate::support::disk::path_str;
use crate::support::mounts;

impl Life {
    pub async fn publish(
        &self,
        req: &csi::NodePublishVolumeRequest,
    ) -> Result<csi::NodePublishVolumeResponse, Status> {
        let target = Path::new(required(&req.target_path, "target path")?);
        let staging = Path::new(required(&req.staging_target_path, "staging target path")?);
        let capability = capability(req.volume_capability.as_ref())?;
        let id = required(&req.volume_id, "volume id")?;
        let volume = self.volume(id)?;
        check_frontend(id, &volume, capability)?;
        let attached = volume.attached && volume.device.is_some();
        if volume.engine == DataEngine::V1 && !attached {
            let _ = self.unmount(id, target).await;
            return Err(Status::invalid_argument(format!("volume {id} hasn't been attached yet")));
        }
        check_ready(id, &volume)?;
        if self.habits().says_ok_without_mounting {
            return Ok(csi::NodePublishVolumeResponse {});
        }
        let block = matches!(capability.access_type, Some(AccessType::Block(_)));
        if self.is_restage_required(id, staging, block).await {
            self.restage(req).await?;
        }
        match &capability.access_type {
            Some(AccessType::Block(_)) => {
                self.bind_device(id, &staging.join(id), target).await?;
            }
            Some(AccessType::Mount(mount)) => {
                let (_, options) = filesystem(mount);
                self.bind_filesystem(req, &options).await?;
            }
            None => self.bind_filesystem(req, &[]).await?,
        }
        Ok(csi::NodePublishVolumeResponse {})
    }

    async fn is_restage_required(&self, volume: &str, staging: &Path, block: bool) -> bool {
        match block {
            true => !mounts::is_mounted(&staging.join(volume)),
            false => !self.ensure_mount_point(volume, staging).await.unwrap_or(false),
        }
    }

    /// The plugin calls its own two handlers; no caller sees it.
    async fn restage(&self, req: &csi::NodePublishVolumeRequest) -> Result<(), Status> {
        let invalid = || {
            Status::failed_precondition(format!(
                "Staging target path {} is no longer valid for volume {}",
                req.staging_target_path, req.volume_id
            ))
        };
        if !self.habits().restages_in_publish {
            return Err(invalid());
        }
        let unstage = csi::NodeUnstageVolumeRequest {
            volume_id: req.volume_id.clone(),
            staging_target_path: req.staging_target_path.clone(),
        };
        let _ = self.unstage(&unstage).await;
        let stage = csi::NodeStageVolumeRequest {
            volume_id: req.volume_id.clone(),
            publish_context: req.publish_context.clone(),
            staging_target_path: req.staging_target_path.clone(),
            volume_capability: req.volume_capability.clone(),
            secrets: req.secrets.clone(),
            volume_context: req.volume_context.clone(),
        };
        self.stage(&stage).await.map(drop).map_err(|_| invalid())
    }

    async fn bind_filesystem(
        &self,
        req: &csi::NodePublishVolumeRequest,
        flags: &[String],
    ) -> Result<(), Status> {
        let (id, target) = (req.volume_id.as_str(), Path::new(&req.target_path));
        let prepared = self.ensure_mount_point(id, target).await;
        let mounted = prepared.map_err(|error| {
            Status::internal(format!("Failed to prepare mount point for volume {id} error {error}"))
        })?;
        if mounted {
            return Ok(());
        }
        let mut options = vec!["bind", "remount"];
        options.extend(req.readonly.then_some("ro"));
        options.extend(flags.iter().map(String::as_str));
        let bound = self.bind(id, Path::new(&req.staging_target_path), target, &options).await;
        bound.map_err(|_| Status::internal(format!("failed to bind mount volume {id}")))
    }

    /// Two calls of mount(8), as mount-utils makes them: a remount alone sets a bind's options.
    async fn bind(
        &self,
        volume: &str,
        from: &Path,
        to: &Path,
        options: &[&str],
    ) -> Result<(), String> {
        let (options, from, target) = (options.join(","), path_str(from), path_str(to));
        self.mount(volume, to, &["-o", "bind", from, target]).await?;
        self.mount(volume, to, &["-o", options.as_str(), from, target]).await
    }

    /// Binds a device node onto a file that is made for it.
    pub async fn bind_device(&self, volume: &str, device: &Path, to: &Path) -> Result<(), Status> {
        let made = to
            .parent()
            .map_or(Ok(()), std::fs::create_dir_all)
            .and_then(|()| std::fs::OpenOptions::new().create(true).append(true).open(to));
        made.map_err(|error| {
            Status::internal(format!("failed to create file {}: {error}", to.display()))
        })?;
        if mounts::is_mounted(to) {
            return Ok(());
        }
        let bound = self.bind(volume, device, to, &["bind", "remount"]).await;
        bound.map_err(|error| {
            let _ = std::fs::remove_file(to);
            let (device, to) = (device.display(), to.display());
            Status::internal(format!("failed to bind mount \"{device}\" at \"{to}\": {error}"))
        })
    }

    pub async fn unpublish(
        &self,
        req: &csi::NodeUnpublishVolumeRequest,
    ) -> Result<csi::NodeUnpublishVolumeResponse, Status> {
        let target = Path::new(required(&req.target_path, "target path")?);
        let id = required(&req.volume_id, "volume id")?;
        self.unmount_and_remove(id, target).await.map_err(|error| {
            let path = target.display();
            Status::internal(format!("failed to cleanup volume {id} mount point {path}: {error}"))
        })?;
        Ok(csi::NodeUnpublishVolumeResponse {})
    }
}
