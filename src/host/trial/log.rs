//! The redo log: old and new content of every stretch that is written, and whose they are.
//!
//! ```text
//! header    4096 bytes: one line of JSON, filled up with spaces
//! entry     offset u64, length u32, kind u32; then length bytes old (not for a mark), length new
//! …
//! trailer   magic 8 bytes, number of entries u64, xxh3-128 of everything before it
//! ```
//!
//! Integers are little-endian. A log that ends in a right trailer is whole.

mod read;
mod write;

use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::DeviceNumber;

pub(super) use read::Log;
pub(super) use write::{LogWriter, log_bytes};

pub(super) const FORMAT: u32 = 1;
const HEADER_BYTES: usize = 4096;
const ENTRY_BYTES: usize = 16;
const TRAILER_BYTES: usize = 32;
const TRAILER_MAGIC: [u8; 8] = *b"MGLOGEND";

const KIND_MARK: u32 = 0;
const KIND_BLOCKS: u32 = 1;
const KIND_LAST: u32 = 2;

/// Whose blocks a log holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub volume: String,
    /// As text; `None` if the filesystem has none. A log is for the same one only.
    pub fs_uuid: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogHeader {
    pub format: u32,
    pub identity: Identity,
    /// Where the volume was. Only a hint: a volume gets another number when it is attached again.
    pub device: DeviceNumber,
    pub size_bytes: u64,
    /// Whether the log becomes an undo record once applied.
    pub keep_undo: bool,
}

/// Which of the two contents a log is to bring about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The new one: `VOLUME.redo`.
    Redo,
    /// The old one: `VOLUME@N.undoing`.
    Undo,
}

#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error("cannot write the redo log {path}")]
    Write { path: PathBuf, source: io::Error },
    #[error("cannot read the redo log {path}")]
    Read { path: PathBuf, source: io::Error },
    #[error("the redo log {path} is damaged: {what}")]
    Damaged { path: PathBuf, what: &'static str },
}

#[cfg(test)]
mod tests {
    use super::super::difference::Extent;
    use super::super::plan::{Mark, Planned};
    use super::*;

    fn header() -> LogHeader {
        LogHeader {
            format: FORMAT,
            identity: Identity { volume: "pvc-1".into(), fs_uuid: Some("u".into()) },
            device: DeviceNumber::Block { major: 8, minor: 16 },
            size_bytes: 1 << 20,
            keep_undo: true,
        }
    }

    fn write(path: &std::path::Path) {
        let file = std::fs::File::create(path).unwrap();
        let mut writer = LogWriter::begin(file, path, &header()).unwrap();
        writer.mark(&Mark { offset: 1024, bytes: vec![7; 10] }).unwrap();
        let extent = Extent { offset: 0, length: 4096 };
        let planned = Planned { extent, last: true };
        writer.blocks(planned, &[1; 4096], &[2; 4096]).unwrap();
        writer.finish().unwrap();
    }

    #[test]
    fn a_log_reads_as_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pvc-1.redo");
        write(&path);
        let log = Log::open(&path).unwrap();
        assert_eq!(log.header(), &header());
        assert_eq!(log.marks(), [Mark { offset: 1024, bytes: vec![7; 10] }]);
        assert_eq!(log.entries().len(), 1);
        let mut content = Vec::new();
        log.read(0, Direction::Redo, &mut content).unwrap();
        assert_eq!(content, [2; 4096]);
        log.read(0, Direction::Undo, &mut content).unwrap();
        assert_eq!(content, [1; 4096]);
        let planned = [Planned { extent: log.entries()[0].extent, last: true }];
        let mark = Mark { offset: 1024, bytes: vec![7; 10] };
        assert_eq!(std::fs::metadata(&path).unwrap().len(), log_bytes(&planned, &[mark]));
    }

    #[test]
    fn a_log_with_any_byte_changed_or_missing_is_damaged() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pvc-1.redo");
        write(&path);
        let whole = std::fs::read(&path).unwrap();
        for at in (0..whole.len()).step_by(97).chain(whole.len() - 32..whole.len()) {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            std::fs::write(&path, &bytes).unwrap();
            assert!(matches!(Log::open(&path), Err(LogError::Damaged { .. })), "byte {at}");
            std::fs::write(&path, &whole[..at]).unwrap();
            assert!(matches!(Log::open(&path), Err(LogError::Damaged { .. })), "cut at {at}");
        }
    }
}
