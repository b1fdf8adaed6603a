//! What the checkers changed: the blocks that really differ from the device.

use super::disk::{Disk, Trouble};
use super::{BLOCK_BYTES, HeldDevice, Room, Trials};
use crate::volume::VolumeId;

/// Blocks handled at once: 1 MiB, enough that a seek costs little, and little enough to hold twice.
pub(super) const RUN_BLOCKS: u64 = 256;

/// A stretch of the device, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Extent {
    pub offset: u64,
    pub length: u64,
}

/// The result of a trial, not yet written. The device is still held. Dropped, it is discarded.
#[derive(Debug)]
pub struct Difference {
    pub(super) disk: Disk,
    pub(super) volume: VolumeId,
    pub(super) trials: Trials,
    pub(super) room: Room,
    extents: Vec<Extent>,
}

impl Difference {
    /// Compares what was written with what the device has now, and that with what was read.
    pub(super) fn of(
        disk: Disk,
        volume: VolumeId,
        trials: Trials,
        room: Room,
    ) -> Result<Self, Trouble> {
        let mut extents: Vec<Extent> = Vec::new();
        let mut buffers = Buffers::default();
        for (first, count) in runs(&disk.written()) {
            let (old, new) = buffers.load(&disk, first, count)?;
            find_change(&disk, first, old)?;
            let blocks = old.chunks_exact(BLOCK_BYTES).zip(new.chunks_exact(BLOCK_BYTES));
            for (block, (old, new)) in (first..).zip(blocks) {
                if old != new {
                    push(&mut extents, block, disk.device().size_bytes());
                }
            }
        }
        Ok(Self { disk, volume, trials, room, extents })
    }

    /// The stretches that differ, in order. None touches its neighbour.
    #[must_use]
    pub fn extents(&self) -> &[Extent] {
        &self.extents
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.extents.is_empty()
    }

    #[must_use]
    pub fn changed_bytes(&self) -> u64 {
        self.extents.iter().map(|extent| extent.length).sum()
    }

    #[must_use]
    pub fn device(&self) -> &HeldDevice {
        self.disk.device()
    }

    /// Discards the result and gives the device back, still held.
    #[must_use]
    pub fn into_device(self) -> HeldDevice {
        self.disk.into_device()
    }

    /// Reads the disk as it would be after an apply.
    ///
    /// # Errors
    /// The device cannot be read, or reads differently by now.
    pub fn read(&self, offset: u64, length: usize) -> Result<Vec<u8>, Trouble> {
        self.disk.read(offset, length, <[u8]>::to_vec)
    }

    /// Loads a stretch that begins at a block: the device's content and the trial's.
    pub(super) fn load<'b>(
        &self,
        buffers: &'b mut Buffers,
        extent: Extent,
    ) -> Result<(&'b [u8], &'b [u8]), Trouble> {
        let (first, count) = blocks_of(extent);
        let (old, new) = buffers.load(&self.disk, first, count)?;
        let length = usize::try_from(extent.length).expect("a run fits in memory");
        Ok((&old[..length], &new[..length]))
    }

    /// Loads a stretch as `load` does, if the device still has there what the checker was shown.
    pub(super) fn load_unchanged<'b>(
        &self,
        buffers: &'b mut Buffers,
        extent: Extent,
    ) -> Result<(&'b [u8], &'b [u8]), Trouble> {
        let (first, count) = blocks_of(extent);
        let (old, _) = buffers.load(&self.disk, first, count)?;
        find_change(&self.disk, first, old)?;
        let length = usize::try_from(extent.length).expect("a run fits in memory");
        Ok((&buffers.old[..length], &buffers.new[..length]))
    }
}

fn blocks_of(extent: Extent) -> (u64, u64) {
    let block = BLOCK_BYTES as u64;
    (extent.offset / block, extent.length.div_ceil(block))
}

/// Looks for a block that the device has differently by now.
fn find_change(disk: &Disk, first: u64, now: &[u8]) -> Result<(), Trouble> {
    let mut blocks = (first..).zip(now.chunks_exact(BLOCK_BYTES));
    match blocks.find(|(block, content)| !disk.agrees(*block, content)) {
        None => Ok(()),
        Some((block, _)) => Err(Trouble::DeviceChanged { offset: block * BLOCK_BYTES as u64 }),
    }
}

/// Room for one run, twice.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    old: Vec<u8>,
    new: Vec<u8>,
}

impl Buffers {
    fn load(&mut self, disk: &Disk, first: u64, count: u64) -> Result<(&[u8], &[u8]), Trouble> {
        let length = usize::try_from(count).expect("a run is short") * BLOCK_BYTES;
        self.old.resize(length, 0);
        disk.load_device(first, &mut self.old)?;
        self.new.clone_from(&self.old);
        let overlaid = disk.overlay(first, &mut self.new);
        overlaid.map_err(|source| Trouble::Store {
            errno: source.raw_os_error().unwrap_or(libc::EIO),
        })?;
        Ok((&self.old, &self.new))
    }
}

/// Runs of neighbouring blocks, none longer than [`RUN_BLOCKS`].
fn runs(blocks: &[u64]) -> Vec<(u64, u64)> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for &block in blocks {
        match runs.last_mut() {
            Some((first, count)) if *first + *count == block && *count < RUN_BLOCKS => *count += 1,
            _ => runs.push((block, 1)),
        }
    }
    runs
}

fn push(extents: &mut Vec<Extent>, block: u64, size_bytes: u64) {
    let offset = block * BLOCK_BYTES as u64;
    let length = (BLOCK_BYTES as u64).min(size_bytes - offset);
    match extents.last_mut() {
        Some(last) if last.offset + last.length == offset => last.length += length,
        _ => extents.push(Extent { offset, length }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_make_a_run_until_it_is_long_enough() {
        assert_eq!(runs(&[1, 2, 4]), [(1, 2), (4, 1)]);
        let many: Vec<u64> = (0..300).collect();
        assert_eq!(runs(&many), [(0, 256), (256, 44)]);
    }

    #[test]
    fn the_last_block_of_an_odd_device_is_as_short_as_the_device_says() {
        let mut extents = Vec::new();
        push(&mut extents, 0, 5000);
        push(&mut extents, 1, 5000);
        assert_eq!(extents, [Extent { offset: 0, length: 5000 }]);
    }
}
