//! Memory for blocks: never swapped, never in a core file.

use std::io;
use std::ptr::NonNull;
use std::slice;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mlock, mmap_anonymous, munmap};

use super::BLOCK_BYTES;

/// Blocks of one mapping. 1 MiB: a small repair costs one, and a full store a few thousand.
const CHUNK_BLOCKS: usize = 256;
const CHUNK_BYTES: usize = CHUNK_BLOCKS * BLOCK_BYTES;

/// Blocks by number, from 0; grows by whole chunks.
#[derive(Debug, Default)]
pub(super) struct Arena {
    chunks: Vec<Chunk>,
}

impl Arena {
    /// Sees that block `slot` exists.
    pub(super) fn grow_to(&mut self, slot: usize) -> io::Result<()> {
        while slot / CHUNK_BLOCKS >= self.chunks.len() {
            self.chunks.push(Chunk::map()?);
        }
        Ok(())
    }

    pub(super) fn block(&self, slot: usize) -> &[u8] {
        let start = slot % CHUNK_BLOCKS * BLOCK_BYTES;
        &self.chunks[slot / CHUNK_BLOCKS].bytes()[start..start + BLOCK_BYTES]
    }

    pub(super) fn block_mut(&mut self, slot: usize) -> &mut [u8] {
        let start = slot % CHUNK_BLOCKS * BLOCK_BYTES;
        &mut self.chunks[slot / CHUNK_BLOCKS].bytes_mut()[start..start + BLOCK_BYTES]
    }
}

/// One private anonymous mapping of `CHUNK_BYTES`.
#[derive(Debug)]
struct Chunk(NonNull<u8>);

// SAFETY: the mapping belongs to this value alone and is reached through `&self` and `&mut self`
// only, as a Box<[u8]> would be.
unsafe impl Send for Chunk {}

impl Chunk {
    fn map() -> io::Result<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice overlaps nothing.
        let start = unsafe {
            mmap_anonymous(std::ptr::null_mut(), CHUNK_BYTES, access, MapFlags::PRIVATE)?
        };
        // Both are best effort: without CAP_IPC_LOCK, or over RLIMIT_MEMLOCK, the blocks are
        // swappable like the rest of the guard.
        // SAFETY: both name exactly the mapping made above, and neither changes its content.
        unsafe {
            let _ = mlock(start, CHUNK_BYTES);
            let _ = madvise(start, CHUNK_BYTES, Advice::LinuxDontDump);
        }
        Ok(Self(NonNull::new(start.cast()).expect("mmap(2) does not return null")))
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping is `CHUNK_BYTES` long, readable, zeroed by the kernel, lives as long
        // as `self`, and is written through `&mut self` only.
        unsafe { slice::from_raw_parts(self.0.as_ptr(), CHUNK_BYTES) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`; it is writable, and `&mut self` makes this the only reference.
        unsafe { slice::from_raw_parts_mut(self.0.as_ptr(), CHUNK_BYTES) }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: this is the whole mapping made in `map`, and no reference outlives `self`.
        let _ = unsafe { munmap(self.0.as_ptr().cast(), CHUNK_BYTES) };
    }
}
