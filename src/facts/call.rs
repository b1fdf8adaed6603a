//! The volume calls, and what is written down of one while the plugin works on it.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::volume::VolumeId;

/// The five calls of which one volume gets one at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Method {
    Stage,
    Unstage,
    Publish,
    Unpublish,
    Expand,
}

impl Method {
    /// The name CSI gives it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Stage => "NodeStageVolume",
            Self::Unstage => "NodeUnstageVolume",
            Self::Publish => "NodePublishVolume",
            Self::Unpublish => "NodeUnpublishVolume",
            Self::Expand => "NodeExpandVolume",
        }
    }

    /// What a call of this method does to the mount at its path.
    #[must_use]
    pub fn effect(self) -> Effect {
        match self {
            Self::Stage | Self::Publish => Effect::Mounts,
            Self::Unstage | Self::Unpublish => Effect::Unmounts,
            Self::Expand => Effect::Neither,
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a call does to the mount at its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Effect {
    Mounts,
    Unmounts,
    Neither,
}

/// Tells one run of the plugin from the next, by the identity of its socket file: the plugin
/// unlinks and re-creates its socket when it starts (longhorn-manager `csi/server.go`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginRun {
    pub device: u64,
    pub inode: u64,
    /// Inode numbers are used again at once; times of change are not.
    pub changed_ns: i128,
}

/// A call that went to the plugin and whose outcome is not known yet.
///
/// It holds no part of the request but its two names: a request may carry secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentCall {
    pub volume: VolumeId,
    pub method: Method,
    /// The staging path, or the target path of Publish, Unpublish and Expand.
    pub path: PathBuf,
    /// Who was to answer; `None` if the plugin's socket could not be looked at.
    pub plugin: Option<PluginRun>,
}
