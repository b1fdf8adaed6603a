//! The directory trials keep things in, and the names of what outlives them.
//!
//! | name | what it is |
//! |---|---|
//! | `VOLUME.part` | a redo log being written, locked by its writer; the device is untouched |
//! | `VOLUME.redo` | a redo log being applied: the device may be half written |
//! | `VOLUME@N.undo` | the record of an applied repair |
//! | `VOLUME@N.undoing` | such a record being put back: the device may be half written |
//! | `VOLUME@N.kept` | a log that could not be applied any more, set aside for a human |

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FlockOperation, Mode, OFlags, flock};

use super::quota::Quota;
use super::store::Overflow;
use super::{BLOCK_BYTES, Room};
use crate::volume::VolumeId;

const OURS: [&str; 4] = ["redo", "undo", "undoing", "kept"];

/// Where trials are made: a state directory and its quota.
#[derive(Debug, Clone)]
pub struct Trials {
    dir: Arc<Path>,
    quota: Quota,
}

#[derive(Debug, thiserror::Error)]
pub enum StateError {
    #[error("cannot make {dir}")]
    Make { dir: PathBuf, source: io::Error },
    #[error("cannot list {dir}")]
    List { dir: PathBuf, source: io::Error },
    #[error("cannot rename {path}")]
    Rename { path: PathBuf, source: io::Error },
}

impl Trials {
    /// Opens the state directory, makes it if it is missing, sweeps out unfinished logs (their
    /// devices are untouched) and counts what lies there against `quota`.
    ///
    /// # Errors
    /// The directory cannot be made or listed.
    pub fn open(dir: &Path, quota: Quota) -> Result<Self, StateError> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
        made.map_err(|source| StateError::Make { dir: dir.into(), source })?;
        let trials = Self { dir: dir.into(), quota };
        for path in trials.list(&["part"])? {
            sweep(&path);
        }
        for path in trials.list(&OURS)? {
            trials.quota.record(fs::metadata(&path).map_or(0, |meta| meta.len()));
        }
        Ok(trials)
    }

    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    #[must_use]
    pub fn quota(&self) -> &Quota {
        &self.quota
    }

    /// The records of applied repairs, in no order.
    ///
    /// # Errors
    /// The directory cannot be listed.
    pub fn undo_records(&self) -> Result<Vec<PathBuf>, StateError> {
        self.list(&["undo"])
    }

    /// Sets a log aside that cannot be applied any more, so that its volume can be checked again.
    ///
    /// # Errors
    /// It stays where it is.
    pub fn set_aside(&self, volume: &VolumeId, log: &Path) -> Result<PathBuf, StateError> {
        let kept = self.free_name(volume, "kept");
        let renamed = fs::rename(log, &kept).and_then(|()| self.sync());
        renamed.map_err(|source| StateError::Rename { path: log.into(), source })?;
        Ok(kept)
    }

    /// The files whose names end in one of `extensions`.
    pub(super) fn list(&self, extensions: &[&str]) -> Result<Vec<PathBuf>, StateError> {
        let list_error = |source| StateError::List { dir: self.dir.to_path_buf(), source };
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.dir).map_err(list_error)? {
            let path = entry.map_err(list_error)?.path();
            let extension = path.extension().and_then(|extension| extension.to_str());
            if extension.is_some_and(|extension| extensions.contains(&extension)) {
                found.push(path);
            }
        }
        Ok(found)
    }

    pub(super) fn part_path(&self, volume: &VolumeId) -> PathBuf {
        self.dir.join(format!("{volume}.part"))
    }

    pub(super) fn redo_path(&self, volume: &VolumeId) -> PathBuf {
        self.dir.join(format!("{volume}.redo"))
    }

    /// A name nobody has: `@` cannot be part of a volume's own.
    pub(super) fn free_name(&self, volume: &VolumeId, extension: &str) -> PathBuf {
        let name = |n| self.dir.join(format!("{volume}@{n}.{extension}"));
        (1u32..).map(name).find(|path| !path.exists()).expect("fewer than 2^32 records")
    }

    /// Makes the file of a new log and locks it, so that nobody sweeps it.
    pub(super) fn create_part(&self, volume: &VolumeId) -> io::Result<File> {
        let path = self.part_path(volume);
        sweep(&path);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        Ok(file)
    }

    /// Removes a log for good and gives back what it took of the quota.
    pub(super) fn remove(&self, log: &Path) -> io::Result<()> {
        let length_bytes = fs::metadata(log).map_or(0, |meta| meta.len());
        fs::remove_file(log)?;
        self.quota.release(length_bytes);
        self.sync()
    }

    /// Makes renames and removals last.
    pub(super) fn sync(&self) -> io::Result<()> {
        File::open(&self.dir)?.sync_all()
    }

    pub(super) fn overflow(&self, room: Room) -> io::Result<Overflow> {
        match room {
            Room::StateDir => Ok(Overflow::File(self.nameless_file()?)),
            Room::Memory { limit_bytes } => {
                let blocks = limit_bytes / BLOCK_BYTES as u64;
                let limit_blocks = usize::try_from(blocks).unwrap_or(usize::MAX);
                Ok(Overflow::Memory { limit_blocks })
            }
        }
    }

    fn nameless_file(&self) -> io::Result<File> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        match rustix::fs::open(&*self.dir, flags, Mode::RUSR | Mode::WUSR) {
            Ok(file) => Ok(file.into()),
            // A filesystem without nameless files: a name that lives for a moment.
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::ISDIR) => {
                let path = self.dir.join(format!(".store-{}", std::process::id()));
                let _ = fs::remove_file(&path);
                let mut options = OpenOptions::new();
                options.read(true).write(true).create_new(true).mode(0o600);
                let file = options.open(&path)?;
                // A trial that begins at the same time may have removed it.
                let _ = fs::remove_file(&path);
                Ok(file)
            }
            Err(errno) => Err(errno.into()),
        }
    }
}

/// Removes an unfinished log, unless its writer lives.
fn sweep(path: &Path) {
    let Ok(file) = File::open(path) else { return };
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
        // What cannot be removed now is in the way of the next log, which then says so.
        let _ = fs::remove_file(path);
    }
}
