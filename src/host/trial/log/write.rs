//! Writes a redo log.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::Xxh3;

use super::{
    ENTRY_BYTES, HEADER_BYTES, KIND_BLOCKS, KIND_LAST, KIND_MARK, LogError, LogHeader,
    TRAILER_BYTES, TRAILER_MAGIC,
};
use crate::host::trial::plan::{Mark, Planned};

/// How long the log of such a plan is, in bytes.
pub(in super::super) fn log_bytes(planned: &[Planned], marks: &[Mark]) -> u64 {
    let entry = ENTRY_BYTES as u64;
    let blocks: u64 = planned.iter().map(|planned| entry + 2 * planned.extent.length).sum();
    let marks: u64 = marks.iter().map(|mark| entry + mark.bytes.len() as u64).sum();
    (HEADER_BYTES + TRAILER_BYTES) as u64 + blocks + marks
}

pub(in super::super) struct LogWriter {
    file: BufWriter<File>,
    path: PathBuf,
    digest: Box<Xxh3>,
    entries: u64,
}

impl LogWriter {
    pub(in super::super) fn begin(
        file: File,
        path: &Path,
        header: &LogHeader,
    ) -> Result<Self, LogError> {
        let file = BufWriter::new(file);
        let mut log = Self { file, path: path.into(), digest: Box::default(), entries: 0 };
        let line = serde_json::to_vec(header).expect("a header is plain data");
        let mut page = [b' '; HEADER_BYTES];
        page[HEADER_BYTES - 1] = b'\n';
        // An identity is a volume's name (at most 253 bytes) and a UUID.
        page[..line.len()].copy_from_slice(&line);
        log.put(&[&page])?;
        Ok(log)
    }

    pub(in super::super) fn mark(&mut self, mark: &Mark) -> Result<(), LogError> {
        let length = u32::try_from(mark.bytes.len()).expect("a mark is short");
        self.put(&[&entry(mark.offset, length, KIND_MARK), &mark.bytes])?;
        self.entries += 1;
        Ok(())
    }

    pub(in super::super) fn blocks(
        &mut self,
        planned: Planned,
        old: &[u8],
        new: &[u8],
    ) -> Result<(), LogError> {
        let kind = if planned.last { KIND_LAST } else { KIND_BLOCKS };
        let length = u32::try_from(planned.extent.length).expect("at most 1 MiB");
        self.put(&[&entry(planned.extent.offset, length, kind), old, new])?;
        self.entries += 1;
        Ok(())
    }

    /// Ends the log and waits until it is on the disk.
    pub(in super::super) fn finish(mut self) -> Result<(), LogError> {
        let mut trailer = Vec::with_capacity(TRAILER_BYTES);
        trailer.extend(TRAILER_MAGIC);
        trailer.extend(self.entries.to_le_bytes());
        trailer.extend(self.digest.digest128().to_le_bytes());
        let written = self.file.write_all(&trailer).and_then(|()| self.file.flush());
        let synced = written.and_then(|()| self.file.get_ref().sync_all());
        synced.map_err(|source| LogError::Write { path: self.path, source })
    }

    fn put(&mut self, parts: &[&[u8]]) -> Result<(), LogError> {
        for part in parts {
            self.digest.update(part);
            let written: io::Result<()> = self.file.write_all(part);
            written.map_err(|source| LogError::Write { path: self.path.clone(), source })?;
        }
        Ok(())
    }
}

fn entry(offset: u64, length: u32, kind: u32) -> [u8; ENTRY_BYTES] {
    let mut bytes = [0; ENTRY_BYTES];
    bytes[..8].copy_from_slice(&offset.to_le_bytes());
    bytes[8..12].copy_from_slice(&length.to_le_bytes());
    bytes[12..].copy_from_slice(&kind.to_le_bytes());
    bytes
}
