//! What the check has read of the device, in four bytes a block.

use std::collections::HashMap;

use xxhash_rust::xxh3::xxh3_64;

/// Blocks of one table: 4 MiB of the device, 4 KiB of ours.
const TABLE_BLOCKS: u64 = 1024;

/// One block's content, boiled down. Two different contents share one in 2^32 cases.
///
/// Four bytes, a thousandth of what is read: e2fsck itself needs more per inode. Eight would halve
/// nothing but a chance nobody meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fingerprint(u32);

impl Fingerprint {
    pub(super) fn of(content: &[u8]) -> Self {
        let hash = xxh3_64(content);
        let folded = u32::try_from((hash ^ (hash >> 32)) & 0xffff_ffff).expect("32 bits");
        // 0 stands for "never read" in the tables.
        Self(folded.max(1))
    }
}

#[derive(Debug, Default)]
pub(super) struct Fingerprints {
    tables: HashMap<u64, Box<[u32]>>,
}

impl Fingerprints {
    /// Notes that `block` was read with this content. `false`: it was read before, with another.
    pub(super) fn note(&mut self, block: u64, seen: Fingerprint) -> bool {
        let table = self.tables.entry(block / TABLE_BLOCKS);
        let table = table.or_insert_with(|| vec![0; to_index(TABLE_BLOCKS)].into_boxed_slice());
        let noted = &mut table[to_index(block % TABLE_BLOCKS)];
        if *noted == 0 {
            *noted = seen.0;
        }
        *noted == seen.0
    }

    /// Whether `now` is what was read of `block`, or nothing was.
    pub(super) fn agrees(&self, block: u64, now: Fingerprint) -> bool {
        let table = self.tables.get(&(block / TABLE_BLOCKS));
        let noted = table.map_or(0, |table| table[to_index(block % TABLE_BLOCKS)]);
        noted == 0 || noted == now.0
    }
}

fn to_index(number: u64) -> usize {
    usize::try_from(number).expect("less than a table's length")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_that_reads_differently_the_second_time_is_noticed() {
        let mut seen = Fingerprints::default();
        let (old, new) = (Fingerprint::of(b"old"), Fingerprint::of(b"new"));
        assert!(seen.agrees(5000, new));
        assert!(seen.note(5000, old));
        assert!(seen.note(5000, old));
        assert!(!seen.note(5000, new));
        assert!(seen.agrees(5000, old) && !seen.agrees(5000, new));
        assert!(seen.agrees(5001, new));
    }
}
