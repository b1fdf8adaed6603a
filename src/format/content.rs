//! The verdicts on what a device holds.

use std::fmt;

use super::{Found, PrimaryLost};
use crate::facts::bytes::{ByteRange, Failure};
use crate::facts::superblock::partition::Table;
use crate::facts::superblock::xfs::log::LogState;
use crate::facts::superblock::{Uuid, btrfs, ext, luks, other, xfs};

/// What is on a device. `Signature` and `Unknown` are what the design calls one name: content that
/// is not ours to touch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    Filesystem(Filesystem),
    /// A superblock is missing or damaged, and it is known which.
    PrimaryLost(PrimaryLost),
    /// mkfs.xfs (or xfs_copy) was cut off: no kernel mounts this.
    Unfinished {
        uuid: Uuid,
    },
    Luks(luks::Header),
    /// Nothing but zeros in these ranges, which hold every place a format is known by.
    Blank {
        proved: Vec<ByteRange>,
    },
    /// Something that is no filesystem.
    Signature(Found),
    /// Bytes that are not zero and mean nothing to us; the first of them.
    Unknown {
        offset_bytes: u64,
    },
    PartitionTable(Table),
    /// Several formats at once: the device was reused, or is a part of something larger.
    Conflict {
        found: Vec<Found>,
    },
    Unreadable {
        failure: Failure,
        offset_bytes: u64,
    },
}

/// A filesystem whose superblock is whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Filesystem {
    Ext(Box<ext::Superblock>),
    Xfs {
        superblock: Box<xfs::Superblock>,
        log: LogState,
    },
    Btrfs(Box<btrfs::Superblock>),
    /// Known by its magic only.
    Other(other::Signature),
}

impl Filesystem {
    /// As mount(8) takes it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Ext(superblock) => superblock.kind.name(),
            Self::Xfs { .. } => "xfs",
            Self::Btrfs(_) => "btrfs",
            Self::Other(signature) => signature.name,
        }
    }

    #[must_use]
    pub fn uuid(&self) -> Option<Uuid> {
        match self {
            Self::Ext(superblock) => Some(superblock.uuid),
            Self::Xfs { superblock, .. } => Some(superblock.uuid),
            Self::Btrfs(superblock) => Some(superblock.uuid),
            Self::Other(_) => None,
        }
    }

    /// How much of a device it takes for its own, in bytes.
    #[must_use]
    pub fn fs_bytes(&self) -> Option<u64> {
        match self {
            Self::Ext(superblock) => Some(superblock.fs_bytes()),
            Self::Xfs { superblock, .. } => Some(superblock.fs_bytes()),
            Self::Btrfs(superblock) => Some(superblock.device_bytes),
            Self::Other(_) => None,
        }
    }
}

impl Content {
    /// One word for log and metric.
    #[must_use]
    pub fn label(&self) -> &'static str {
        match self {
            Self::Filesystem(_) => "filesystem",
            Self::PrimaryLost(_) => "primary_lost",
            Self::Unfinished { .. } => "unfinished",
            Self::Luks(_) => "luks",
            Self::Blank { .. } => "blank",
            Self::Signature(_) => "signature",
            Self::Unknown { .. } => "unknown",
            Self::PartitionTable(_) => "partition_table",
            Self::Conflict { .. } => "conflict",
            Self::Unreadable { .. } => "unreadable",
        }
    }
}

impl fmt::Display for Filesystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        self.uuid().map_or(Ok(()), |uuid| write!(f, " {uuid}"))
    }
}
