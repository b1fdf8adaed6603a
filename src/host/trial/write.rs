//! The only code that writes to a device.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use super::HeldDevice;
use super::difference::Extent;
use super::plan::{Mark, Planned};

/// How far an apply has come. Reported after each step, on the thread that applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The log has a file.
    LogBegun,
    /// All of it is on the disk, under a name that says "unfinished".
    LogWritten,
    /// It has its name: from here on the device may be half written.
    LogNamed,
    Marked,
    MarksSynced,
    Written(Extent),
    BlocksSynced,
    /// Every block is on the device for good.
    LastSynced,
    /// The log is gone, or has become an undo record.
    LogGone,
}

/// Told of every step. A test that ends the process in it is a crash at that point.
pub type Observe<'o> = &'o mut dyn FnMut(Step);

#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    #[error("cannot open {device} for writing")]
    Open { device: PathBuf, source: io::Error },
    #[error("cannot write to {device} at byte {offset}")]
    Write { device: PathBuf, offset: u64, source: io::Error },
    #[error("cannot flush {device}")]
    Sync { device: PathBuf, source: io::Error },
}

/// What is to be written, and in what order.
pub(super) trait Source {
    type Error: From<WriteError>;

    fn marks(&self) -> &[Mark];
    fn entries(&self) -> &[Planned];
    /// Puts into `content` what entry `index` is to have.
    fn target(&mut self, index: usize, content: &mut Vec<u8>) -> Result<(), Self::Error>;
}

/// Writes the marks, then the blocks, then the last ones, each group only after the one before is
/// on the device for good.
pub(super) fn write<S: Source>(
    device: &HeldDevice,
    source: &mut S,
    observe: Observe<'_>,
) -> Result<(), S::Error> {
    let target = open(device)?;
    if !source.marks().is_empty() {
        for mark in source.marks() {
            target.write(mark.offset, &mark.bytes)?;
            observe(Step::Marked);
        }
        target.sync()?;
        observe(Step::MarksSynced);
    }
    for (last, synced) in [(false, Step::BlocksSynced), (true, Step::LastSynced)] {
        let mut content = Vec::new();
        for index in 0..source.entries().len() {
            let planned = source.entries()[index];
            if planned.last == last {
                source.target(index, &mut content)?;
                target.write(planned.extent.offset, &content)?;
                observe(Step::Written(planned.extent));
            }
        }
        target.sync()?;
        observe(synced);
    }
    Ok(())
}

/// Opens the device for writing, and writes nothing.
pub(super) fn open(device: &HeldDevice) -> Result<Target<'_>, WriteError> {
    let open_error = |source| WriteError::Open { device: device.path().into(), source };
    Ok(Target { device, file: device.open_for_writing().map_err(open_error)? })
}

pub(super) struct Target<'d> {
    device: &'d HeldDevice,
    file: File,
}

impl Target<'_> {
    fn write(&self, offset: u64, content: &[u8]) -> Result<(), WriteError> {
        let device = self.device.path();
        let written = self.file.write_all_at(content, offset);
        written.map_err(|source| WriteError::Write { device: device.into(), offset, source })
    }

    fn sync(&self) -> Result<(), WriteError> {
        let device = self.device.path();
        let synced = self.file.sync_all();
        synced.map_err(|source| WriteError::Sync { device: device.into(), source })
    }
}
