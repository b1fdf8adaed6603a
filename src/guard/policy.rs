//! What the operator wants of the guard.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::claims::Multipath;
use crate::format;
use crate::fsck;
use crate::volume::{DevicePath, VolumeId};

/// The flags of `serve` that decide about volumes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    pub fsck: fsck::Mode,
    pub repair_backup: fsck::Backup,
    pub format_guard: format::Mode,
    /// How long a blank device is watched before it is believed.
    pub format_settle: Duration,
    pub multipath: Multipath,
    pub device_path: DevicePath,
    /// Judge and report everything; refuse nothing, change nothing.
    pub dry_run: bool,
}

impl Default for Policy {
    /// The design's.
    fn default() -> Self {
        Self {
            fsck: fsck::Mode::Preen,
            repair_backup: fsck::Backup::Undo,
            format_guard: format::Mode::Enforce,
            format_settle: Duration::from_secs(5),
            multipath: Multipath::Refuse,
            device_path: DevicePath::default(),
            dry_run: false,
        }
    }
}

/// The plain side of an encrypted volume, as longhorn-csi-plugin opens it: by the volume's name,
/// and by another one on the v2 engine, whose own map has that name already.
#[must_use]
pub fn plain_paths(volume: &VolumeId) -> [PathBuf; 2] {
    let mapper = Path::new("/dev/mapper");
    [mapper.join(format!("{volume}-encrypted")), mapper.join(volume.as_str())]
}
