//! Copies of a superblock that is missing or damaged.

use super::{Found, ReadPlan};
use crate::facts::bytes::DeviceBytes;
use crate::facts::superblock::{Damage, Family, Reading, Uuid, btrfs, ext, luks, xfs};

/// A superblock, or header, that is not in its place or not whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrimaryLost {
    pub lost: Lost,
    /// `None` where not even the magic is left.
    pub damage: Option<Damage>,
    pub backup: Option<Backup>,
}

/// Whose it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    Superblock(Family),
    LuksHeader,
}

/// A copy that is whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backup {
    pub lost: Lost,
    pub uuid: Option<Uuid>,
    pub offset_bytes: u64,
    /// For `e2fsck -b` and `-B`: the copy's block, and a block's size in bytes.
    pub ext_block: Option<(u64, u32)>,
    /// When mkfs wrote it, in seconds since the epoch, where the copy says so.
    pub made_seconds: Option<u64>,
    found: Found,
}

impl Backup {
    /// The copy itself.
    #[must_use]
    pub fn found(&self) -> &Found {
        &self.found
    }
}

/// Where copies of an xfs superblock may lie by what the start of the device says; the places that
/// depend on the size alone are in the survey already.
pub(super) fn plan(head: &[u8], size_bytes: u64) -> ReadPlan {
    let at = xfs::backup::candidates_by_agf(head, size_bytes);
    ReadPlan::of(size_bytes, at.into_iter().map(|at| (at, xfs::backup::LEN_BYTES as u64)))
}

/// The copies that were read: at most one of each kind.
pub(super) fn backups(bytes: &DeviceBytes, head: &[u8]) -> Vec<Backup> {
    [ext_backup(bytes), xfs_backup(bytes, head), btrfs_backup(bytes), luks_backup(bytes)]
        .into_iter()
        .flatten()
        .collect()
}

fn ext_backup(bytes: &DeviceBytes) -> Option<Backup> {
    let copy = ext::backup::find(bytes)?;
    Some(Backup {
        lost: Lost::Superblock(Family::Ext),
        uuid: Some(copy.superblock.uuid),
        offset_bytes: copy.at.offset_bytes,
        ext_block: Some((copy.at.block, copy.at.block_bytes)),
        made_seconds: Some(copy.superblock.made_seconds),
        found: Found::Ext(Box::new(copy.superblock)),
    })
}

fn xfs_backup(bytes: &DeviceBytes, head: &[u8]) -> Option<Backup> {
    let size_bytes = bytes.size_bytes();
    let mut candidates = xfs::backup::candidates_by_agf(head, size_bytes);
    candidates.extend(xfs::backup::default_candidates(size_bytes));
    let copy = xfs::backup::find(bytes, &candidates)?;
    Some(Backup {
        lost: Lost::Superblock(Family::Xfs),
        uuid: Some(copy.superblock.uuid),
        offset_bytes: copy.offset_bytes,
        ext_block: None,
        made_seconds: None,
        found: Found::Xfs(Box::new(copy.superblock)),
    })
}

fn btrfs_backup(bytes: &DeviceBytes) -> Option<Backup> {
    btrfs::MIRROR_OFFSETS_BYTES.into_iter().find_map(|offset_bytes| {
        let block = bytes.bytes(offset_bytes, btrfs::LEN_BYTES)?;
        let Reading::Intact(mirror) = btrfs::Superblock::parse(block, offset_bytes) else {
            return None;
        };
        Some(Backup {
            lost: Lost::Superblock(Family::Btrfs),
            uuid: Some(mirror.uuid),
            offset_bytes,
            ext_block: None,
            made_seconds: None,
            found: Found::Btrfs(Box::new(mirror)),
        })
    })
}

fn luks_backup(bytes: &DeviceBytes) -> Option<Backup> {
    luks::SECONDARY_OFFSETS_BYTES.into_iter().find_map(|offset_bytes| {
        let block = bytes.bytes(offset_bytes, luks::LEN_BYTES)?;
        let header = luks::parse_secondary(block, offset_bytes)?;
        Some(Backup {
            lost: Lost::LuksHeader,
            uuid: header.uuid,
            offset_bytes,
            ext_block: None,
            made_seconds: None,
            found: Found::Luks(header),
        })
    })
}

impl std::fmt::Display for Lost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Superblock(family) => write!(f, "{family} superblock"),
            Self::LuksHeader => f.write_str("LUKS header"),
        }
    }
}
