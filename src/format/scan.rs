//! Every format that a device's start or end shows.

use std::fmt;

use crate::facts::bytes::DeviceBytes;
use crate::facts::superblock::other::Signature;
use crate::facts::superblock::partition::{Kind, Table};
use crate::facts::superblock::swap::Swap;
use crate::facts::superblock::{
    Damage, Family, Reading, btrfs, ext, luks, lvm, md, other, partition, swap, xfs,
};

/// Something that was recognized.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    Ext(Box<ext::Superblock>),
    Xfs(Box<xfs::Superblock>),
    Btrfs(Box<btrfs::Superblock>),
    Luks(luks::Header),
    Swap(Swap),
    Lvm(lvm::PhysicalVolume),
    Md(md::Member),
    Table(Table),
    Other(Signature),
}

/// What the start of a device shows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Head {
    pub(super) found: Vec<Found>,
    /// Primary superblocks whose magic is there and whose rest is not.
    pub(super) damaged: Vec<(Family, Damage)>,
}

/// Reads `head`, the start of a device of `size_bytes`, as far as it goes.
pub(super) fn head(head: &[u8], size_bytes: u64) -> Head {
    let mut seen = Head::default();
    let at = |offset: u64, len: usize| head.get(usize::try_from(offset).ok()?..)?.get(..len);
    let primary = at(ext::PRIMARY_OFFSET_BYTES, ext::LEN_BYTES).unwrap_or_default();
    seen.note(Family::Ext, ext::Superblock::parse(primary).map(|sb| Found::Ext(Box::new(sb))));
    seen.note(Family::Xfs, xfs::Superblock::parse(head).map(|sb| Found::Xfs(Box::new(sb))));
    let primary = at(btrfs::PRIMARY_OFFSET_BYTES, btrfs::LEN_BYTES).unwrap_or_default();
    let btrfs = btrfs::Superblock::parse(primary, btrfs::PRIMARY_OFFSET_BYTES);
    seen.note(Family::Btrfs, btrfs.map(|sb| Found::Btrfs(Box::new(sb))));

    // What lies in a filesystem's own blocks is its users' business: they may keep disk images.
    let own_bytes = if seen.found.is_empty() { u64::MAX } else { ext::PRIMARY_OFFSET_BYTES };
    let others = other::find(head).into_iter().filter(|found| found.offset_bytes < own_bytes);
    let mut owners = [
        luks::parse_primary(head).map(Found::Luks),
        swap::parse(head).map(Found::Swap),
        lvm::parse(head).map(Found::Lvm),
        md::parse_head(head).map(Found::Md),
        partition::parse_head(head, size_bytes).map(Found::Table),
    ];
    seen.found.extend(owners.iter_mut().filter_map(Option::take));
    seen.found.extend(others.map(Found::Other));
    seen
}

/// The btrfs superblock, if it was read and is whole.
pub(super) fn btrfs(bytes: &DeviceBytes) -> Option<Box<btrfs::Superblock>> {
    let at = btrfs::PRIMARY_OFFSET_BYTES;
    let block = bytes.bytes(at, btrfs::LEN_BYTES)?;
    btrfs::Superblock::parse(block, at).intact().map(Box::new)
}

/// Reads what formats keep at the end of a device.
pub(super) fn tail(bytes: &DeviceBytes) -> Vec<Found> {
    let size_bytes = bytes.size_bytes();
    let old_md = md::offset_0_90(size_bytes)
        .and_then(|at| md::parse_0_90(bytes.bytes(at, md::LEN_BYTES)?, at));
    let new_md = md::offset_1_0(size_bytes)
        .and_then(|at| md::parse_1_0(bytes.bytes(at, md::LEN_BYTES)?, at));
    let drbd =
        other::drbd_offset(size_bytes).and_then(|at| other::parse_drbd(bytes.bytes(at, 512)?, at));
    let gpt = partition::SECTOR_BYTES.into_iter().find_map(|sector| {
        let at = (size_bytes / sector).checked_sub(1)? * sector;
        partition::parse_backup(bytes.bytes(at, partition::LEN_BYTES)?, size_bytes, sector)
    });
    [old_md.map(Found::Md), new_md.map(Found::Md), drbd.map(Found::Other), gpt.map(Found::Table)]
        .into_iter()
        .flatten()
        .collect()
}

impl Head {
    fn note(&mut self, family: Family, reading: Reading<Found>) {
        match reading {
            Reading::Absent => {}
            Reading::Damaged(damage) => self.damaged.push((family, damage)),
            Reading::Intact(found) => self.found.push(found),
        }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ext(sb) => write!(f, "{} {}", sb.kind, sb.uuid),
            Self::Xfs(sb) => write!(f, "xfs {}", sb.uuid),
            Self::Btrfs(sb) => write!(f, "btrfs {}", sb.uuid),
            Self::Luks(header) => match header.uuid {
                Some(uuid) => write!(f, "LUKS {uuid}"),
                None => f.write_str("LUKS"),
            },
            Self::Swap(Swap::Empty) => f.write_str("swap space"),
            Self::Swap(Swap::Hibernated) => f.write_str("a hibernated machine's swap space"),
            Self::Lvm(volume) => write!(f, "LVM physical volume {}", volume.id),
            Self::Md(member) => write!(f, "md {} array member {}", member.version, member.uuid),
            Self::Table(table) => write!(f, "{} at byte {}", table.kind, table.offset_bytes),
            Self::Other(found) => write!(f, "{} at byte {}", found.name, found.offset_bytes),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mbr { partitions } => write!(f, "MBR partition table ({partitions} in use)"),
            Self::ProtectiveMbr => f.write_str("protective MBR without its GPT"),
            Self::Gpt => f.write_str("GPT partition table"),
            Self::GptBackup => f.write_str("copy of a GPT partition table"),
        }
    }
}
