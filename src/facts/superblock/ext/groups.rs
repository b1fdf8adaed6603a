//! The group descriptors, which lie behind the superblock and have no place in it.
//!
//! A superblock may say clean over descriptors that are gone. `e2fsck -p`, which the plugin runs on
//! every mount, then writes bad ones in their place, and what a repair from the backups would have
//! saved is lost (facts/longhorn.md 8). So they are looked at before anything is handed on.

use super::{Features, Kind, Superblock, checksum_from, features};
use crate::facts::bytes::{ByteRange, DeviceBytes};
use crate::facts::superblock::fields::Fields;

/// How many bytes of descriptors are looked at.
///
/// One mebibyte: 16,384 groups, a filesystem of 2 TiB, in a millisecond. At half, damage in a
/// larger one is left to its mount; at double, every Stage of a large volume reads that.
const MAX_BYTES: u64 = 1 << 20;

/// Where a descriptor keeps its checksum, and where the upper halves of its numbers begin.
const SUM: usize = 0x1e;
const UPPER: usize = 0x20;

/// What is wrong with a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flaw {
    pub group: u32,
}

/// Where the descriptors lie that are to be looked at; `None` for what has none.
#[must_use]
pub fn range(superblock: &Superblock) -> Option<ByteRange> {
    if superblock.kind == Kind::JournalDevice {
        return None;
    }
    let block_bytes = u64::from(superblock.block_bytes);
    let at = (u64::from(superblock.first_data_block) + 1).checked_mul(block_bytes)?;
    let all = superblock.groups().saturating_mul(u64::from(superblock.descriptor_bytes));
    // With meta_bg only the first block of them lies here.
    let scattered = superblock.features.has_incompat(features::INCOMPAT_META_BG);
    let here = if scattered { all.min(block_bytes) } else { all };
    Some(ByteRange::new(at, here.min(MAX_BYTES)))
}

/// The first descriptor that e2fsck would not believe. What was not read is not judged.
#[must_use]
pub fn find_flaw(superblock: &Superblock, bytes: &DeviceBytes) -> Option<Flaw> {
    let range = range(superblock)?;
    let table = bytes.bytes(range.offset_bytes, usize::try_from(range.len_bytes).ok()?)?;
    let descriptors = table.chunks_exact(usize::from(superblock.descriptor_bytes));
    let flawed = |(group, descriptor): (u32, &[u8])| !is_sound(superblock, group, descriptor);
    let found = (0..).zip(descriptors).find(|one| flawed(*one));
    found.map(|(group, _)| Flaw { group })
}

fn is_sound(superblock: &Superblock, group: u32, descriptor: &[u8]) -> bool {
    let features = superblock.features;
    let fields = Fields(descriptor);
    let stored = fields.le16(SUM);
    if features.has_ro_compat(features::RO_COMPAT_METADATA_CSUM) {
        return stored == Some(sum_crc32c(superblock, group, descriptor));
    }
    if features.has_ro_compat(features::RO_COMPAT_GDT_CSUM) {
        return stored == Some(sum_crc16(superblock, features, group, descriptor));
    }
    // The bitmaps and the inode table lie on the device (`ext2fs_check_desc`).
    [0x00, 0x04, 0x08].into_iter().all(|at| {
        let low = fields.le32(at).map(u64::from).unwrap_or_default();
        let high = match descriptor.len() > UPPER {
            true => fields.le32(at + UPPER).map(u64::from).unwrap_or_default(),
            false => 0,
        };
        let block = high << 32 | low;
        (u64::from(superblock.first_data_block) + 1..superblock.blocks).contains(&block)
    })
}

/// The low half of a crc32c over the group's number and the descriptor, its checksum as zero
/// (`ext4_group_desc_csum`).
fn sum_crc32c(superblock: &Superblock, group: u32, descriptor: &[u8]) -> u16 {
    let sum = checksum_from(superblock.checksum_seed, &group.to_le_bytes());
    let sum = checksum_from(sum, &descriptor[..SUM]);
    let sum = checksum_from(sum, &[0, 0]);
    let sum = checksum_from(sum, descriptor.get(UPPER..).unwrap_or_default());
    (sum & 0xffff) as u16
}

/// The older one: crc16 over UUID, number and descriptor without its checksum.
fn sum_crc16(superblock: &Superblock, features: Features, group: u32, descriptor: &[u8]) -> u16 {
    let sum = crc16(0xffff, superblock.uuid.as_bytes());
    let sum = crc16(sum, &group.to_le_bytes());
    let sum = crc16(sum, &descriptor[..SUM]);
    match features.has_incompat(features::INCOMPAT_64BIT) {
        true => crc16(sum, descriptor.get(UPPER..).unwrap_or_default()),
        false => sum,
    }
}

/// crc16 with the polynomial 0x8005, lowest bit first (`lib/crc16.c` of Linux).
fn crc16(start: u16, bytes: &[u8]) -> u16 {
    bytes.iter().fold(start, |sum, byte| {
        (0..8).fold(sum ^ u16::from(*byte), |sum, _| match sum & 1 {
            1 => (sum >> 1) ^ 0xa001,
            _ => sum >> 1,
        })
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::tests::{sample, sum};
    use super::*;
    use crate::facts::bytes::Outcome;

    /// Descriptors as mke2fs would write them behind `superblock`.
    pub(crate) fn table(superblock: &[u8]) -> Vec<u8> {
        let superblock = Superblock::parse(superblock).intact().unwrap();
        let length = usize::from(superblock.descriptor_bytes);
        let descriptor = |group: u64| {
            let group = u32::try_from(group).unwrap();
            let mut descriptor = vec![0; length];
            for (at, block) in [(0x00, 100_u32), (0x04, 200), (0x08, 300)] {
                descriptor[at..at + 4].copy_from_slice(&(block + group).to_le_bytes());
            }
            let features = superblock.features;
            let sum = if features.has_ro_compat(features::RO_COMPAT_METADATA_CSUM) {
                sum_crc32c(&superblock, group, &descriptor)
            } else if features.has_ro_compat(features::RO_COMPAT_GDT_CSUM) {
                sum_crc16(&superblock, features, group, &descriptor)
            } else {
                0
            };
            descriptor[SUM..UPPER].copy_from_slice(&sum.to_le_bytes());
            descriptor
        };
        (0..superblock.groups()).flat_map(descriptor).collect()
    }

    fn flaw(superblock: &[u8], table: &[u8]) -> Option<Flaw> {
        let mut head = vec![0; 8192];
        head[1024..2048].copy_from_slice(superblock);
        head[4096..4096 + table.len()].copy_from_slice(table);
        let mut bytes = DeviceBytes::new(1 << 30);
        bytes.put(ByteRange::new(0, 8192), Outcome::Bytes(head));
        find_flaw(&Superblock::parse(superblock).intact().unwrap(), &bytes)
    }

    /// With each kind of checksum: crc32c, crc16, none.
    fn superblocks() -> [Vec<u8>; 3] {
        [features::RO_COMPAT_METADATA_CSUM, features::RO_COMPAT_GDT_CSUM, 0].map(|feature| {
            let mut block = sample(0);
            block[0x64..0x68].copy_from_slice(&feature.to_le_bytes());
            sum(&mut block);
            block
        })
    }

    #[test]
    fn sound_descriptors_have_no_flaw() {
        for superblock in superblocks() {
            assert_eq!(flaw(&superblock, &table(&superblock)), None);
        }
    }

    #[test]
    fn descriptors_that_are_gone_or_damaged_are_named() {
        for superblock in superblocks() {
            let sound = table(&superblock);
            assert_eq!(flaw(&superblock, &vec![0; sound.len()]), Some(Flaw { group: 0 }));
            let mut damaged = sound.clone();
            damaged[2 * 64 + 0x0b] = 0xff;
            assert_eq!(flaw(&superblock, &damaged), Some(Flaw { group: 2 }));
        }
    }

    #[test]
    fn what_was_not_read_is_not_judged() {
        let superblock = Superblock::parse(&sample(0)).intact().unwrap();
        assert_eq!(find_flaw(&superblock, &DeviceBytes::new(1 << 30)), None);
    }

    #[test]
    fn crc16_is_that_of_the_kernel() {
        // The check value of CRC-16/ARC.
        assert_eq!(crc16(0, b"123456789"), 0xbb3d);
    }
}
