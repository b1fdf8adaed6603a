//! Which ranges of a device must be read before anything is said about it.

use crate::facts::bytes::ByteRange;
use crate::facts::superblock::{btrfs, ext, luks, xfs};

/// Ranges to read: sorted, apart from each other, on 4 KiB boundaries except at the device's end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadPlan {
    ranges: Vec<ByteRange>,
}

/// The start of a device that tells a healthy ext, xfs or LUKS, in bytes: the superblocks and
/// whatever contends with them there. A cold read of 68 KiB, to see btrfs too, costs a loop device
/// four times as much (109 against 24 us), before every healthy mount.
const GLANCE_BYTES: u64 = 8192;

/// The start of a device that is read where the glance did not settle it, in bytes: mkfs of every
/// kind writes there, and the last place of a second LUKS header (4 MiB) lies in it.
const HEAD_BYTES: u64 = (4 << 20) + 65_536;

/// The end of a device that is read then, in bytes: the copy of a GPT, md, DRBD and most of what
/// keeps its own data at the end.
const TAIL_BYTES: u64 = 1 << 20;

/// Single reads between start and end. Used space lies in clusters, so a filesystem that lost its
/// start shows in one of 256 places; twice as many would double the time a new volume takes over a
/// network (0.1 to 0.3 s) for one more bit of certainty.
const PROBES: u64 = 256;

/// What one probe reads, in bytes. Reads past the page cache need such boundaries.
const ALIGN_BYTES: u64 = 4096;

impl ReadPlan {
    /// Enough to recognize a healthy filesystem or a LUKS header: one read.
    #[must_use]
    pub fn glance(size_bytes: u64) -> Self {
        Self::of(size_bytes, [(0, GLANCE_BYTES)])
    }

    /// The one place of a healthy filesystem that the glance leaves out.
    #[must_use]
    pub fn btrfs(size_bytes: u64) -> Self {
        Self::of(size_bytes, [(btrfs::PRIMARY_OFFSET_BYTES, btrfs::LEN_BYTES as u64)])
    }

    /// Everything that is looked at before a device is called blank, foreign or damaged: its
    /// start, its end, probes between, and every place where a copy of a lost superblock may lie.
    #[must_use]
    pub fn survey(size_bytes: u64) -> Self {
        let copies = ext::backup::candidates(size_bytes)
            .into_iter()
            .map(|at| (at.offset_bytes, ext::LEN_BYTES as u64));
        let groups = xfs::backup::default_candidates(size_bytes)
            .into_iter()
            .map(|at| (at, xfs::backup::LEN_BYTES as u64));
        let mirrors = btrfs::MIRROR_OFFSETS_BYTES.map(|at| (at, btrfs::LEN_BYTES as u64));
        let headers = luks::SECONDARY_OFFSETS_BYTES.map(|at| (at, luks::LEN_BYTES as u64));
        let ends = [(0, HEAD_BYTES), (size_bytes.saturating_sub(TAIL_BYTES), TAIL_BYTES)];
        let ranges = ends.into_iter().chain(headers).chain(mirrors).chain(groups).chain(copies);
        Self::of(size_bytes, ranges.chain(probes(size_bytes)))
    }

    /// A plan for these (offset, length) in bytes, as far as the device has them.
    pub fn of(size_bytes: u64, wanted: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let mut ranges: Vec<ByteRange> =
            wanted.into_iter().filter_map(|(at, len)| aligned(size_bytes, at, len)).collect();
        ranges.sort_unstable();
        Self { ranges: merged(ranges) }
    }

    #[must_use]
    pub fn ranges(&self) -> &[ByteRange] {
        &self.ranges
    }

    /// How much there is to read, in bytes.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.ranges.iter().map(|range| range.len_bytes).sum()
    }

    pub(super) fn only(self, keep: impl FnMut(&ByteRange) -> bool) -> Self {
        Self { ranges: self.ranges.into_iter().filter(keep).collect() }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
}

/// Joins what touches or overlaps; `ranges` are sorted.
pub(super) fn merged(ranges: Vec<ByteRange>) -> Vec<ByteRange> {
    let mut merged: Vec<ByteRange> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.offset_bytes <= last.end_bytes() => {
                let end = last.end_bytes().max(range.end_bytes());
                last.len_bytes = end - last.offset_bytes;
            }
            _ => merged.push(range),
        }
    }
    merged
}

fn probes(size_bytes: u64) -> impl Iterator<Item = (u64, u64)> {
    let between = size_bytes.saturating_sub(HEAD_BYTES + TAIL_BYTES);
    let step = between / PROBES;
    let count = if step == 0 { 0 } else { PROBES };
    (0..count).map(move |probe| (HEAD_BYTES + probe * step + step / 2, ALIGN_BYTES))
}

/// `None` where the device ends before the range does: a structure is there whole or not at all.
/// The start and the end of a device are there as far as it goes.
fn aligned(size_bytes: u64, at: u64, len: u64) -> Option<ByteRange> {
    let from = at / ALIGN_BYTES * ALIGN_BYTES;
    let end = at.checked_add(len)?;
    let to = end.checked_next_multiple_of(ALIGN_BYTES).unwrap_or(end).min(size_bytes);
    (from < to && (end <= size_bytes || at == 0)).then(|| ByteRange::new(from, to - from))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: [u64; 9] =
        [1, 512, 4096, 70_000, 1 << 20, (5 << 20) + 512, 1 << 30, 1 << 40, u64::MAX];

    #[test]
    fn a_plan_is_sorted_apart_and_on_the_device() {
        for size_bytes in SIZES {
            for plan in [ReadPlan::glance(size_bytes), ReadPlan::survey(size_bytes)] {
                let ranges = plan.ranges();
                assert!(ranges.windows(2).all(|two| two[0].end_bytes() < two[1].offset_bytes));
                assert!(ranges.iter().all(|range| range.end_bytes() <= size_bytes));
                assert!(ranges.iter().all(|range| range.offset_bytes % ALIGN_BYTES == 0));
                assert_eq!(ranges[0].offset_bytes, 0, "{size_bytes}");
            }
        }
    }

    #[test]
    fn the_last_byte_of_a_device_is_in_the_survey() {
        for size_bytes in SIZES {
            let last = ReadPlan::survey(size_bytes).ranges().last().unwrap().end_bytes();
            assert_eq!(last, size_bytes);
        }
    }

    #[test]
    fn a_glance_is_one_small_read_and_a_survey_bounded() {
        assert_eq!(ReadPlan::glance(1 << 40).ranges(), [ByteRange::new(0, 8192)]);
        let survey = ReadPlan::survey(1 << 44);
        assert!(survey.ranges().len() < 350, "{}", survey.ranges().len());
        assert!(survey.total_bytes() < 8 << 20, "{}", survey.total_bytes());
    }

    #[test]
    fn a_small_device_is_read_whole() {
        let size_bytes = 5 << 20;
        assert_eq!(ReadPlan::survey(size_bytes).ranges(), [ByteRange::new(0, size_bytes)]);
        assert!(ReadPlan::survey(0).is_empty());
    }
}
