//! Where copies of an xfs superblock may lie when the primary is lost.
//!
//! The groups' length is in the lost superblock, but the header of group 0's free space (AGF), one
//! sector behind, says it too ("XFS Algorithms & Data Structures", "AG Free Space Block": `struct
//! xfs_agf`). Where that is gone as well, the geometries that mkfs.xfs chooses by default for a
//! device of this size are tried (`calc_default_ag_geometry`, libxfs/topology.c).

use super::super::Reading;
use super::super::fields::Fields;
use super::{MAX_SECTOR_BYTES, Superblock};
use crate::facts::bytes::DeviceBytes;

/// A copy that is whole and lies at the start of a group of its own geometry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backup {
    pub offset_bytes: u64,
    pub ag: u64,
    pub superblock: Superblock,
}

/// How much is read at a candidate, in bytes. A sector of 4 KiB is the largest that Longhorn's
/// own mkfs parameters and every common disk make.
pub const LEN_BYTES: usize = 4096;

/// Groups a default mkfs.xfs makes: 4 below 4 TiB on one disk; up to 32 with stripes; since
/// xfsprogs 6.13 as many as there are processors. Each costs one read on a device that shows
/// nothing else.
const AG_COUNTS: std::ops::RangeInclusive<u64> = 2..=32;

/// The largest group, and the default one from 4 TiB on (`XFS_AG_MAX_BLOCKS` blocks of 4 KiB).
const MAX_AG_BYTES: u64 = (1 << 40) - 4096;

/// The block size of every default geometry, in bytes.
const BLOCK_BYTES: u64 = 4096;

/// Where the second group would start with default geometries on a device of `size_bytes`.
#[must_use]
pub fn default_candidates(size_bytes: u64) -> Vec<u64> {
    let blocks = size_bytes / BLOCK_BYTES;
    let mut all: Vec<u64> = AG_COUNTS
        .map(|count| blocks.div_ceil(count) * BLOCK_BYTES)
        .chain([MAX_AG_BYTES])
        .filter(|at| *at > 0 && fits(*at, size_bytes))
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Where the second group starts by what the AGF of group 0 says, for every block size it leaves
/// open. `head` is the start of the device. Empty where no AGF is found.
#[must_use]
pub fn candidates_by_agf(head: &[u8], size_bytes: u64) -> Vec<u64> {
    let Some(ag_blocks) = ag_blocks(head) else {
        return Vec::new();
    };
    [4096_u64, 512, 1024, 2048, 8192, 16_384, 32_768, 65_536]
        .into_iter()
        .map(|block_bytes| u64::from(ag_blocks) * block_bytes)
        .filter(|at| fits(*at, size_bytes))
        .collect()
}

/// The first whole copy at one of the candidates.
#[must_use]
pub fn find(bytes: &DeviceBytes, candidates: &[u64]) -> Option<Backup> {
    candidates.iter().find_map(|offset_bytes| {
        let sector = bytes.bytes(*offset_bytes, LEN_BYTES)?;
        let Reading::Intact(superblock) = Superblock::parse(sector) else {
            return None;
        };
        let group_bytes = superblock.ag_offset_bytes(1);
        let ag = offset_bytes.checked_div(group_bytes)?;
        let own = ag > 0 && superblock.ag_offset_bytes(ag) == *offset_bytes;
        own.then_some(Backup { offset_bytes: *offset_bytes, ag, superblock })
    })
}

/// The AGF lies in the second sector, whatever a sector's size.
fn ag_blocks(head: &[u8]) -> Option<u32> {
    let mut sector_bytes = 512;
    while sector_bytes <= MAX_SECTOR_BYTES {
        let agf = Fields(head.get(sector_bytes..)?);
        if agf.has(0, b"XAGF") && agf.be32(4) == Some(1) && agf.be32(8) == Some(0) {
            return agf.be32(12);
        }
        sector_bytes *= 2;
    }
    None
}

fn fits(at: u64, size_bytes: u64) -> bool {
    at > 0 && at.saturating_add(LEN_BYTES as u64) <= size_bytes
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;
    use crate::facts::bytes::{ByteRange, Outcome};

    fn with_copy_at(offset_bytes: u64) -> DeviceBytes {
        let mut bytes = DeviceBytes::new(400 << 20);
        let mut copy = sample();
        copy.resize(LEN_BYTES, 0);
        bytes.put(ByteRange::new(offset_bytes, LEN_BYTES as u64), Outcome::Bytes(copy));
        bytes
    }

    #[test]
    fn the_default_geometry_of_four_groups_is_tried() {
        let candidates = default_candidates(400 << 20);
        assert!(candidates.contains(&(100 << 20)));
        assert_eq!(find(&with_copy_at(100 << 20), &candidates).unwrap().ag, 1);
    }

    #[test]
    fn a_copy_counts_only_at_the_start_of_a_group() {
        assert_eq!(find(&with_copy_at(0), &[0]), None);
        assert_eq!(find(&with_copy_at(50 << 20), &[50 << 20]), None);
        assert_eq!(find(&with_copy_at(300 << 20), &[300 << 20]).unwrap().ag, 3);
    }

    #[test]
    fn the_free_space_header_tells_the_length_of_a_group() {
        let mut head = vec![0; 65_536];
        head[4096..4100].copy_from_slice(b"XAGF");
        head[4103] = 1;
        head[4108..4112].copy_from_slice(&25_600_u32.to_be_bytes());
        assert!(candidates_by_agf(&head, 400 << 20).contains(&(100 << 20)));
        assert!(candidates_by_agf(&[], 400 << 20).is_empty());
    }

    #[test]
    fn no_size_is_too_odd_for_candidates() {
        for size_bytes in [0, 1, 4096, 1 << 42, u64::MAX] {
            assert!(default_candidates(size_bytes).len() <= 32);
        }
    }
}
