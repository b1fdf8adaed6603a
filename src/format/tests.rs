//! Devices made of bytes, and what is said about them.

mod admitted;
mod fuzzed;
mod identified;

use super::{Content, ReadPlan, Step, identify};
use crate::facts::bytes::{ByteRange, DeviceBytes, Failure, Outcome};
use crate::facts::superblock::{btrfs, ext, luks, xfs};

/// A device that is zero but for a few places.
#[derive(Debug)]
struct Disk {
    size_bytes: u64,
    written: Vec<(u64, Vec<u8>)>,
    broken: Vec<(ByteRange, Failure)>,
}

impl Disk {
    fn new(size_bytes: u64) -> Self {
        Self { size_bytes, written: Vec::new(), broken: Vec::new() }
    }

    fn with(mut self, offset_bytes: u64, bytes: impl Into<Vec<u8>>) -> Self {
        self.written.push((offset_bytes, bytes.into()));
        self
    }

    fn broken(mut self, offset_bytes: u64, failure: Failure) -> Self {
        self.broken.push((ByteRange::new(offset_bytes, 512), failure));
        self
    }

    fn ext4() -> Self {
        Self::new(512 << 20)
            .with(1024, ext::tests::sample(0))
            .with(128 << 20, ext::tests::sample(1))
    }

    fn xfs() -> Self {
        Self::new(400 << 20).with(0, xfs::tests::sample()).with(100 << 20, xfs::tests::sample())
    }

    fn btrfs() -> Self {
        let (primary, mirror) = (btrfs::PRIMARY_OFFSET_BYTES, btrfs::MIRROR_OFFSETS_BYTES[0]);
        let disk = Self::new(1 << 30).with(primary, btrfs::tests::sample(primary));
        disk.with(mirror, btrfs::tests::sample(mirror))
    }

    fn luks() -> Self {
        let disk = Self::new(1 << 30).with(0, luks::tests::sample(0));
        disk.with(16_384, luks::tests::sample(16_384))
    }

    fn read(&self, range: ByteRange) -> Outcome {
        if let Some((_, failure)) = self.broken.iter().find(|(at, _)| at.overlaps(range)) {
            return Outcome::Failed(*failure);
        }
        let mut bytes = vec![0; usize::try_from(range.len_bytes).unwrap()];
        let here = |(at, written): &&(u64, Vec<u8>)| {
            range.overlaps(ByteRange::new(*at, written.len() as u64))
        };
        for (at, written) in self.written.iter().filter(here) {
            for (place, byte) in (*at..).zip(written) {
                if range.contains(ByteRange::new(place, 1)) {
                    bytes[usize::try_from(place - range.offset_bytes).unwrap()] = *byte;
                }
            }
        }
        Outcome::Bytes(bytes)
    }

    /// Reads what is asked for until there is an answer; says how many rounds that took.
    fn identified(&self) -> (Content, usize) {
        let mut bytes = DeviceBytes::new(self.size_bytes);
        for round in 0..200 {
            match identify(&bytes) {
                Step::Is(content) => return (content, round),
                Step::Needs(plan) => self.fill(&mut bytes, &plan),
            }
        }
        panic!("asks for ever");
    }

    fn content(&self) -> Content {
        self.identified().0
    }

    fn fill(&self, bytes: &mut DeviceBytes, plan: &ReadPlan) {
        for range in plan.ranges() {
            bytes.put(*range, self.read(*range));
        }
    }
}
