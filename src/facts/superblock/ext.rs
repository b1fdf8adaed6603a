//! ext2, ext3 and ext4: the superblock, 1024 bytes at byte 1024.
//!
//! Layout: kernel documentation "ext4 Data Structures and Algorithms", "Super Block"; `struct
//! ext4_super_block` in fs/ext4/ext4.h. All numbers are little-endian.

pub mod backup;
pub mod features;
pub mod groups;
pub mod health;
pub mod mark;

use std::fmt;

pub use features::Features;

use super::fields::Fields;
use super::{Damage, Reading, Uuid};

/// Where the primary superblock lies, in bytes.
pub const PRIMARY_OFFSET_BYTES: u64 = 1024;

/// A superblock's length in bytes.
pub const LEN_BYTES: usize = 1024;

/// What a superblock of the family says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Superblock {
    pub kind: Kind,
    pub uuid: Uuid,
    pub label: String,
    pub block_bytes: u32,
    /// The filesystem's length in blocks.
    pub blocks: u64,
    pub blocks_per_group: u32,
    /// The first block of group 0: 1 with blocks of 1 KiB, else 0.
    pub first_data_block: u32,
    /// The group this copy was written for (`s_block_group_nr`): 0 in the primary.
    pub group: u16,
    pub features: Features,
    pub state: State,
    /// Errors since the last check (`s_error_count`).
    pub error_count: u32,
    pub last_error: Option<LastError>,
    /// Head of the list of orphaned inodes (`s_last_orphan`); 0 is none.
    pub last_orphan_inode: u32,
    pub mounts: u16,
    /// Mounts before a check is due; 0 or less is never (`s_max_mnt_count`).
    pub max_mounts: i16,
    /// In seconds since the epoch.
    pub last_check_seconds: u64,
    /// Seconds between checks; 0 is never.
    pub check_interval_seconds: u32,
    pub made_seconds: u64,
    pub journal: Journal,
    /// The length of a group descriptor.
    pub descriptor_bytes: u16,
    /// What all checksums but the superblock's own begin with (`s_checksum_seed`).
    pub checksum_seed: u32,
    /// Groups with a copy of the superblock, where `sparse_super2` names them; 0 is none.
    pub backup_groups: [u32; 2],
}

/// Which member of the family the features make it. blkid draws the line at the same place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Ext2,
    Ext3,
    Ext4,
    /// Not a filesystem but a journal kept for one elsewhere (`jbd`).
    JournalDevice,
}

/// `s_state`, as flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State(pub u16);

/// The newest error the kernel recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastError {
    /// The kernel function that saw it.
    pub function: String,
    pub line: u32,
    /// In seconds since the epoch.
    pub at_seconds: u64,
    /// ext4's own code (`EXT4_ERR_*`), not an errno.
    pub code: u8,
}

/// Where the journal is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Journal {
    None,
    Inside { inode: u32 },
    External { uuid: Uuid, device: u32 },
}

impl State {
    /// Unmounted, or checked, cleanly (`EXT4_VALID_FS`).
    #[must_use]
    pub fn is_valid(self) -> bool {
        self.0 & 0x0001 != 0
    }

    /// The kernel saw errors (`EXT4_ERROR_FS`).
    #[must_use]
    pub fn has_errors(self) -> bool {
        self.0 & 0x0002 != 0
    }

    /// Orphans are being recovered (`EXT4_ORPHAN_FS`).
    #[must_use]
    pub fn recovers_orphans(self) -> bool {
        self.0 & 0x0004 != 0
    }

    /// A replay of the fast commit area was cut off (`EXT4_FC_REPLAY`).
    #[must_use]
    pub fn replays_fast_commits(self) -> bool {
        self.0 & 0x0020 != 0
    }
}

impl Kind {
    /// As `blkid` names it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ext2 => "ext2",
            Self::Ext3 => "ext3",
            Self::Ext4 => "ext4",
            Self::JournalDevice => "jbd",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Superblock {
    /// The filesystem's length in bytes.
    #[must_use]
    pub fn fs_bytes(&self) -> u64 {
        self.blocks.saturating_mul(u64::from(self.block_bytes))
    }

    /// How many block groups it has.
    #[must_use]
    pub fn groups(&self) -> u64 {
        let blocks = self.blocks.saturating_sub(u64::from(self.first_data_block));
        blocks.div_ceil(u64::from(self.blocks_per_group.max(1)))
    }

    /// Reads the 1024 bytes of a superblock, the primary one or a copy.
    ///
    /// The magic has two bytes only, so what it claims is believed if the checksum says so
    /// (`metadata_csum`), or if the geometry is one that mke2fs can make.
    #[must_use]
    pub fn parse(block: &[u8]) -> Reading<Self> {
        const MAGIC: u16 = 0xef53;
        let fields = Fields(block);
        if block.len() < LEN_BYTES || fields.le16(0x38) != Some(MAGIC) {
            return Reading::Absent;
        }
        match read(fields) {
            Some(superblock) => match damage(&superblock, fields) {
                Some(damage) => Reading::Damaged(damage),
                None => Reading::Intact(superblock),
            },
            None => Reading::Damaged(Damage::Implausible { field: "block size" }),
        }
    }
}

fn read(fields: Fields<'_>) -> Option<Superblock> {
    let features = Features {
        compat: fields.le32(0x5c)?,
        incompat: fields.le32(0x60)?,
        ro_compat: fields.le32(0x64)?,
    };
    let wide = features.has_incompat(features::INCOMPAT_64BIT);
    let blocks_high = if wide { fields.le32(0x150)? } else { 0 };
    let error_count = fields.le32(0x194)?;
    Some(Superblock {
        kind: kind(features),
        uuid: fields.uuid(0x68)?,
        label: fields.text(0x78, 16)?,
        block_bytes: block_bytes(fields.le32(0x18)?)?,
        blocks: u64::from(blocks_high) << 32 | u64::from(fields.le32(0x04)?),
        blocks_per_group: fields.le32(0x20)?,
        first_data_block: fields.le32(0x14)?,
        group: fields.le16(0x5a)?,
        features,
        state: State(fields.le16(0x3a)?),
        error_count,
        last_error: if error_count == 0 { None } else { Some(last_error(fields)?) },
        last_orphan_inode: fields.le32(0xe8)?,
        mounts: fields.le16(0x34)?,
        max_mounts: fields.le16(0x36)?.cast_signed(),
        last_check_seconds: seconds(fields, 0x40, 0x277)?,
        check_interval_seconds: fields.le32(0x44)?,
        made_seconds: seconds(fields, 0x108, 0x276)?,
        journal: journal(fields, features)?,
        descriptor_bytes: descriptor_bytes(fields, features)?,
        checksum_seed: match features.has_incompat(features::INCOMPAT_CSUM_SEED) {
            true => fields.le32(0x270)?,
            false => checksum(fields.uuid(0x68)?.as_bytes()),
        },
        backup_groups: [fields.le32(0x24c)?, fields.le32(0x250)?],
    })
}

/// 32, or with `64bit` what `s_desc_size` says, if that is a size mke2fs makes.
fn descriptor_bytes(fields: Fields<'_>, features: Features) -> Option<u16> {
    let said = fields.le16(0xfe)?;
    let wide = features.has_incompat(features::INCOMPAT_64BIT);
    Some(match said {
        64..=1024 if wide && said.is_power_of_two() => said,
        _ if wide => 64,
        _ => 32,
    })
}

/// A time: 32 bits, and 8 more above them in a later field (`s_*_hi`).
fn seconds(fields: Fields<'_>, low: usize, high: usize) -> Option<u64> {
    Some(u64::from(fields.byte(high)?) << 32 | u64::from(fields.le32(low)?))
}

/// `s_log_block_size` counts doublings of 1 KiB; the kernel takes up to 64 KiB
/// (`EXT4_MAX_BLOCK_LOG_SIZE`).
fn block_bytes(log: u32) -> Option<u32> {
    (log <= 6).then(|| 1024 << log)
}

fn last_error(fields: Fields<'_>) -> Option<LastError> {
    Some(LastError {
        function: fields.text(0x1e0, 32)?,
        line: fields.le32(0x1d4)?,
        at_seconds: seconds(fields, 0x1cc, 0x279)?,
        code: fields.byte(0x27b)?,
    })
}

fn journal(fields: Fields<'_>, features: Features) -> Option<Journal> {
    if !features.has_compat(features::COMPAT_HAS_JOURNAL) {
        return Some(Journal::None);
    }
    let inode = fields.le32(0xe0)?;
    Some(match inode {
        0 => Journal::External { uuid: fields.uuid(0xd0)?, device: fields.le32(0xe4)? },
        inode => Journal::Inside { inode },
    })
}

fn kind(features: Features) -> Kind {
    if features.has_incompat(features::INCOMPAT_JOURNAL_DEV) {
        return Kind::JournalDevice;
    }
    match (features.need_ext4(), features.has_compat(features::COMPAT_HAS_JOURNAL)) {
        (true, _) => Kind::Ext4,
        (false, true) => Kind::Ext3,
        (false, false) => Kind::Ext2,
    }
}

fn damage(superblock: &Superblock, fields: Fields<'_>) -> Option<Damage> {
    if superblock.features.has_ro_compat(features::RO_COMPAT_METADATA_CSUM) {
        let stored = fields.le32(0x3fc)?;
        let computed = checksum(fields.0.get(..0x3fc)?);
        if stored != computed {
            return Some(Damage::Checksum { stored, computed });
        }
    }
    let implausible = |field| Some(Damage::Implausible { field });
    if superblock.kind == Kind::JournalDevice {
        return None;
    }
    // A bitmap is one block, so a group has at most eight times as many blocks as a block has
    // bytes; with `bigalloc` the bitmap counts clusters instead.
    let bigalloc = superblock.features.has_ro_compat(features::RO_COMPAT_BIGALLOC);
    let most = if bigalloc { u32::MAX } else { superblock.block_bytes * 8 };
    let first = u32::from(superblock.block_bytes == 1024);
    match superblock {
        s if s.blocks == 0 => implausible("block count"),
        s if s.blocks_per_group == 0 || s.blocks_per_group > most => {
            implausible("number of blocks in a group")
        }
        s if s.first_data_block != first && !(bigalloc && s.first_data_block == 0) => {
            implausible("first data block")
        }
        _ if fields.le32(0x28)? == 0 => implausible("number of inodes in a group"),
        _ if fields.le32(0x4c)? > 1 => implausible("revision"),
        _ => None,
    }
}

/// crc32c as ext4 keeps it: all ones at the start, not inverted at the end. The superblock's own
/// sum always starts so; a checksum seed (`metadata_csum_seed`) is for everything below it.
fn checksum(bytes: &[u8]) -> u32 {
    checksum_from(u32::MAX, bytes)
}

/// The same, going on from `sum`.
fn checksum_from(sum: u32, bytes: &[u8]) -> u32 {
    !crc32c::crc32c_append(!sum, bytes)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A plausible ext4 superblock of 100 000 blocks of 4 KiB, in group `group`.
    pub(crate) fn sample(group: u16) -> Vec<u8> {
        let mut block = vec![0; LEN_BYTES];
        let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
        put(0x04, &100_000_u32.to_le_bytes());
        put(0x18, &2_u32.to_le_bytes());
        put(0x20, &32_768_u32.to_le_bytes());
        put(0x28, &8192_u32.to_le_bytes());
        put(0x36, &(-1_i16).to_le_bytes());
        put(0x38, &[0x53, 0xef, 1, 0]);
        put(0x4c, &1_u32.to_le_bytes());
        put(0x5a, &group.to_le_bytes());
        put(0x5c, &features::COMPAT_HAS_JOURNAL.to_le_bytes());
        put(0x60, &0x2c2_u32.to_le_bytes());
        put(0x64, &features::RO_COMPAT_METADATA_CSUM.to_le_bytes());
        put(0x68, &[0xab; 16]);
        put(0xe0, &8_u32.to_le_bytes());
        sum(&mut block);
        block
    }

    /// Writes the checksum that `block` should have.
    pub(crate) fn sum(block: &mut [u8]) {
        let sum = checksum(&block[..0x3fc]);
        block[0x3fc..0x400].copy_from_slice(&sum.to_le_bytes());
    }

    #[test]
    fn a_plausible_superblock_is_read() {
        let superblock = Superblock::parse(&sample(3)).intact().unwrap();
        assert_eq!(superblock.kind, Kind::Ext4);
        assert_eq!(superblock.group, 3);
        assert_eq!(superblock.fs_bytes(), 409_600_000);
        assert_eq!(superblock.groups(), 4);
        assert_eq!(superblock.journal, Journal::Inside { inode: 8 });
    }

    #[test]
    fn one_flipped_bit_is_damage_not_absence() {
        let mut block = sample(0);
        block[0x200] ^= 1;
        assert!(matches!(Superblock::parse(&block), Reading::Damaged(Damage::Checksum { .. })));
    }

    #[test]
    fn the_magic_alone_is_not_believed() {
        let mut block = vec![0xff; LEN_BYTES];
        block[0x38..0x3a].copy_from_slice(&[0x53, 0xef]);
        assert!(matches!(Superblock::parse(&block), Reading::Damaged(_)));
        block = vec![0; LEN_BYTES];
        block[0x38..0x3a].copy_from_slice(&[0x53, 0xef]);
        let damage = Damage::Implausible { field: "block count" };
        assert_eq!(Superblock::parse(&block), Reading::Damaged(damage));
    }

    #[test]
    fn a_cut_superblock_is_absent() {
        assert_eq!(Superblock::parse(&sample(0)[..1023]), Reading::Absent);
    }
}
