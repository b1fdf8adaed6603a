//! The disk the checker sees: the device, overlaid with what the checker wrote.

use std::cell::RefCell;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use super::fingerprints::{Fingerprint, Fingerprints};
use super::store::{Full, Store};
use super::{BLOCK_BYTES, HeldDevice};
use crate::host::tool::Cancel;

/// What makes the result of a trial worthless, as soon as it happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    #[error("the checker changed more than the trial may keep")]
    StoreFull,
    #[error("the store of the trial cannot grow (errno {errno})")]
    Store { errno: i32 },
    #[error("the device cannot be read at byte {offset} (errno {errno})")]
    DeviceRead { offset: u64, errno: i32 },
    #[error("the device changed at byte {offset} during the check")]
    DeviceChanged { offset: u64 },
    #[error("the checker wrote at byte {offset}, beyond the end of the device")]
    BeyondEnd { offset: u64 },
}

#[derive(Debug)]
pub(super) struct Disk {
    device: HeldDevice,
    store: Mutex<Store>,
    seen: Mutex<Fingerprints>,
    trouble: OnceLock<Trouble>,
    /// Raised with the first trouble: the checker works in vain from there on.
    alarm: Cancel,
    reading: Reading,
}

/// Reads of the device that are under way, for whoever wants to know whether one hangs.
#[derive(Debug)]
struct Reading {
    started: Instant,
    count: AtomicU64,
    /// When one began or ended last, in milliseconds since `started`.
    moved_ms: AtomicU64,
}

impl Reading {
    fn moved(&self) {
        let ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.moved_ms.store(ms, Ordering::Relaxed);
    }

    /// How long all that is asked of the device has been without an answer.
    fn stalled(&self) -> Duration {
        if self.count.load(Ordering::Relaxed) == 0 {
            return Duration::ZERO;
        }
        let moved = Duration::from_millis(self.moved_ms.load(Ordering::Relaxed));
        self.started.elapsed().saturating_sub(moved)
    }
}

thread_local! {
    /// A thread's buffer for a request: 1 MiB allocated anew costs more than reading it.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Disk {
    pub(super) fn new(device: HeldDevice, store: Store, alarm: Cancel) -> Self {
        Self {
            device,
            store: Mutex::new(store),
            seen: Mutex::default(),
            trouble: OnceLock::new(),
            alarm,
            reading: Reading {
                started: Instant::now(),
                count: AtomicU64::new(0),
                moved_ms: AtomicU64::new(0),
            },
        }
    }

    pub(super) fn device(&self) -> &HeldDevice {
        &self.device
    }

    pub(super) fn into_device(self) -> HeldDevice {
        self.device
    }

    /// Gives up on a device that has not answered for `patience`.
    pub(super) fn give_up_if_stalled(&self, patience: Duration) {
        if self.reading.stalled() >= patience {
            self.spoil(Trouble::DeviceRead { offset: 0, errno: libc::ETIMEDOUT });
        }
    }

    pub(super) fn trouble(&self) -> Option<Trouble> {
        self.trouble.get().copied()
    }

    /// Hands `use_bytes` what the checker would read at `offset`, at most `length` bytes.
    pub(super) fn read<T>(
        &self,
        offset: u64,
        length: usize,
        use_bytes: impl FnOnce(&[u8]) -> T,
    ) -> Result<T, Trouble> {
        let block = BLOCK_BYTES as u64;
        let end = offset.saturating_add(length as u64).min(self.device.size_bytes());
        if offset >= end {
            return Ok(use_bytes(&[]));
        }
        let first = offset / block;
        let span = to_size(end.div_ceil(block) * block - first * block);
        BUFFER.with_borrow_mut(|buffer| {
            if buffer.len() < span {
                buffer.resize(span, 0);
            }
            self.load(first, &mut buffer[..span])?;
            let start = to_size(offset - first * block);
            Ok(use_bytes(&buffer[start..start + to_size(end - offset)]))
        })
    }

    /// Takes what the checker writes at `offset`.
    pub(super) fn write(&self, offset: u64, data: &[u8]) -> Result<(), Trouble> {
        let end = offset.saturating_add(data.len() as u64);
        if end > self.device.size_bytes() {
            return Err(self.spoil(Trouble::BeyondEnd { offset }));
        }
        let block = BLOCK_BYTES as u64;
        if offset.is_multiple_of(block) && end.is_multiple_of(block) {
            return self.put(offset / block, data);
        }
        // Part of a block: the rest of it comes from what is there.
        let first = offset / block;
        let mut blocks = vec![0; to_size(end.div_ceil(block) * block - first * block)];
        self.load(first, &mut blocks)?;
        blocks[to_size(offset - first * block)..][..data.len()].copy_from_slice(data);
        self.put(first, &blocks)
    }

    /// Reads whole blocks: the store's where it has them, the device's elsewhere. Beyond the end
    /// of the device they read as zeros.
    fn load(&self, first: u64, blocks: &mut [u8]) -> Result<(), Trouble> {
        self.load_device(first, blocks)?;
        self.note(first, blocks)?;
        let overlaid = self.store().overlay(first, blocks);
        overlaid.map_err(|source| self.spoil(Trouble::Store { errno: errno(&source) }))
    }

    /// The blocks as the device has them now.
    pub(super) fn load_device(&self, first: u64, blocks: &mut [u8]) -> Result<(), Trouble> {
        let offset = first * BLOCK_BYTES as u64;
        let there = self.device.size_bytes().saturating_sub(offset).min(blocks.len() as u64);
        let (there, beyond) = blocks.split_at_mut(to_size(there));
        beyond.fill(0);
        self.reading.count.fetch_add(1, Ordering::Relaxed);
        self.reading.moved();
        let read = self.device.read_exact_at(there, offset);
        self.reading.count.fetch_sub(1, Ordering::Relaxed);
        self.reading.moved();
        read.map_err(|source| self.spoil(Trouble::DeviceRead { offset, errno: errno(&source) }))
    }

    /// The blocks as the checker left them; `blocks` holds the device's.
    pub(super) fn overlay(&self, first: u64, blocks: &mut [u8]) -> io::Result<()> {
        self.store().overlay(first, blocks)
    }

    /// The blocks the checker wrote, in order.
    pub(super) fn written(&self) -> Vec<u64> {
        self.store().blocks()
    }

    /// Whether `content`, which the device has now, is what the checker was shown of `block`.
    pub(super) fn agrees(&self, block: u64, content: &[u8]) -> bool {
        self.seen().agrees(block, Fingerprint::of(content))
    }

    /// Notes what is shown of the device. Blocks that the store hides are not: nobody sees them.
    fn note(&self, first: u64, blocks: &[u8]) -> Result<(), Trouble> {
        let shown: Vec<(u64, Fingerprint)> = {
            let store = self.store();
            let numbered = (first..).zip(blocks.chunks_exact(BLOCK_BYTES));
            let shown = numbered.filter(|(block, _)| !store.holds(*block));
            shown.map(|(block, content)| (block, Fingerprint::of(content))).collect()
        };
        let mut seen = self.seen();
        let changed = shown.into_iter().find(|(block, print)| !seen.note(*block, *print));
        drop(seen);
        match changed {
            None => Ok(()),
            Some((block, _)) => {
                Err(self.spoil(Trouble::DeviceChanged { offset: block * BLOCK_BYTES as u64 }))
            }
        }
    }

    fn put(&self, first: u64, blocks: &[u8]) -> Result<(), Trouble> {
        let put = self.store().put(first, blocks);
        put.map_err(|full| match full {
            Full::Limit => self.spoil(Trouble::StoreFull),
            Full::Grow(source) => self.spoil(Trouble::Store { errno: errno(&source) }),
        })
    }

    /// Records the first trouble and calls the checker off.
    fn spoil(&self, trouble: Trouble) -> Trouble {
        let first = *self.trouble.get_or_init(|| trouble);
        self.alarm.raise();
        first
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().expect("no holder of this lock panics")
    }

    fn seen(&self) -> MutexGuard<'_, Fingerprints> {
        self.seen.lock().expect("no holder of this lock panics")
    }
}

fn errno(err: &io::Error) -> i32 {
    // read_exact_at reports an early end without a number: the device shrank.
    err.raw_os_error().unwrap_or(libc::EIO)
}

fn to_size(bytes: u64) -> usize {
    usize::try_from(bytes).expect("a request fits in memory")
}
