//! Writes the result of a trial to the device: all of it or none.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::difference::{Buffers, Difference};
use super::disk::Trouble;
use super::log::{Direction, FORMAT, Identity, Log, LogError, LogHeader, LogWriter, log_bytes};
use super::plan::{Mark, Planned, plan};
use super::write::{self, Observe, Source, Step, WriteError};
use super::{HeldDevice, RedoError, Room};

/// How a difference is to be written.
#[derive(Debug, Clone)]
pub struct Apply {
    /// Of the filesystem, as text; `None` if it has none.
    pub fs_uuid: Option<String>,
    /// Written before anything else, see [`Mark`].
    pub marks: Vec<Mark>,
    /// The blocks at these offsets are written last: where the superblocks are.
    pub last: Vec<u64>,
    /// Keep the old blocks in a record that can be put back. Not for [`Room::Memory`].
    pub keep_undo: bool,
}

/// The device has the new content. It is still held.
#[derive(Debug)]
pub struct Applied {
    pub device: HeldDevice,
    pub changed_bytes: u64,
    pub undo: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    #[error("the redo log does not fit in what is left of the quota ({needed_bytes} bytes)")]
    Quota { needed_bytes: u64 },
    #[error("the log of an earlier apply is still there: {log}")]
    Unresolved { log: PathBuf },
    #[error("an encrypted volume has no undo record")]
    NoUndoInMemory,
    #[error("the device takes no writes")]
    ReadOnly(#[source] WriteError),
    #[error("the trial is worthless")]
    Spoiled(#[source] Trouble),
    #[error("cannot write the redo log")]
    Log(#[source] LogError),
    #[error("cannot name the redo log {log}")]
    Name { log: PathBuf, source: io::Error },
    /// The device may be half written. Its log stays and is to be redone.
    #[error("cannot apply the redo log")]
    Redo(#[source] RedoError),
    /// The device may be half written, and there is no log: a volume of [`Room::Memory`].
    #[error("the device is half written and there is no redo log")]
    Torn(#[source] WriteError),
    /// As [`ApplyError::Torn`]: what was to be written cannot be read any more.
    #[error("the device is half written and there is no redo log")]
    TornStore(#[source] Trouble),
}

impl ApplyError {
    /// Whether the device is what it was before.
    #[must_use]
    pub fn is_untouched(&self) -> bool {
        match self {
            Self::Quota { .. }
            | Self::Unresolved { .. }
            | Self::NoUndoInMemory
            | Self::ReadOnly(_)
            | Self::Spoiled(_)
            | Self::Log(_)
            | Self::Name { .. } => true,
            Self::Redo(_) | Self::Torn(_) | Self::TornStore(_) => false,
        }
    }
}

impl Difference {
    /// Writes the difference. Not to be cut off: once begun, it is finished, or redone.
    ///
    /// # Errors
    /// [`ApplyError::is_untouched`] says whether the device is what it was.
    pub fn apply(self, apply: &Apply, observe: Observe<'_>) -> Result<Applied, ApplyError> {
        let changed_bytes = self.changed_bytes();
        if self.is_empty() {
            return Ok(Applied { device: self.into_device(), changed_bytes, undo: None });
        }
        write::open(self.device()).map_err(ApplyError::ReadOnly)?;
        let size_bytes = self.device().size_bytes();
        let planned = plan(self.extents(), &apply.marks, &apply.last, size_bytes);
        let undo = match self.room {
            Room::StateDir => self.apply_logged(apply, &planned, observe)?,
            Room::Memory { .. } if apply.keep_undo => return Err(ApplyError::NoUndoInMemory),
            Room::Memory { .. } => {
                self.apply_unlogged(apply, &planned, observe)?;
                None
            }
        };
        Ok(Applied { device: self.into_device(), changed_bytes, undo })
    }

    fn apply_logged(
        &self,
        apply: &Apply,
        planned: &[Planned],
        observe: Observe<'_>,
    ) -> Result<Option<PathBuf>, ApplyError> {
        let needed_bytes = log_bytes(planned, &apply.marks);
        let mut charge = self.trials.quota().charge();
        if !charge.take(needed_bytes) {
            return Err(ApplyError::Quota { needed_bytes });
        }
        let redo = self.trials.redo_path(&self.volume);
        if redo.exists() {
            return Err(ApplyError::Unresolved { log: redo });
        }
        let part = self.trials.part_path(&self.volume);
        let log = self.write_log(&part, apply, planned, observe).inspect_err(|_| {
            let _ = fs::remove_file(&part);
        })?;
        observe(Step::LogWritten);
        let named = fs::rename(&part, &redo).and_then(|()| self.trials.sync());
        if let Err(source) = named {
            // The device is untouched: neither name may make a later start think otherwise.
            let _ = fs::remove_file(&part);
            let _ = fs::remove_file(&redo);
            return Err(ApplyError::Name { log: redo, source });
        }
        observe(Step::LogNamed);
        charge.keep();
        let log = log.renamed(redo);
        let redone = self.trials.bring_about(&log, Direction::Redo, self.device(), observe);
        redone.map(|redone| redone.undo).map_err(|err| self.give_up(&log, err))
    }

    /// A device that changed, or could not be read, before the first write is untouched: its log
    /// goes, as nothing is to be redone.
    fn give_up(&self, log: &Log, err: RedoError) -> ApplyError {
        let trouble = match &err {
            RedoError::Changed { offset, .. } => Trouble::DeviceChanged { offset: *offset },
            RedoError::Read { offset, source, .. } => Trouble::DeviceRead {
                offset: *offset,
                errno: source.raw_os_error().unwrap_or(libc::EIO),
            },
            _ => return ApplyError::Redo(err),
        };
        match self.trials.remove(log.path()) {
            Ok(()) => ApplyError::Spoiled(trouble),
            // The log is still there, and with it the chance that somebody redoes it.
            Err(_) => ApplyError::Redo(err),
        }
    }

    fn write_log(
        &self,
        part: &Path,
        apply: &Apply,
        planned: &[Planned],
        observe: Observe<'_>,
    ) -> Result<Log, ApplyError> {
        let create_error = |source| ApplyError::Log(LogError::Write { path: part.into(), source });
        let file = self.trials.create_part(&self.volume).map_err(create_error)?;
        let header = LogHeader {
            format: FORMAT,
            identity: Identity {
                volume: self.volume.as_str().into(),
                fs_uuid: apply.fs_uuid.clone(),
            },
            device: self.device().number().clone(),
            size_bytes: self.device().size_bytes(),
            keep_undo: apply.keep_undo,
        };
        let mut log = LogWriter::begin(file, part, &header).map_err(ApplyError::Log)?;
        observe(Step::LogBegun);
        for mark in &apply.marks {
            log.mark(mark).map_err(ApplyError::Log)?;
        }
        let mut buffers = Buffers::default();
        for planned in planned {
            let (old, new) =
                self.load_unchanged(&mut buffers, planned.extent).map_err(ApplyError::Spoiled)?;
            log.blocks(*planned, old, new).map_err(ApplyError::Log)?;
        }
        log.finish().and_then(|()| Log::open(part)).map_err(ApplyError::Log)
    }

    fn apply_unlogged(
        &self,
        apply: &Apply,
        planned: &[Planned],
        observe: Observe<'_>,
    ) -> Result<(), ApplyError> {
        let mut buffers = Buffers::default();
        let mut last = HashMap::new();
        for (index, planned) in planned.iter().enumerate() {
            let loaded = self.load_unchanged(&mut buffers, planned.extent);
            let (_, new) = loaded.map_err(ApplyError::Spoiled)?;
            if planned.last {
                last.insert(index, new.to_vec());
            }
        }
        let mut source = MemorySource { difference: self, apply, planned, buffers, last };
        write::write(self.device(), &mut source, observe)
    }
}

struct MemorySource<'d> {
    difference: &'d Difference,
    apply: &'d Apply,
    planned: &'d [Planned],
    buffers: Buffers,
    /// The last entries, taken before the marks went over them: a block that the checker left
    /// alone is read from the device.
    last: HashMap<usize, Vec<u8>>,
}

impl Source for MemorySource<'_> {
    type Error = ApplyError;

    fn marks(&self) -> &[Mark] {
        &self.apply.marks
    }

    fn entries(&self) -> &[Planned] {
        self.planned
    }

    fn target(&mut self, index: usize, content: &mut Vec<u8>) -> Result<(), ApplyError> {
        content.clear();
        if let Some(last) = self.last.get(&index) {
            content.extend_from_slice(last);
            return Ok(());
        }
        let extent = self.planned[index].extent;
        let loaded = self.difference.load(&mut self.buffers, extent);
        let (_, new) = loaded.map_err(ApplyError::TornStore)?;
        content.extend_from_slice(new);
        Ok(())
    }
}

impl From<WriteError> for ApplyError {
    fn from(err: WriteError) -> Self {
        Self::Torn(err)
    }
}
