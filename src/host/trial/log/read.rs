//! Reads a redo log: all of it once, to see that it is whole, and then what is asked for.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::Xxh3;

use super::{
    Direction, ENTRY_BYTES, FORMAT, HEADER_BYTES, KIND_BLOCKS, KIND_LAST, KIND_MARK, LogError,
    LogHeader, TRAILER_BYTES, TRAILER_MAGIC,
};
use crate::host::trial::BLOCK_BYTES;
use crate::host::trial::difference::{Extent, RUN_BLOCKS};
use crate::host::trial::plan::{Mark, Planned};

/// The longest entry, in bytes: what the writer plans at most.
const MAX_ENTRY_BYTES: u64 = RUN_BLOCKS * BLOCK_BYTES as u64;

/// A whole redo log.
#[derive(Debug)]
pub(in super::super) struct Log {
    file: File,
    path: PathBuf,
    header: LogHeader,
    marks: Vec<Mark>,
    entries: Vec<Planned>,
    /// Where the old content of each entry lies; the new follows it.
    places: Vec<u64>,
}

impl Log {
    pub(in super::super) fn open(path: &Path) -> Result<Self, LogError> {
        let read_error = |source| LogError::Read { path: path.into(), source };
        let file = File::open(path).map_err(read_error)?;
        let length_bytes = file.metadata().map_err(read_error)?.len();
        let scan = Scan { file: &file, digest: Box::default(), at: 0 };
        match scan.run(length_bytes) {
            Ok((header, marks, entries, places)) => {
                Ok(Self { file, path: path.into(), header, marks, entries, places })
            }
            Err(Flaw::Read(source)) => Err(read_error(source)),
            Err(Flaw::Damaged(what)) => Err(LogError::Damaged { path: path.into(), what }),
        }
    }

    /// The same log, after its file was renamed.
    pub(in super::super) fn renamed(self, path: PathBuf) -> Self {
        Self { path, ..self }
    }

    pub(in super::super) fn path(&self) -> &Path {
        &self.path
    }

    pub(in super::super) fn header(&self) -> &LogHeader {
        &self.header
    }

    pub(in super::super) fn marks(&self) -> &[Mark] {
        &self.marks
    }

    pub(in super::super) fn entries(&self) -> &[Planned] {
        &self.entries
    }

    /// Reads the content that entry `index` is to have in `direction`.
    pub(in super::super) fn read(
        &self,
        index: usize,
        direction: Direction,
        content: &mut Vec<u8>,
    ) -> Result<(), LogError> {
        let length = self.entries[index].extent.length;
        let place = match direction {
            Direction::Undo => self.places[index],
            Direction::Redo => self.places[index] + length,
        };
        content.resize(usize::try_from(length).expect("at most 1 MiB"), 0);
        let read = self.file.read_exact_at(content, place);
        read.map_err(|source| LogError::Read { path: self.path.clone(), source })
    }
}

enum Flaw {
    Read(io::Error),
    Damaged(&'static str),
}

type Content = (LogHeader, Vec<Mark>, Vec<Planned>, Vec<u64>);

struct Scan<'f> {
    file: &'f File,
    digest: Box<Xxh3>,
    at: u64,
}

impl Scan<'_> {
    fn run(mut self, length_bytes: u64) -> Result<Content, Flaw> {
        let body = length_bytes
            .checked_sub(TRAILER_BYTES as u64)
            .filter(|body| *body >= HEADER_BYTES as u64)
            .ok_or(Flaw::Damaged("it is too short"))?;
        let mut page = vec![0; HEADER_BYTES];
        self.take(&mut page)?;
        // Judged after the digest: a changed byte is damage, whatever it says.
        let header = serde_json::from_slice::<LogHeader>(&page);
        let (mut marks, mut entries, mut places) = (Vec::new(), Vec::new(), Vec::new());
        let mut content = Vec::new();
        while self.at < body {
            let (extent, kind) = self.take_entry(body)?;
            let copies = if kind == KIND_MARK { 1 } else { 2 };
            if extent.length > MAX_ENTRY_BYTES || self.at + copies * extent.length > body {
                return Err(Flaw::Damaged("an entry is too long"));
            }
            places.push(self.at);
            for _ in 0..copies {
                content.resize(usize::try_from(extent.length).expect("at most 1 MiB"), 0);
                self.take(&mut content)?;
            }
            match kind {
                KIND_MARK => {
                    places.pop();
                    marks.push(Mark { offset: extent.offset, bytes: content.clone() });
                }
                KIND_BLOCKS | KIND_LAST => {
                    entries.push(Planned { extent, last: kind == KIND_LAST });
                }
                _ => return Err(Flaw::Damaged("an entry is of no known kind")),
            }
        }
        self.check_trailer((marks.len() + entries.len()) as u64)?;
        let header = header.map_err(|_| Flaw::Damaged("its header is of another kind"))?;
        if header.format != FORMAT {
            return Err(Flaw::Damaged("its format is not known"));
        }
        Ok((header, marks, entries, places))
    }

    fn take(&mut self, bytes: &mut [u8]) -> Result<(), Flaw> {
        self.file.read_exact(bytes).map_err(Flaw::Read)?;
        self.digest.update(bytes);
        self.at += bytes.len() as u64;
        Ok(())
    }

    fn take_entry(&mut self, body: u64) -> Result<(Extent, u32), Flaw> {
        if self.at + ENTRY_BYTES as u64 > body {
            return Err(Flaw::Damaged("an entry is cut off"));
        }
        let mut bytes = [0; ENTRY_BYTES];
        self.take(&mut bytes)?;
        let [offset, rest] = [&bytes[..8], &bytes[8..]];
        let offset = u64::from_le_bytes(offset.try_into().expect("eight bytes"));
        let length = u32::from_le_bytes(rest[..4].try_into().expect("four bytes"));
        let kind = u32::from_le_bytes(rest[4..].try_into().expect("four bytes"));
        Ok((Extent { offset, length: u64::from(length) }, kind))
    }

    fn check_trailer(&mut self, entries: u64) -> Result<(), Flaw> {
        let digest = self.digest.digest128();
        let mut expected = Vec::with_capacity(TRAILER_BYTES);
        expected.extend(TRAILER_MAGIC);
        expected.extend(entries.to_le_bytes());
        expected.extend(digest.to_le_bytes());
        let mut trailer = vec![0; TRAILER_BYTES];
        self.take(&mut trailer)?;
        match trailer == expected {
            true => Ok(()),
            false => Err(Flaw::Damaged("it was not finished, or has changed")),
        }
    }
}
