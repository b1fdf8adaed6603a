//! What Stage and Publish look at before they touch anything, with Longhorn's codes.

use mount_guard::csi::VolumeCapability;
use mount_guard::csi::volume_capability::access_mode::Mode;
use mount_guard::csi::volume_capability::{AccessType, MountVolume};
use tonic::Status;

use super::manager::{Access, Volume};

/// The type and the options of a filesystem mount; xfs gets `nouuid`.
pub fn filesystem(mount: &MountVolume) -> (&str, Vec<String>) {
    let fs_type = if mount.fs_type.is_empty() { "ext4" } else { &mount.fs_type };
    let mut options = mount.mount_flags.clone();
    if fs_type == "xfs" {
        options.push("nouuid".to_owned());
    }
    (fs_type, options)
}

pub fn required<'a>(value: &'a str, what: &str) -> Result<&'a str, Status> {
    match value {
        "" => Err(Status::invalid_argument(format!("{what} missing in request"))),
        value => Ok(value),
    }
}

pub fn capability(found: Option<&VolumeCapability>) -> Result<&VolumeCapability, Status> {
    found.ok_or_else(|| Status::invalid_argument("volume capability missing in request"))
}

pub fn check_frontend(
    id: &str,
    volume: &Volume,
    capability: &VolumeCapability,
) -> Result<(), Status> {
    let is_block = matches!(capability.access_type, Some(AccessType::Block(_)));
    let refused = match volume {
        Volume { controllers, .. } if *controllers == 0 || (*controllers > 1 && !is_block) => {
            format!("volume {id} has invalid controller count {controllers}")
        }
        Volume { frontend_disabled: true, .. } => format!("volume {id} frontend is disabled"),
        Volume { frontend, .. } if !matches!(frontend.as_str(), "blockdev" | "ublk") => {
            format!("volume {id} has invalid frontend type {frontend}")
        }
        _ => return Ok(()),
    };
    Err(Status::invalid_argument(refused))
}

pub fn check_ready(id: &str, volume: &Volume) -> Result<(), Status> {
    match volume.ready {
        true => Ok(()),
        false => Err(Status::aborted(format!(
            "volume {id} is not ready for workloads: {}",
            volume.not_ready_message
        ))),
    }
}

/// Whether the volume is mounted from its share rather than from its device.
pub fn needs_share(volume: &Volume, capability: Option<&VolumeCapability>) -> bool {
    let mode = capability.and_then(|capability| capability.access_mode.as_ref());
    let asked = matches!(
        mode.map(|mode| mode.mode()),
        Some(Mode::MultiNodeReaderOnly | Mode::MultiNodeSingleWriter | Mode::MultiNodeMultiWriter)
    );
    (asked || volume.access == Access::Rwx) && !volume.migratable
}
