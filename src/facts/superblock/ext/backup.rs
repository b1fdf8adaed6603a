//! Where copies of an ext superblock may lie when the primary is lost.
//!
//! Source: e2fsck(8), `-b`; kernel documentation, "Sparse super block": with `sparse_super` groups
//! 1 and the powers of 3, 5 and 7 have one; with `sparse_super2` two groups do, by default group 1
//! and the last. A copy is the first block of its group.

use super::super::Reading;
use super::{LEN_BYTES, Superblock};
use crate::facts::bytes::{DeviceBytes, Read};

/// One place where a copy would lie if the filesystem had blocks of this size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    pub offset_bytes: u64,
    pub block_bytes: u32,
    /// Counted in blocks, as `e2fsck -b` takes it.
    pub block: u64,
    pub group: u64,
}

/// A copy that is whole and lies where it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backup {
    pub at: Candidate,
    pub superblock: Superblock,
}

/// The groups looked at. Two of them would do; more survive a larger hole. Past 125 the same
/// hole would be larger than 16 GiB.
const GROUPS: [u64; 10] = [1, 3, 5, 7, 9, 25, 27, 49, 81, 125];

/// Block sizes a Linux node with pages of 4 KiB can have made and mounted.
const BLOCK_BYTES: [u32; 3] = [4096, 1024, 2048];

/// Every place worth reading on a device of `size_bytes`: at most 33.
///
/// A group is taken to have as many blocks as its bitmap has bits, which is what mke2fs does
/// unless told otherwise (`-g`).
#[must_use]
pub fn candidates(size_bytes: u64) -> Vec<Candidate> {
    let mut all = Vec::new();
    for block_bytes in BLOCK_BYTES {
        let last = (size_bytes / u64::from(block_bytes)).saturating_sub(2)
            / u64::from(blocks_per_group(block_bytes));
        let also_last = (last > 0 && !GROUPS.contains(&last)).then_some(last);
        for group in GROUPS.into_iter().filter(|group| *group <= last).chain(also_last) {
            let at = candidate(group, block_bytes);
            if at.offset_bytes.saturating_add(LEN_BYTES as u64) <= size_bytes {
                all.push(at);
            }
        }
    }
    all
}

/// The first copy among the candidates that was read and is whole.
#[must_use]
pub fn find(bytes: &DeviceBytes) -> Option<Backup> {
    candidates(bytes.size_bytes()).into_iter().find_map(|at| {
        let Read::Bytes(block) = bytes.at(at.offset_bytes, LEN_BYTES) else {
            return None;
        };
        match Superblock::parse(block) {
            Reading::Intact(superblock) if fits(&superblock, at) => Some(Backup { at, superblock }),
            _ => None,
        }
    })
}

/// `s_block_group_nr` has 16 bits: a copy in a later group says the remainder.
fn fits(superblock: &Superblock, at: Candidate) -> bool {
    superblock.block_bytes == at.block_bytes
        && superblock.blocks_per_group == blocks_per_group(at.block_bytes)
        && u64::from(superblock.group) == at.group % 0x1_0000
}

fn blocks_per_group(block_bytes: u32) -> u32 {
    block_bytes * 8
}

fn candidate(group: u64, block_bytes: u32) -> Candidate {
    let first = u64::from(block_bytes == 1024);
    let block = group.saturating_mul(u64::from(blocks_per_group(block_bytes))) + first;
    let offset_bytes = block.saturating_mul(u64::from(block_bytes));
    Candidate { offset_bytes, block_bytes, block, group }
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;
    use crate::facts::bytes::{ByteRange, Outcome};

    #[test]
    fn the_candidates_are_where_e2fsck_looks() {
        let blocks: Vec<(u32, u64)> = candidates(1 << 30)
            .iter()
            .filter(|at| at.group <= 3)
            .map(|at| (at.block_bytes, at.block))
            .collect();
        let expected = [
            (4096, 32_768),
            (4096, 98_304),
            (1024, 8193),
            (1024, 24_577),
            (2048, 16_384),
            (2048, 49_152),
        ];
        assert_eq!(blocks, expected);
        assert_eq!(candidates(4 << 20), []);
        assert_eq!(candidates(0), []);
        assert_eq!(candidates(u64::MAX).len(), 33);
    }

    #[test]
    fn a_copy_counts_only_where_it_says_it_lies() {
        for (group, found) in [(1, true), (3, false), (0, false)] {
            let mut bytes = DeviceBytes::new(400 << 20);
            let block = Outcome::Bytes(sample(group));
            bytes.put(ByteRange::new(128 << 20, LEN_BYTES as u64), block);
            assert_eq!(find(&bytes).is_some(), found, "group {group}");
        }
    }
}
