//! xfs: the superblock at byte 0, and the copies at the start of every allocation group.
//!
//! Layout: "XFS Algorithms & Data Structures", "Superblocks"; `struct xfs_dsb` in
//! fs/xfs/libxfs/xfs_format.h. Numbers are big-endian; the checksum alone is little-endian.

pub mod backup;
pub mod log;

use super::fields::Fields;
use super::{Damage, Reading, Uuid};

/// The largest sector xfs takes, in bytes (`XFS_MAX_SECTORSIZE`). The checksum covers one sector.
pub const MAX_SECTOR_BYTES: usize = 32_768;

const MAGIC: &[u8] = b"XFSB";

/// What a superblock says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Superblock {
    /// 4, or 5 with checksums.
    pub version: u8,
    /// What users see and `mount` compares.
    pub uuid: Uuid,
    /// What the metadata is stamped with: the first UUID, where the other was changed later.
    pub meta_uuid: Uuid,
    pub label: String,
    pub block_bytes: u32,
    pub sector_bytes: u16,
    /// The filesystem's length in blocks.
    pub blocks: u64,
    /// The length of an allocation group in blocks; the last one may be shorter.
    pub ag_blocks: u32,
    pub ag_count: u32,
    /// `sb_agblklog`: how many bits of a block number count within a group.
    pub ag_block_bits: u8,
    pub log: LogPlace,
    /// Where in the log, in 512-byte blocks, the superblock's last change was written (`sb_lsn`): a
    /// clean unmount writes it last of all but one. 0 in version 4.
    pub last_log_block: u32,
    /// mkfs, or another offline tool, has not finished (`sb_inprogress`).
    pub in_progress: bool,
    pub features: Features,
}

/// Where the log lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogPlace {
    Inside {
        offset_bytes: u64,
        len_bytes: u64,
    },
    /// On another device.
    External,
}

/// The feature words of version 5; all zero in version 4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Features {
    pub compat: u32,
    pub ro_compat: u32,
    pub incompat: u32,
    pub log_incompat: u32,
}

impl Features {
    /// What Linux 6.18 has a name for (`XFS_SB_FEAT_*_ALL`).
    const KNOWN: Self = Self { compat: 0, ro_compat: 0x0f, incompat: 0x07ff, log_incompat: 0x01 };

    /// xfs_repair must run before the next mount (`XFS_SB_FEAT_INCOMPAT_NEEDSREPAIR`).
    const NEEDS_REPAIR: u32 = 0x0010;

    const META_UUID: u32 = 0x0004;

    /// The features that this program has no name for.
    #[must_use]
    pub fn unknown(self) -> Self {
        Self {
            compat: self.compat & !Self::KNOWN.compat,
            ro_compat: self.ro_compat & !Self::KNOWN.ro_compat,
            incompat: self.incompat & !Self::KNOWN.incompat,
            log_incompat: self.log_incompat & !Self::KNOWN.log_incompat,
        }
    }

    #[must_use]
    pub fn needs_repair(self) -> bool {
        self.incompat & Self::NEEDS_REPAIR != 0
    }

    #[must_use]
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }
}

impl Superblock {
    /// The filesystem's length in bytes.
    #[must_use]
    pub fn fs_bytes(&self) -> u64 {
        self.blocks.saturating_mul(u64::from(self.block_bytes))
    }

    /// Where allocation group `ag` starts, in bytes: its superblock is the first thing in it.
    #[must_use]
    pub fn ag_offset_bytes(&self, ag: u64) -> u64 {
        ag.saturating_mul(u64::from(self.ag_blocks)).saturating_mul(u64::from(self.block_bytes))
    }

    /// Reads a superblock, the primary one or a copy, from the bytes of its sector or more.
    #[must_use]
    pub fn parse(sector: &[u8]) -> Reading<Self> {
        let fields = Fields(sector);
        if !fields.has(0, MAGIC) {
            return Reading::Absent;
        }
        let Some(superblock) = read(fields) else {
            return Reading::Damaged(Damage::Implausible { field: "geometry" });
        };
        match damage(&superblock, fields) {
            Some(damage) => Reading::Damaged(damage),
            None => Reading::Intact(superblock),
        }
    }
}

fn read(fields: Fields<'_>) -> Option<Superblock> {
    let version = u8::try_from(fields.be16(100)? & 0x000f).ok()?;
    let features = if version == 5 { read_features(fields)? } else { Features::default() };
    let uuid = fields.uuid(32)?;
    let has_meta_uuid = features.incompat & Features::META_UUID != 0;
    let mut superblock = Superblock {
        version,
        uuid,
        meta_uuid: if has_meta_uuid { fields.uuid(248)? } else { uuid },
        label: fields.text(108, 12)?,
        block_bytes: fields.be32(4)?,
        sector_bytes: fields.be16(102)?,
        blocks: fields.be64(8)?,
        ag_blocks: fields.be32(84)?,
        ag_count: fields.be32(88)?,
        ag_block_bits: fields.byte(124)?,
        log: LogPlace::External,
        last_log_block: if version == 5 { fields.be32(244)? } else { 0 },
        in_progress: fields.byte(126)? != 0,
        features,
    };
    superblock.log = log_place(&superblock, fields.be64(48)?, fields.be32(96)?)?;
    Some(superblock)
}

fn read_features(fields: Fields<'_>) -> Option<Features> {
    Some(Features {
        compat: fields.be32(208)?,
        ro_compat: fields.be32(212)?,
        incompat: fields.be32(216)?,
        log_incompat: fields.be32(220)?,
    })
}

/// `sb_logstart` is a block number whose upper bits count groups; 0 means another device.
fn log_place(superblock: &Superblock, start: u64, blocks: u32) -> Option<LogPlace> {
    if start == 0 {
        return Some(LogPlace::External);
    }
    let ag = start.checked_shr(u32::from(superblock.ag_block_bits))?;
    let within = start & !u64::MAX.checked_shl(u32::from(superblock.ag_block_bits))?;
    let block_bytes = u64::from(superblock.block_bytes);
    let offset = ag
        .checked_mul(u64::from(superblock.ag_blocks))?
        .checked_add(within)?
        .checked_mul(block_bytes)?;
    let len_bytes = u64::from(blocks).checked_mul(block_bytes)?;
    Some(LogPlace::Inside { offset_bytes: offset, len_bytes })
}

/// The bounds of `xfs_validate_sb_common`, in words: sizes are powers of two in range, and the
/// groups make up the whole.
fn damage(superblock: &Superblock, fields: Fields<'_>) -> Option<Damage> {
    let implausible = |field| Some(Damage::Implausible { field });
    let sector_bytes = usize::from(superblock.sector_bytes);
    if !sector_bytes.is_power_of_two() || !(512..=MAX_SECTOR_BYTES).contains(&sector_bytes) {
        return implausible("sector size");
    }
    if superblock.version == 5 {
        let Some(sector) = fields.0.get(..sector_bytes) else {
            return implausible("sector size");
        };
        let stored = fields.le32(224)?;
        let computed = checksum(sector);
        if stored != computed {
            return Some(Damage::Checksum { stored, computed });
        }
    }
    let ag_blocks = u64::from(superblock.ag_blocks);
    let ag_count = u64::from(superblock.ag_count);
    match superblock {
        s if !matches!(s.version, 4 | 5) => implausible("version"),
        s if !s.block_bytes.is_power_of_two() || !(512..=65_536).contains(&s.block_bytes) => {
            implausible("block size")
        }
        s if ag_blocks == 0 || ag_count == 0 || s.blocks == 0 => implausible("geometry"),
        s if s.blocks > ag_blocks.saturating_mul(ag_count) => implausible("block count"),
        s if s.blocks <= ag_blocks.saturating_mul(ag_count - 1) => implausible("block count"),
        _ => None,
    }
}

/// crc32c over the sector, its own four bytes taken as zero.
fn checksum(sector: &[u8]) -> u32 {
    const AT: usize = 224;
    let before = crc32c::crc32c(sector.get(..AT).unwrap_or_default());
    let own = crc32c::crc32c_append(before, &[0; 4]);
    crc32c::crc32c_append(own, sector.get(AT + 4..).unwrap_or_default())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A plausible superblock of version 5: 4 groups of 25 600 blocks of 4 KiB.
    pub(crate) fn sample() -> Vec<u8> {
        let mut sector = vec![0; 512];
        let mut put = |at: usize, bytes: &[u8]| sector[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, MAGIC);
        put(4, &4096_u32.to_be_bytes());
        put(8, &102_400_u64.to_be_bytes());
        put(32, &[0xcd; 16]);
        put(48, &(2_u64 << 15 | 6).to_be_bytes());
        put(84, &25_600_u32.to_be_bytes());
        put(88, &4_u32.to_be_bytes());
        put(96, &1024_u32.to_be_bytes());
        put(100, &[0xb4, 0xa5, 2, 0]);
        put(124, &[15]);
        sum(&mut sector);
        sector
    }

    /// Writes the checksum that `sector` should have.
    pub(crate) fn sum(sector: &mut [u8]) {
        let sum = checksum(sector);
        sector[224..228].copy_from_slice(&sum.to_le_bytes());
    }

    #[test]
    fn a_plausible_superblock_is_read() {
        let superblock = Superblock::parse(&sample()).intact().unwrap();
        assert_eq!(superblock.fs_bytes(), 400 << 20);
        assert_eq!(superblock.ag_offset_bytes(1), 100 << 20);
        let offset_bytes = (200 << 20) + 6 * 4096;
        assert_eq!(superblock.log, LogPlace::Inside { offset_bytes, len_bytes: 4 << 20 });
        assert_eq!(superblock.meta_uuid, superblock.uuid);
    }

    #[test]
    fn one_flipped_bit_is_damage_not_absence() {
        let mut sector = sample();
        sector[300] ^= 1;
        let reading = Superblock::parse(&sector);
        assert!(matches!(reading, Reading::Damaged(Damage::Checksum { .. })));
    }

    #[test]
    fn the_magic_alone_is_not_believed() {
        let mut sector = vec![0; 512];
        sector[..4].copy_from_slice(MAGIC);
        assert!(matches!(Superblock::parse(&sector), Reading::Damaged(_)));
        sector[4..].fill(0xff);
        assert!(matches!(Superblock::parse(&sector), Reading::Damaged(_)));
        assert!(matches!(Superblock::parse(MAGIC), Reading::Damaged(_)));
    }

    #[test]
    fn a_sum_of_groups_that_is_not_the_whole_is_damage() {
        let mut sector = sample();
        sector[88..92].copy_from_slice(&5_u32.to_be_bytes());
        sum(&mut sector);
        let damage = Damage::Implausible { field: "block count" };
        assert_eq!(Superblock::parse(&sector), Reading::Damaged(damage));
    }
}
