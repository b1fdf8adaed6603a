//! The copy-on-write store: what the checker wrote, by block of the device.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::BLOCK_BYTES;
use super::arena::Arena;
use super::quota::Charge;

/// Blocks kept in memory before the rest goes to a file: 4 MiB.
///
/// The largest of 231 repairs changed 1 MB: nearly none ever touches the host's disk. What is over
/// it is a journal replay, and sits in the page cache anyway.
const MEMORY_BLOCKS: usize = 1024;

/// Why a block was not taken.
#[derive(Debug)]
pub(super) enum Full {
    /// The quota, or the limit of a store in memory.
    Limit,
    /// The file in the state directory, or memory, would not grow.
    Grow(io::Error),
}

/// Where the blocks beyond the first few go.
#[derive(Debug)]
pub(super) enum Overflow {
    /// To a file that has no name.
    File(File),
    /// Nowhere: plain text of an encrypted volume stays in memory, up to so many blocks.
    Memory { limit_blocks: usize },
}

#[derive(Debug)]
pub(super) struct Store {
    slots: HashMap<u64, u32>,
    arena: Arena,
    overflow: Overflow,
    charge: Charge,
}

impl Store {
    pub(super) fn new(overflow: Overflow, charge: Charge) -> Self {
        Self { slots: HashMap::new(), arena: Arena::default(), overflow, charge }
    }

    pub(super) fn holds(&self, block: u64) -> bool {
        self.slots.contains_key(&block)
    }

    /// The blocks held, in order.
    pub(super) fn blocks(&self) -> Vec<u64> {
        let mut blocks: Vec<u64> = self.slots.keys().copied().collect();
        blocks.sort_unstable();
        blocks
    }

    /// Puts the held ones of the blocks from `first` on over `buffer`, which is a whole number of
    /// blocks, and says for each whether it was held.
    pub(super) fn overlay(&self, first: u64, buffer: &mut [u8]) -> io::Result<()> {
        if self.slots.is_empty() {
            return Ok(());
        }
        let count = buffer.len() / BLOCK_BYTES;
        let mut index = 0;
        while index < count {
            let Some(&slot) = self.slots.get(&(first + index as u64)) else {
                index += 1;
                continue;
            };
            // Neighbours on the device that are neighbours in the store are read at once.
            let run = self.run(first + index as u64, slot, count - index);
            let bytes = &mut buffer[index * BLOCK_BYTES..(index + run) * BLOCK_BYTES];
            self.load(slot as usize, bytes)?;
            index += run;
        }
        Ok(())
    }

    /// Takes whole blocks: `data` becomes the content of the blocks from `first` on.
    pub(super) fn put(&mut self, first: u64, data: &[u8]) -> Result<(), Full> {
        let count = data.len() / BLOCK_BYTES;
        let new = (0..count as u64).filter(|index| !self.holds(first + index)).count();
        self.reserve(new)?;
        let mut next = self.slots.len();
        for index in 0..count as u64 {
            self.slots.entry(first + index).or_insert_with(|| {
                next += 1;
                u32::try_from(next - 1).expect("2^32 blocks are 16 TiB, far over any quota")
            });
        }
        let mut index = 0;
        while index < count {
            let slot = self.slots[&(first + index as u64)];
            let run = self.run(first + index as u64, slot, count - index);
            let bytes = &data[index * BLOCK_BYTES..(index + run) * BLOCK_BYTES];
            self.save(slot as usize, bytes).map_err(Full::Grow)?;
            index += run;
        }
        Ok(())
    }

    fn reserve(&mut self, new: usize) -> Result<(), Full> {
        let blocks = self.slots.len() + new;
        if let Overflow::Memory { limit_blocks } = self.overflow
            && blocks > limit_blocks
        {
            return Err(Full::Limit);
        }
        if !self.charge.take((new * BLOCK_BYTES) as u64) {
            return Err(Full::Limit);
        }
        let in_memory = blocks.min(self.memory_blocks());
        match in_memory {
            0 => Ok(()),
            _ => self.arena.grow_to(in_memory - 1).map_err(Full::Grow),
        }
    }

    fn memory_blocks(&self) -> usize {
        match self.overflow {
            Overflow::File(_) => MEMORY_BLOCKS,
            Overflow::Memory { .. } => usize::MAX,
        }
    }

    /// How many of `most` blocks from `block` on, the first of which is in `slot`, lie one behind
    /// the other.
    fn run(&self, block: u64, slot: u32, most: usize) -> usize {
        let is_next = |index: &u32| {
            let held = self.slots.get(&(block + u64::from(*index)));
            held.is_some_and(|held| *held == slot + index)
        };
        let most = u32::try_from(most).expect("a request has at most 2^32 blocks");
        1 + (1..most).take_while(is_next).count()
    }

    fn load(&self, slot: usize, bytes: &mut [u8]) -> io::Result<()> {
        let split = self.in_memory(slot, bytes.len());
        let (memory, file) = bytes.split_at_mut(split);
        for (index, block) in memory.chunks_exact_mut(BLOCK_BYTES).enumerate() {
            block.copy_from_slice(self.arena.block(slot + index));
        }
        match &self.overflow {
            Overflow::File(spill) if !file.is_empty() => {
                spill.read_exact_at(file, spill_offset(slot + split / BLOCK_BYTES))
            }
            _ => Ok(()),
        }
    }

    fn save(&mut self, slot: usize, bytes: &[u8]) -> io::Result<()> {
        let split = self.in_memory(slot, bytes.len());
        let (memory, file) = bytes.split_at(split);
        for (index, block) in memory.chunks_exact(BLOCK_BYTES).enumerate() {
            self.arena.block_mut(slot + index).copy_from_slice(block);
        }
        match &self.overflow {
            Overflow::File(spill) if !file.is_empty() => {
                spill.write_all_at(file, spill_offset(slot + split / BLOCK_BYTES))
            }
            _ => Ok(()),
        }
    }

    /// How many of `bytes` from `slot` on are in memory.
    fn in_memory(&self, slot: usize, bytes: usize) -> usize {
        let left = self.memory_blocks().saturating_sub(slot);
        bytes.min(left.saturating_mul(BLOCK_BYTES))
    }
}

fn spill_offset(slot: usize) -> u64 {
    ((slot - MEMORY_BLOCKS) * BLOCK_BYTES) as u64
}

#[cfg(test)]
mod tests {
    use super::super::quota::Quota;
    use super::*;

    fn spilling(quota: &Quota) -> Store {
        Store::new(Overflow::File(tempfile::tempfile().unwrap()), quota.charge())
    }

    fn block(content: u64) -> Vec<u8> {
        content.to_ne_bytes().repeat(BLOCK_BYTES / 8)
    }

    #[test]
    fn a_block_reads_as_it_was_last_written_in_memory_and_in_the_file() {
        let quota = Quota::new(1 << 30);
        let mut store = spilling(&quota);
        let count = 3 * MEMORY_BLOCKS as u64;
        // Backwards and in runs of seven: runs cross the end of the memory part.
        for first in (0..count).step_by(7).collect::<Vec<_>>().into_iter().rev() {
            let run: Vec<u8> = (first..first + 7).flat_map(block).collect();
            store.put(first, &run).unwrap();
        }
        store.put(MEMORY_BLOCKS as u64, &block(u64::MAX)).unwrap();
        for first in 0..count {
            let mut seen = vec![0; 2 * BLOCK_BYTES];
            store.overlay(first, &mut seen[..BLOCK_BYTES]).unwrap();
            let expected = if first == MEMORY_BLOCKS as u64 { u64::MAX } else { first };
            assert_eq!(seen[..BLOCK_BYTES], block(expected), "{first}");
        }
        let mut whole = vec![0; count as usize * BLOCK_BYTES];
        store.overlay(0, &mut whole).unwrap();
        assert_eq!(whole[9 * BLOCK_BYTES..][..BLOCK_BYTES], block(9));
        assert_eq!(quota.used_bytes(), (store.blocks().len() * BLOCK_BYTES) as u64);
    }

    #[test]
    fn what_is_not_held_is_left_alone() {
        let mut store = spilling(&Quota::new(1 << 20));
        store.put(1, &block(1)).unwrap();
        let mut seen = block(9).repeat(3);
        store.overlay(0, &mut seen).unwrap();
        assert_eq!(seen, [block(9), block(1), block(9)].concat());
    }

    #[test]
    fn a_block_over_the_limit_is_refused_and_one_that_is_held_is_not() {
        let quota = Quota::new(2 * BLOCK_BYTES as u64);
        let mut store = spilling(&quota);
        store.put(0, &block(0).repeat(2)).unwrap();
        assert!(matches!(store.put(2, &block(2)), Err(Full::Limit)));
        store.put(1, &block(7)).unwrap();
        let mut memory =
            Store::new(Overflow::Memory { limit_blocks: 1 }, Quota::new(9999).charge());
        memory.put(0, &block(0)).unwrap();
        assert!(matches!(memory.put(1, &block(1)), Err(Full::Limit)));
    }
}
