//! Is an xfs log clean? It is when its last record says "unmounted".
//!
//! The log is a ring of 512-byte blocks. The first word of every block is the number of the round
//! ("cycle") in which it was written, so the newest block, the *head*, lies where that number
//! falls; a search by halves finds it, from where the superblock was last logged: after a clean
//! unmount that is close by. Before the head lies the last record: a header (magic
//! `0xfeedbabe`, `struct xlog_rec_header` in fs/xfs/libxfs/xfs_log_format.h) and its operations. A
//! clean unmount leaves a record with one operation that carries `XLOG_UNMOUNT_TRANS`, and the head
//! right behind it (`xlog_check_unmount_rec`, fs/xfs/xfs_log_recover.c).
//!
//! A crash can leave holes before the head, which the kernel sorts out and this does not: such a
//! log has no unmount record there, so it is dirty either way.

use super::{LogPlace, Superblock};
use crate::facts::bytes::{ByteRange, DeviceBytes, Failure, Read};
use crate::facts::superblock::fields::Fields;

/// What is known of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogState {
    /// Nothing to replay.
    Clean,
    /// The next mount will replay from `tail_block` to `head_block` (512-byte blocks in the log).
    Dirty { head_block: u64, tail_block: u64 },
    /// On another device.
    External,
    /// No state that an xfs log has: damage, or a version this does not know.
    Unknown { what: &'static str },
}

/// One step of the search. A function of what was read so far: read what it wants, ask again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Search {
    Wants(ByteRange),
    Failed { failure: Failure, offset_bytes: u64 },
    Found(LogState),
}

/// A block of the log, in bytes (`BBSIZE`).
const BLOCK_BYTES: u64 = 512;

const RECORD_MAGIC: u32 = 0xfeed_babe;

/// How far before the head a record's header is looked for, in blocks: eight log buffers of
/// 256 KiB may be in flight (`XLOG_TOTAL_REC_SHIFT`), so a header farther back is none.
const LOOK_BACK_BLOCKS: u64 = 4096;

/// How much is read at once while looking back, in blocks: an unmount record is 2, and a buffer of
/// the default size 64.
const CHUNK_BLOCKS: u64 = 64;

/// How far behind the start of the search the head is expected, in blocks: one read of 4 KiB. Each
/// further step is as many times longer.
const FIRST_STEP_BLOCKS: u64 = 8;

/// Reads stay on 4 KiB boundaries, so that a host may read past its cache.
const ALIGN_BYTES: u64 = 4096;

/// Looks for the state of the log. At most some 100 calls: 30 for the head of the largest log
/// (2 GiB), 64 while looking back.
#[must_use]
pub fn search(bytes: &DeviceBytes, superblock: &Superblock) -> Search {
    let LogPlace::Inside { offset_bytes, len_bytes } = superblock.log else {
        return Search::Found(LogState::External);
    };
    let Some(end) = offset_bytes.checked_add(len_bytes) else {
        return unknown("it ends nowhere");
    };
    if len_bytes < 2 * BLOCK_BYTES || end > bytes.size_bytes() {
        return unknown("it lies behind the end of the device");
    }
    let blocks = len_bytes / BLOCK_BYTES;
    let near_block = u64::from(superblock.last_log_block);
    let near_block = if near_block < blocks { near_block } else { 0 };
    let log = Log { bytes, offset_bytes, blocks, near_block };
    match log.state() {
        Ok(state) => Search::Found(state),
        Err(lack) => lack,
    }
}

fn unknown(what: &'static str) -> Search {
    Search::Found(LogState::Unknown { what })
}

struct Log<'a> {
    bytes: &'a DeviceBytes,
    offset_bytes: u64,
    blocks: u64,
    /// Where the search starts. Wrong is slow, not wrong.
    near_block: u64,
}

struct Record {
    block: u64,
    header_blocks: u64,
    data_blocks: u64,
    operations: u32,
    tail_block: u64,
}

impl<'a> Log<'a> {
    fn state(&self) -> Result<LogState, Search> {
        let first = self.cycle(0)?;
        let last = self.cycle(self.blocks - 1)?;
        let head_block = match (first, last) {
            (0, _) => return Ok(LogState::Clean),
            (first, last) if first == last => 0,
            (_, last) => self.first_with(last)?,
        };
        let Some(record) = self.last_record(head_block)? else {
            return Ok(LogState::Unknown { what: "no record lies before its head" });
        };
        let dirty = LogState::Dirty { head_block, tail_block: record.tail_block };
        let end = record.block + record.header_blocks + record.data_blocks;
        if record.operations != 1 || end % self.blocks != head_block {
            return Ok(dirty);
        }
        let operation = Fields(self.block(record.block + record.header_blocks)?);
        /// `oh_flags` of `struct xlog_op_header`, and its bit `XLOG_UNMOUNT_TRANS`.
        const FLAGS_AT: usize = 9;
        const UNMOUNT: u8 = 0x20;
        let flags = operation.byte(FLAGS_AT).unwrap_or(0);
        Ok(if flags & UNMOUNT != 0 { LogState::Clean } else { dirty })
    }

    /// The first block of the run at the end of the log that carries the cycle `last`.
    fn first_with(&self, last: u32) -> Result<u64, Search> {
        let (mut newer, mut older) = (0, self.blocks - 1);
        let (mut next, mut step) = (self.near_block, FIRST_STEP_BLOCKS);
        while next > newer && next < older || next == 0 {
            if self.cycle(next)? == last {
                older = next;
                break;
            }
            newer = next;
            next += step;
            step *= FIRST_STEP_BLOCKS;
        }
        while older - newer > 1 {
            let middle = newer + (older - newer) / 2;
            if self.cycle(middle)? == last {
                older = middle;
            } else {
                newer = middle;
            }
        }
        Ok(older)
    }

    fn last_record(&self, head: u64) -> Result<Option<Record>, Search> {
        let reach = LOOK_BACK_BLOCKS.min(self.blocks);
        for back in 1..=reach {
            let at = (head + self.blocks - back) % self.blocks;
            let block = Fields(self.block_in_chunk(at)?);
            if block.be32(0) == Some(RECORD_MAGIC) {
                return Ok(self.record(at, block));
            }
        }
        Ok(None)
    }

    /// `None` if the header's numbers are none that a log has.
    fn record(&self, block: u64, header: Fields<'_>) -> Option<Record> {
        let version = header.be32(8)?;
        let len_bytes = u64::from(header.be32(12)?);
        let size_bytes = u64::from(header.be32(320)?);
        /// One header block has room for the cycle numbers of 32 KiB
        /// (`XLOG_HEADER_CYCLE_SIZE`); a larger buffer (version 2) has more of them.
        const HEADER_COVERS_BYTES: u64 = 32_768;
        let large = version & 2 != 0 && size_bytes > HEADER_COVERS_BYTES;
        let header_blocks = if large { size_bytes.div_ceil(HEADER_COVERS_BYTES) } else { 1 };
        let data_blocks = len_bytes.div_ceil(BLOCK_BYTES);
        let tail_block = header.be64(24)? & 0xffff_ffff;
        let sound = header_blocks + data_blocks <= LOOK_BACK_BLOCKS && tail_block < self.blocks;
        let operations = header.be32(40)?;
        sound.then_some(Record { block, header_blocks, data_blocks, operations, tail_block })
    }

    /// A record's own first word is its magic; the cycle comes second.
    fn cycle(&self, block: u64) -> Result<u32, Search> {
        let fields = Fields(self.block(block)?);
        let first = fields.be32(0).unwrap_or(0);
        Ok(if first == RECORD_MAGIC { fields.be32(4).unwrap_or(0) } else { first })
    }

    /// One block, with no more read around it than the boundaries ask for.
    fn block(&self, block: u64) -> Result<&'a [u8], Search> {
        self.block_of(block, 1)
    }

    /// One block, read together with those before it.
    fn block_in_chunk(&self, block: u64) -> Result<&'a [u8], Search> {
        self.block_of(block, CHUNK_BLOCKS)
    }

    fn block_of(&self, block: u64, read_blocks: u64) -> Result<&'a [u8], Search> {
        let block = block % self.blocks;
        let at = self.offset_bytes + block * BLOCK_BYTES;
        match self.bytes.at(at, 512) {
            Read::Bytes(bytes) => Ok(bytes),
            Read::NotRead => {
                let from_block = (block + 1).saturating_sub(read_blocks);
                let from = self.offset_bytes + from_block * BLOCK_BYTES;
                Err(Search::Wants(self.aligned(from, at + BLOCK_BYTES)))
            }
            Read::Failed { failure, offset_bytes } => Err(Search::Failed { failure, offset_bytes }),
            Read::PastEnd => Err(unknown("it lies behind the end of the device")),
        }
    }

    fn aligned(&self, from: u64, to: u64) -> ByteRange {
        let from = from / ALIGN_BYTES * ALIGN_BYTES;
        let to = to.next_multiple_of(ALIGN_BYTES).min(self.bytes.size_bytes());
        ByteRange::new(from, to - from)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;
    use crate::facts::bytes::Outcome;

    const BLOCKS: usize = 1024;

    /// A log whose blocks before `head` carry `cycle` and the others the one before.
    fn log(cycle: u32, head: usize) -> Vec<u8> {
        let mut log = Vec::new();
        for block in 0..BLOCKS {
            let cycle = if block < head { cycle } else { cycle - 1 };
            log.extend(cycle.to_be_bytes());
            log.resize((block + 1) * 512, 0);
        }
        log
    }

    /// Puts a record of one data block at `block`, its only operation flagged so.
    fn put_record(log: &mut [u8], block: usize, cycle: u32, flags: u8) {
        let header = &mut log[block * 512..][..512];
        header[..4].copy_from_slice(&RECORD_MAGIC.to_be_bytes());
        header[4..8].copy_from_slice(&cycle.to_be_bytes());
        header[8..12].copy_from_slice(&2_u32.to_be_bytes());
        header[12..16].copy_from_slice(&512_u32.to_be_bytes());
        header[28..32].copy_from_slice(&7_u32.to_be_bytes());
        header[40..44].copy_from_slice(&1_u32.to_be_bytes());
        header[320..324].copy_from_slice(&32_768_u32.to_be_bytes());
        log[(block + 1) % BLOCKS * 512 + 9] = flags;
    }

    /// Answers what the search wants from `log`, and counts the questions.
    fn run(log: &[u8]) -> (Search, usize) {
        run_near(log, 0)
    }

    fn superblock(len_bytes: u64) -> Superblock {
        let mut superblock = Superblock::parse(&sample()).intact().unwrap();
        superblock.log = LogPlace::Inside { offset_bytes: 0, len_bytes };
        superblock
    }

    fn run_near(log: &[u8], last_log_block: u32) -> (Search, usize) {
        let mut bytes = DeviceBytes::new(log.len() as u64);
        let superblock = Superblock { last_log_block, ..superblock(log.len() as u64) };
        for asked in 0..200 {
            match search(&bytes, &superblock) {
                Search::Wants(range) => {
                    let from = usize::try_from(range.offset_bytes).unwrap();
                    let to = usize::try_from(range.end_bytes()).unwrap();
                    bytes.put(range, Outcome::Bytes(log[from..to].to_vec()));
                }
                answer => return (answer, asked),
            }
        }
        panic!("the search does not end");
    }

    #[test]
    fn an_unmount_record_right_before_the_head_is_clean() {
        for head in [2, 3, 500, 1022, 1023] {
            let mut log = log(5, head);
            put_record(&mut log, head - 2, 5, 0x20);
            for near in [0, 1, 495, 499, 500, 501, 1020, 1023, 1024, u32::MAX] {
                let (found, asked) = run_near(&log, near);
                assert_eq!(found, Search::Found(LogState::Clean), "head {head} near {near}");
                assert!(asked < 16, "{asked} reads, head {head} near {near}");
            }
        }
    }

    #[test]
    fn a_head_on_the_seam_is_found() {
        let mut log = log(5, BLOCKS);
        put_record(&mut log, BLOCKS - 2, 5, 0x20);
        assert_eq!(run(&log).0, Search::Found(LogState::Clean));
    }

    #[test]
    fn any_other_last_record_is_dirty() {
        let mut log = log(5, 500);
        put_record(&mut log, 498, 5, 0);
        let dirty = LogState::Dirty { head_block: 500, tail_block: 7 };
        assert_eq!(run(&log).0, Search::Found(dirty));
    }

    #[test]
    fn an_unmount_record_that_was_written_past_is_dirty() {
        let mut log = log(5, 500);
        put_record(&mut log, 490, 5, 0x20);
        assert!(matches!(run(&log).0, Search::Found(LogState::Dirty { .. })));
    }

    #[test]
    fn a_log_without_records_is_unknown_and_one_of_zeros_clean() {
        assert!(matches!(run(&log(5, 500)).0, Search::Found(LogState::Unknown { .. })));
        assert_eq!(run(&vec![0; BLOCKS * 512]).0, Search::Found(LogState::Clean));
    }

    #[test]
    fn a_block_that_cannot_be_read_is_said_so() {
        let mut bytes = DeviceBytes::new(65_536);
        bytes.put(ByteRange::new(0, 4096), Outcome::Failed(Failure::Short));
        assert!(matches!(search(&bytes, &superblock(65_536)), Search::Failed { .. }));
    }
}
