//! The five volume calls as the guard understands them: checked once, free of secrets.

use std::path::Path;

use crate::facts::call::Method;
use crate::volume::{FsType, StagingPath, TargetPath, VolumeId};

/// A volume call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    Stage(StageRequest),
    Unstage(UnstageRequest),
    Publish(PublishRequest),
    Unpublish(UnpublishRequest),
    Expand(ExpandRequest),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageRequest {
    pub volume: VolumeId,
    pub staging: StagingPath,
    pub capability: Capability,
    pub settings: Settings,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnstageRequest {
    pub volume: VolumeId,
    pub staging: StagingPath,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishRequest {
    pub volume: VolumeId,
    /// Absent if kubelet names none; what that means is the plugin's to say.
    pub staging: Option<StagingPath>,
    pub target: TargetPath,
    pub capability: Capability,
    pub read_only: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnpublishRequest {
    pub volume: VolumeId,
    pub target: TargetPath,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpandRequest {
    pub volume: VolumeId,
    /// The published path, or the staged one.
    pub path: TargetPath,
}

/// How the volume is to be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capability {
    pub access: Access,
    /// An access mode that only reads (`SINGLE_NODE_READER_ONLY`, `MULTI_NODE_READER_ONLY`).
    pub reads_only: bool,
    /// An access mode of several nodes: Longhorn serves such a volume by NFS, unless it is
    /// migratable.
    pub multi_node: bool,
}

/// What the StorageClass or the PV says of the volume (`volume_context`), as far as it matters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// `encrypted` is set, or a passphrase comes with the call.
    pub encrypted: bool,
    pub migratable: bool,
    /// `mount-guard/fsck`, whatever it says.
    pub fsck: Option<String>,
}

impl Capability {
    /// Read-only by its access mode or by a mount flag.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        let asked = match &self.access {
            Access::Block => false,
            Access::Mount { flags, .. } => {
                flags.iter().flat_map(|flag| flag.split(',')).any(|flag| flag == "ro")
            }
        };
        self.reads_only || asked
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    Block,
    Mount {
        /// The type asked for; absent: the plugin's default.
        fs_type: Option<FsType>,
        flags: Vec<String>,
    },
}

impl Request {
    #[must_use]
    pub fn method(&self) -> Method {
        match self {
            Self::Stage(_) => Method::Stage,
            Self::Unstage(_) => Method::Unstage,
            Self::Publish(_) => Method::Publish,
            Self::Unpublish(_) => Method::Unpublish,
            Self::Expand(_) => Method::Expand,
        }
    }

    #[must_use]
    pub fn volume(&self) -> &VolumeId {
        match self {
            Self::Stage(req) => &req.volume,
            Self::Unstage(req) => &req.volume,
            Self::Publish(req) => &req.volume,
            Self::Unpublish(req) => &req.volume,
            Self::Expand(req) => &req.volume,
        }
    }

    /// The path at which the call mounts, unmounts or grows something.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::Stage(req) => req.staging.as_path(),
            Self::Unstage(req) => req.staging.as_path(),
            Self::Publish(req) => req.target.as_path(),
            Self::Unpublish(req) => req.target.as_path(),
            Self::Expand(req) => req.path.as_path(),
        }
    }
}
