//! btrfs: the superblock at 64 KiB and its mirrors.
//!
//! Layout: btrfs documentation, "On-disk format", "Superblock"; `struct btrfs_super_block` in
//! include/uapi/linux/btrfs_tree.h. Numbers are little-endian.

use sha2::{Digest, Sha256};

use super::fields::Fields;
use super::{Damage, Reading, Uuid};

/// Where the superblock lies, in bytes.
pub const PRIMARY_OFFSET_BYTES: u64 = 64 << 10;

/// Where the mirrors lie, in bytes (`btrfs_sb_offset`), on devices that reach so far.
pub const MIRROR_OFFSETS_BYTES: [u64; 2] = [64 << 20, 256 << 30];

/// A superblock's length in bytes (`BTRFS_SUPER_INFO_SIZE`).
pub const LEN_BYTES: usize = 4096;

/// What a superblock says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Superblock {
    /// What users see (`fsid`).
    pub uuid: Uuid,
    pub label: String,
    /// Grows with every commit; of two copies the higher is newer.
    pub generation: u64,
    /// What this device gives to the filesystem, in bytes.
    pub device_bytes: u64,
    pub devices: u64,
    /// An fsync since the last commit is kept in a log: the next mount replays it.
    pub has_log: bool,
    /// `None` for a checksum this program does not compute (xxhash, blake2b).
    pub checksum_verified: Option<Checksum>,
}

/// The kinds of checksum that are verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checksum {
    Crc32c,
    Sha256,
}

impl Superblock {
    /// Reads the 4096 bytes at `offset_bytes`: a superblock says where it lies.
    #[must_use]
    pub fn parse(block: &[u8], offset_bytes: u64) -> Reading<Self> {
        const MAGIC: &[u8] = b"_BHRfS_M";
        let fields = Fields(block);
        if block.len() < LEN_BYTES || !fields.has(64, MAGIC) {
            return Reading::Absent;
        }
        if fields.le64(48) != Some(offset_bytes) {
            return Reading::Damaged(Damage::Implausible { field: "own position" });
        }
        let checksum_verified = match verify(fields) {
            Ok(checksum) => checksum,
            Err(damage) => return Reading::Damaged(damage),
        };
        match read(fields, checksum_verified) {
            Some(superblock) if superblock.devices > 0 => Reading::Intact(superblock),
            _ => Reading::Damaged(Damage::Implausible { field: "number of devices" }),
        }
    }
}

fn read(fields: Fields<'_>, checksum_verified: Option<Checksum>) -> Option<Superblock> {
    Some(Superblock {
        uuid: fields.uuid(32)?,
        label: fields.text(299, 256)?,
        generation: fields.le64(72)?,
        device_bytes: fields.le64(209)?,
        devices: fields.le64(136)?,
        has_log: fields.le64(96)? != 0,
        checksum_verified,
    })
}

/// The checksum fills the first 32 bytes and covers the rest.
fn verify(fields: Fields<'_>) -> Result<Option<Checksum>, Damage> {
    const SUM_BYTES: usize = 32;
    let covered = fields.0.get(SUM_BYTES..LEN_BYTES).unwrap_or_default();
    let first = |bytes: &[u8]| Fields(bytes).le32(0).unwrap_or(0);
    match fields.le16(196) {
        Some(0) => match (first(fields.0), crc32c::crc32c(covered)) {
            (stored, computed) if stored == computed => Ok(Some(Checksum::Crc32c)),
            (stored, computed) => Err(Damage::Checksum { stored, computed }),
        },
        Some(2) => {
            let sum = Sha256::digest(covered);
            let damage = Damage::Checksum { stored: first(fields.0), computed: first(&sum) };
            if fields.has(0, &sum) { Ok(Some(Checksum::Sha256)) } else { Err(damage) }
        }
        Some(1 | 3) => Ok(None),
        _ => Err(Damage::Implausible { field: "kind of checksum" }),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A plausible superblock for the place `offset_bytes` on one device of 1 GiB.
    pub(crate) fn sample(offset_bytes: u64) -> Vec<u8> {
        let mut block = vec![0; LEN_BYTES];
        let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
        put(32, &[0xef; 16]);
        put(48, &offset_bytes.to_le_bytes());
        put(64, b"_BHRfS_M");
        put(72, &9_u64.to_le_bytes());
        put(136, &1_u64.to_le_bytes());
        put(209, &(1_u64 << 30).to_le_bytes());
        let sum = crc32c::crc32c(&block[32..]);
        block[..4].copy_from_slice(&sum.to_le_bytes());
        block
    }

    #[test]
    fn a_plausible_superblock_is_read() {
        let block = sample(PRIMARY_OFFSET_BYTES);
        let superblock = Superblock::parse(&block, PRIMARY_OFFSET_BYTES).intact().unwrap();
        assert_eq!((superblock.generation, superblock.devices), (9, 1));
        assert!(!superblock.has_log);
    }

    #[test]
    fn a_mirror_in_the_primarys_place_is_damage() {
        let block = sample(MIRROR_OFFSETS_BYTES[0]);
        let damage = Damage::Implausible { field: "own position" };
        assert_eq!(Superblock::parse(&block, PRIMARY_OFFSET_BYTES), Reading::Damaged(damage));
    }

    #[test]
    fn one_flipped_bit_is_damage_not_absence() {
        let mut block = sample(PRIMARY_OFFSET_BYTES);
        block[4095] ^= 1;
        let reading = Superblock::parse(&block, PRIMARY_OFFSET_BYTES);
        assert!(matches!(reading, Reading::Damaged(Damage::Checksum { .. })));
    }
}
