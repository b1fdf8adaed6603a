//! Brings a device to one of the two states of a log: what an apply does, what is done again after
//! a crash, and how a repair is undone.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::log::{Direction, Identity, Log, LogError, LogHeader};
use super::plan::{Mark, Planned};
use super::state::StateError;
use super::write::{self, Observe, Source, Step, WriteError};
use super::{HeldDevice, Trials};
use crate::volume::VolumeId;

/// The unit a device writes at once, in bytes: the smallest logical sector. A crash of the machine
/// can leave a block half old and half new, but not a sector.
const SECTOR_BYTES: usize = 512;

/// A log whose device may be half written.
#[derive(Debug)]
pub struct Pending {
    pub path: PathBuf,
    pub direction: Direction,
    /// What the log says of itself, or why it cannot be read.
    pub header: Result<LogHeader, LogError>,
}

impl Pending {
    /// Whose it is, by its name: a log that cannot be read still keeps its volume from use.
    #[must_use]
    pub fn volume(&self) -> Option<VolumeId> {
        let name = self.path.file_stem()?.to_str()?;
        let volume = name.rsplit_once('@').map_or(name, |(volume, _)| volume);
        VolumeId::parse(volume).ok()
    }
}

/// The device has one of the two contents, wholly, and the log is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redone {
    /// `false`: every block already was what it should be.
    pub written: bool,
    /// Where the old blocks are kept, if the log asked for it.
    pub undo: Option<PathBuf>,
}

/// Why a log was not applied. But for [`RedoError::Write`], the device was not touched. The log
/// stays where it is.
#[derive(Debug, thiserror::Error)]
pub enum RedoError {
    #[error("the log cannot be used")]
    Log(#[from] LogError),
    #[error("{log} is of another volume, filesystem or size than {device}")]
    Foreign { log: PathBuf, device: PathBuf },
    #[error("{device} has changed at byte {offset} since {log} was written")]
    Changed { log: PathBuf, device: PathBuf, offset: u64 },
    #[error("cannot read {device} at byte {offset}")]
    Read { device: PathBuf, offset: u64, source: io::Error },
    #[error("the device is half written")]
    Write(#[from] WriteError),
    #[error("the device is written, but cannot put {log} away")]
    LogStays { log: PathBuf, source: io::Error },
    #[error("cannot rename {log}")]
    Rename { log: PathBuf, source: io::Error },
    #[error("{log} is no undo record")]
    NoRecord { log: PathBuf },
}

impl Trials {
    /// The logs a crash left behind. Each volume's is to be redone before anybody uses the device.
    ///
    /// # Errors
    /// The directory cannot be listed.
    pub fn pending(&self) -> Result<Vec<Pending>, StateError> {
        let mut pending = Vec::new();
        for (extension, direction) in [("redo", Direction::Redo), ("undoing", Direction::Undo)] {
            for path in self.list(&[extension])? {
                let header = Log::open(&path).map(|log| log.header().clone());
                pending.push(Pending { path, direction, header });
            }
        }
        Ok(pending)
    }

    /// Does again what a crash cut off.
    ///
    /// # Errors
    /// The log does not fit the device, or the device does not take it. The log stays.
    pub fn redo(
        &self,
        pending: &Pending,
        device: &HeldDevice,
        identity: &Identity,
        observe: Observe<'_>,
    ) -> Result<Redone, RedoError> {
        let log = Log::open(&pending.path)?;
        check_identity(&log, device, identity)?;
        self.bring_about(&log, pending.direction, device, observe)
    }

    /// What a record says of itself.
    ///
    /// # Errors
    /// It cannot be read, or is damaged.
    pub fn read_header(record: &Path) -> Result<LogHeader, LogError> {
        Log::open(record).map(|log| log.header().clone())
    }

    /// Puts the old blocks of a repair back, if nothing was written since. A crash meanwhile
    /// leaves a log behind, see [`Trials::pending`].
    ///
    /// # Errors
    /// The record does not fit the device, or the device does not take it.
    pub fn undo(
        &self,
        record: &Path,
        device: &HeldDevice,
        identity: &Identity,
        observe: Observe<'_>,
    ) -> Result<Redone, RedoError> {
        if record.extension().is_none_or(|extension| extension != "undo") {
            return Err(RedoError::NoRecord { log: record.into() });
        }
        let log = Log::open(record)?;
        check_identity(&log, device, identity)?;
        // Strictly the new content: here a half-written device is somebody else's doing.
        find_change(&log, device, Allowed::New)?;
        let begun = record.with_extension("undoing");
        let renamed = fs::rename(record, &begun).and_then(|()| self.sync());
        renamed.map_err(|source| RedoError::Rename { log: record.into(), source })?;
        observe(Step::LogNamed);
        self.bring_about(&log.renamed(begun), Direction::Undo, device, observe)
    }

    /// Writes what the log holds, if every sector is one of the log's, and puts the log away.
    pub(super) fn bring_about(
        &self,
        log: &Log,
        direction: Direction,
        device: &HeldDevice,
        observe: Observe<'_>,
    ) -> Result<Redone, RedoError> {
        let done = find_change(log, device, Allowed::Either(direction))?;
        if !done {
            let mut source = LogSource { log, direction };
            write::write(device, &mut source, observe)?;
        }
        let undo = self
            .put_away(log, direction)
            .map_err(|source| RedoError::LogStays { log: log.path().into(), source })?;
        observe(Step::LogGone);
        Ok(Redone { written: !done, undo })
    }

    fn put_away(&self, log: &Log, direction: Direction) -> io::Result<Option<PathBuf>> {
        let keeps = direction == Direction::Redo && log.header().keep_undo;
        let volume = VolumeId::parse(&log.header().identity.volume).ok().filter(|_| keeps);
        let Some(volume) = volume else {
            self.remove(log.path())?;
            return Ok(None);
        };
        let undo = self.free_name(&volume, "undo");
        fs::rename(log.path(), &undo)?;
        self.sync()?;
        Ok(Some(undo))
    }
}

struct LogSource<'l> {
    log: &'l Log,
    direction: Direction,
}

impl Source for LogSource<'_> {
    type Error = RedoError;

    fn marks(&self) -> &[Mark] {
        self.log.marks()
    }

    fn entries(&self) -> &[Planned] {
        self.log.entries()
    }

    fn target(&mut self, index: usize, content: &mut Vec<u8>) -> Result<(), RedoError> {
        Ok(self.log.read(index, self.direction, content)?)
    }
}

fn check_identity(log: &Log, device: &HeldDevice, identity: &Identity) -> Result<(), RedoError> {
    let header = log.header();
    match header.identity == *identity && header.size_bytes == device.size_bytes() {
        true => Ok(()),
        false => Err(RedoError::Foreign { log: log.path().into(), device: device.path().into() }),
    }
}

/// What a sector may be.
#[derive(Debug, Clone, Copy)]
enum Allowed {
    /// The new content.
    New,
    /// Old, new, or either with a mark on it; the direction says which one is wanted.
    Either(Direction),
}

/// Looks for a sector that is not allowed. `true`: every block is the wanted one already.
fn find_change(log: &Log, device: &HeldDevice, allowed: Allowed) -> Result<bool, RedoError> {
    let (mut there, mut old, mut new) = (Vec::new(), Vec::new(), Vec::new());
    let mut done = true;
    for (index, planned) in log.entries().iter().enumerate() {
        let offset = planned.extent.offset;
        log.read(index, Direction::Undo, &mut old)?;
        log.read(index, Direction::Redo, &mut new)?;
        there.resize(new.len(), 0);
        device.read_exact_at(&mut there, offset).map_err(|source| RedoError::Read {
            device: device.path().into(),
            offset,
            source,
        })?;
        let wanted = match allowed {
            Allowed::New | Allowed::Either(Direction::Redo) => &new,
            Allowed::Either(Direction::Undo) => &old,
        };
        if there == *wanted {
            continue;
        }
        done = false;
        let flaw = match allowed {
            Allowed::New => find_sector(&there, &[&new]),
            Allowed::Either(_) => {
                let marked = |content: &Vec<u8>| {
                    let mut content = content.clone();
                    log.marks().iter().for_each(|mark| mark.put_over(offset, &mut content));
                    content
                };
                find_sector(&there, &[&old, &new, &marked(&old), &marked(&new)])
            }
        };
        if let Some(flaw) = flaw {
            return Err(RedoError::Changed {
                log: log.path().into(),
                device: device.path().into(),
                offset: offset + flaw as u64,
            });
        }
    }
    Ok(done)
}

/// Where the first sector of `there` is that is in none of `contents`.
fn find_sector(there: &[u8], contents: &[&[u8]]) -> Option<usize> {
    let sectors = there.chunks(SECTOR_BYTES).enumerate();
    let is_in = |start: usize, sector: &[u8]| {
        contents.iter().any(|content| content[start..start + sector.len()] == *sector)
    };
    sectors
        .map(|(number, sector)| (number * SECTOR_BYTES, sector))
        .find(|(start, sector)| !is_in(*start, sector))
        .map(|(start, _)| start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_torn_between_sectors_is_still_ours() {
        let (old, new) = (vec![1; 4096], vec![2; 4096]);
        let mut torn = new.clone();
        torn[..1536].fill(1);
        assert_eq!(find_sector(&torn, &[&old, &new]), None);
        torn[2000] = 3;
        assert_eq!(find_sector(&torn, &[&old, &new]), Some(1536));
        assert_eq!(find_sector(&new, &[&old]), Some(0));
    }
}
