//! In what order a difference is written: marks, blocks, and the superblock at the end.

use super::BLOCK_BYTES;
use super::difference::{Extent, RUN_BLOCKS};

/// Bytes written to the device before anything else: what makes the filesystem say of itself that
/// it needs a check, so that a half-written device is never taken for a sound one, not even by
/// another node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    pub offset: u64,
    pub bytes: Vec<u8>,
}

impl Mark {
    /// Puts the part of this mark that lies in `content`, which begins at `offset`, over it.
    pub(super) fn put_over(&self, offset: u64, content: &mut [u8]) {
        let end = self.offset + self.bytes.len() as u64;
        let from = self.offset.max(offset);
        let to = end.min(offset + content.len() as u64);
        if from < to {
            let source = &self.bytes[to_size(from - self.offset)..to_size(to - self.offset)];
            content[to_size(from - offset)..to_size(to - offset)].copy_from_slice(source);
        }
    }
}

/// A stretch to write, at most 1 MiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Planned {
    pub(super) extent: Extent,
    /// Written after all others are on the device for good.
    pub(super) last: bool,
}

/// Plans a difference. The blocks at the offsets `last`, and those that carry a mark, come last,
/// and are part of the plan whether they differ or not: the marks must go, and as every mount
/// changes the superblock, a log that holds it cannot be mistaken for a fresh one later.
pub(super) fn plan(
    extents: &[Extent],
    marks: &[Mark],
    last: &[u64],
    size_bytes: u64,
) -> Vec<Planned> {
    let last = last_blocks(marks, last, size_bytes);
    let mut planned = Vec::new();
    for extent in extents {
        let blocks = blocks_of(*extent).filter(|block| last.binary_search(block).is_err());
        push_runs(&mut planned, blocks, size_bytes, false);
    }
    push_runs(&mut planned, last.iter().copied(), size_bytes, true);
    planned
}

fn last_blocks(marks: &[Mark], last: &[u64], size_bytes: u64) -> Vec<u64> {
    let marked = marks.iter().flat_map(|mark| {
        blocks_of(Extent { offset: mark.offset, length: mark.bytes.len() as u64 })
    });
    let named = last.iter().map(|offset| offset / BLOCK_BYTES as u64);
    let mut blocks: Vec<u64> =
        marked.chain(named).filter(|block| block * (BLOCK_BYTES as u64) < size_bytes).collect();
    blocks.sort_unstable();
    blocks.dedup();
    blocks
}

fn blocks_of(extent: Extent) -> std::ops::Range<u64> {
    let block = BLOCK_BYTES as u64;
    extent.offset / block..(extent.offset + extent.length).div_ceil(block)
}

fn push_runs(
    planned: &mut Vec<Planned>,
    blocks: impl Iterator<Item = u64>,
    size_bytes: u64,
    last: bool,
) {
    let most = RUN_BLOCKS * BLOCK_BYTES as u64;
    let begun = planned.len();
    for block in blocks {
        let offset = block * BLOCK_BYTES as u64;
        let length = (BLOCK_BYTES as u64).min(size_bytes - offset);
        match planned[begun..].last_mut() {
            Some(Planned { extent, .. })
                if extent.offset + extent.length == offset && extent.length < most =>
            {
                extent.length += length;
            }
            _ => planned.push(Planned { extent: Extent { offset, length }, last }),
        }
    }
}

fn to_size(bytes: u64) -> usize {
    usize::try_from(bytes).expect("a mark fits in memory")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(extents: &[(u64, u64)], marks: &[Mark], last: &[u64], expected: &[(u64, u64, bool)]) {
        let extents: Vec<Extent> =
            extents.iter().map(|&(offset, length)| Extent { offset, length }).collect();
        let planned: Vec<(u64, u64, bool)> = plan(&extents, marks, last, 1 << 24)
            .iter()
            .map(|planned| (planned.extent.offset, planned.extent.length, planned.last))
            .collect();
        assert_eq!(planned, expected);
    }

    #[test]
    fn the_superblock_is_cut_out_and_comes_last() {
        check(&[(0, 12_288)], &[], &[1024], &[(4096, 8192, false), (0, 4096, true)]);
    }

    #[test]
    fn a_marked_block_comes_last_even_if_it_does_not_differ() {
        let mark = Mark { offset: 1024, bytes: vec![1; 1024] };
        check(&[(8192, 4096)], &[mark], &[], &[(8192, 4096, false), (0, 4096, true)]);
        check(&[], &[], &[1024], &[(0, 4096, true)]);
    }

    #[test]
    fn no_stretch_is_longer_than_a_mebibyte() {
        let half = (1 << 20) + 4096;
        check(&[(0, half)], &[], &[], &[(0, 1 << 20, false), (1 << 20, 4096, false)]);
    }

    #[test]
    fn a_mark_covers_what_it_overlaps() {
        let mark = Mark { offset: 6, bytes: vec![9; 4] };
        let mut content = [0; 4];
        mark.put_over(4, &mut content);
        assert_eq!(content, [0, 0, 9, 9]);
        mark.put_over(100, &mut content);
        assert_eq!(content, [0, 0, 9, 9]);
    }
}
