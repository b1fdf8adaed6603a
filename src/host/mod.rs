//! EFFECTS on the node. Nothing outside this room reads, writes, forks or mounts on it (the
//! sockets in `proxy/` and `http.rs` excepted). It decides nothing.
//!
//! `unsafe` lives in this room and in no other: in `tool/spawn.rs` (between fork and exec), in
//! `trial/arena.rs` (memory that is never swapped), in `trial/sealed.rs` and `trial/replay.rs` (a
//! thread with its own descriptors), in `trial/device.rs` and in `trial/loop_device.rs` (ioctls
//! without a binding).

mod called_off;
mod checks;
mod content;
mod descriptors;
mod device;
#[cfg(test)]
pub mod fake;
pub mod linux;
mod loops;
pub mod memory;
mod mounts;
mod namespaces;
mod sent;
mod shelf;
mod stack;
mod sysfs;
mod threads;
#[expect(clippy::disallowed_methods, reason = "host/ is the room that runs tools")]
pub mod tool;
#[expect(clippy::disallowed_methods, reason = "host/ is the room that touches devices and files")]
pub mod trial;

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::FileType;
use tokio::sync::watch;

pub use self::called_off::{CallOff, CalledOff};
pub use self::checks::LinuxTrial;
pub use self::device::Exclusive;
pub use self::trial::{LoopDevice, Mark, Room};
use crate::facts::bytes::{ByteRange, DeviceBytes};
use crate::facts::call::SentCall;
use crate::facts::device::{MountSighting, Node, Sightings};
use crate::facts::memory::{Event, Remembered};
use crate::facts::mounts::Mount;
use crate::facts::process::Process;
use crate::facts::superblock::Uuid;
use crate::facts::tool::{Launch, Outcome, Progress, Trouble};
use crate::volume::{DevNumber, FsType, VolumeId};

/// Whether a regular file is at `path`.
#[must_use]
pub fn is_file(path: &Path) -> bool {
    file_type(path) == Some(FileType::RegularFile)
}

/// What the kernel knows a file by: its filesystem's number and its inode.
#[must_use]
pub fn file_id(path: &Path) -> Option<(u64, u64)> {
    let found = rustix::fs::stat(path).ok()?;
    Some((found.st_dev, found.st_ino))
}

/// Whether a directory is at `path`.
#[must_use]
pub fn is_directory(path: &Path) -> bool {
    file_type(path) == Some(FileType::Directory)
}

fn file_type(path: &Path) -> Option<FileType> {
    let found = rustix::fs::stat(path).ok()?;
    Some(FileType::from_raw_mode(found.st_mode))
}

/// Where the node's own `proc` and `sys` are, as this process sees them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roots {
    pub proc: PathBuf,
    pub sys: PathBuf,
}

impl Default for Roots {
    /// As the sidecar's manifest mounts them.
    fn default() -> Self {
        Self { proc: "/host/proc".into(), sys: "/sys".into() }
    }
}

/// What the guard asks of the node. Every verb has a deadline.
pub trait Host: Send + Sync + 'static {
    /// Keeps everybody else from mounting, mapping or claiming a device until it is dropped.
    type Exclusive: Send + Sync + 'static;

    /// A check under way.
    type Trial: Trial;

    /// What is at `path`, and the hold on it where nobody else has one. The hold is taken in
    /// passing, so this is to be called under the volume's lock only; and whoever forwards a call
    /// drops it first, or the plugin's mount is refused.
    ///
    /// # Errors
    /// [`HostError`] if the node could not be looked at in time. What could not be found out of
    /// its device is a `None` in the facts.
    fn read_device(
        &self,
        path: &Path,
    ) -> impl Future<Output = Result<(Node, Option<Self::Exclusive>), HostError>> + Send;

    /// The mounts of devices with these numbers, in every mount namespace that a process has.
    /// Slow, and to be asked only where a device is held and nothing else explains it.
    ///
    /// # Errors
    /// [`HostError`] if the processes could not be listed, or not in time.
    fn find_mounts(
        &self,
        numbers: &[DevNumber],
    ) -> impl Future<Output = Result<Sightings<MountSighting>, HostError>> + Send;

    /// The processes that have devices with these numbers open. As slow.
    ///
    /// # Errors
    /// As of [`Host::find_mounts`].
    fn find_openers(
        &self,
        numbers: &[DevNumber],
    ) -> impl Future<Output = Result<Sightings<Process>, HostError>> + Send;

    /// Reads these ranges from the disk itself, past every cache, and puts down how it went.
    /// A read that takes longer than 5 s, and all behind it, counts as ETIMEDOUT.
    ///
    /// # Errors
    /// [`HostError::Changed`] if `path` is not the device `number` any more. A device that cannot
    /// be opened or read is no error: that is what is put down.
    fn read_content(
        &self,
        path: &Path,
        number: DevNumber,
        ranges: &[ByteRange],
        bytes: &mut DeviceBytes,
    ) -> impl Future<Output = Result<(), HostError>> + Send;

    /// Begins a trial of a device, on whose file checkers work as on the device itself.
    ///
    /// # Errors
    /// What to tell whoever climbs the ladder.
    fn begin_trial(
        &self,
        volume: &VolumeId,
        device: Held<'_, Self::Exclusive>,
        room: Room,
    ) -> impl Future<Output = Result<Self::Trial, Outcome>> + Send;

    /// The volumes whose devices may be half written, because an apply was cut off.
    ///
    /// # Errors
    /// Why that could not be found out.
    fn read_pending(&self) -> impl Future<Output = Result<Vec<VolumeId>, String>> + Send;

    /// Does again what was cut off on the device of `volume`. `fs_uuid` is that of the filesystem
    /// which is on it.
    ///
    /// # Errors
    /// Why it could not be done: the device may still be half written.
    fn redo(
        &self,
        volume: &VolumeId,
        device: Held<'_, Self::Exclusive>,
        fs_uuid: Option<Uuid>,
    ) -> impl Future<Output = Result<(), String>> + Send;

    /// All mounts of the guard's own namespace.
    ///
    /// # Errors
    /// [`HostError`] if the mount table could not be read in time.
    fn read_mounts(&self) -> impl Future<Output = Result<Vec<Mount>, HostError>> + Send;

    /// The topmost mount at exactly `path`, in the guard's own namespace.
    ///
    /// # Errors
    /// [`HostError`] if the mount table could not be read in time.
    fn read_mount(
        &self,
        path: &Path,
    ) -> impl Future<Output = Result<Option<MountAt>, HostError>> + Send;

    /// Writes a nameless file in `dir`, and waits until it is on disk.
    fn probe_write(&self, dir: &Path) -> impl Future<Output = Written> + Send;

    /// Writes to disk what the filesystem at `path` has in memory.
    ///
    /// # Errors
    /// [`HostError`] if it could not, or not in time.
    fn sync(&self, path: &Path) -> impl Future<Output = Result<(), HostError>> + Send;

    /// Writes down that `call` is about to go to the plugin, in place of an earlier call that did
    /// the same to the same path. It outlives this process, not the node's uptime.
    ///
    /// # Errors
    /// [`HostError`] if it could not be written in time; the guard then works without memory.
    fn record_sent(&self, call: &SentCall) -> impl Future<Output = Result<(), HostError>> + Send;

    /// Forgets `call`, after all that was recorded before. Nobody waits for it: a record that
    /// stays behind makes the next run of the guard careful, and that is all.
    fn erase_sent(&self, call: &SentCall);

    /// The calls recorded since the node booted and not forgotten.
    ///
    /// # Errors
    /// [`HostError`] if the records could not be listed. A record that cannot be read on its own
    /// is left out and kept on disk.
    fn read_sent(&self) -> impl Future<Output = Result<Vec<SentCall>, HostError>> + Send;

    /// What is known of `volume`. It outlives the node's uptime.
    ///
    /// # Errors
    /// [`HostError`] if the state directory does not answer; a record that is there and cannot be
    /// read is [`Remembered::Unreadable`].
    fn recall(
        &self,
        volume: &VolumeId,
    ) -> impl Future<Output = Result<Remembered, HostError>> + Send;

    /// Remembers that `event` happened to `volume`, and returns once that is on disk.
    ///
    /// # Errors
    /// [`HostError`] if it was not written in time; the guard then works without memory.
    fn remember(
        &self,
        volume: &VolumeId,
        event: &Event,
    ) -> impl Future<Output = Result<(), HostError>> + Send;

    /// Forgets `volume`, and tells whether there was something to forget.
    ///
    /// # Errors
    /// [`HostError`] if it is still remembered.
    fn forget(&self, volume: &VolumeId) -> impl Future<Output = Result<bool, HostError>> + Send;

    /// Counts the checks that were under way when the last run of the guard ended.
    ///
    /// # Errors
    /// [`HostError`] if a record could not be read or written.
    fn resume_checks(&self) -> impl Future<Output = Result<(), HostError>> + Send;

    /// The time of day, in seconds since the epoch.
    fn now_seconds(&self) -> u64;

    /// The boot id of the node, as [`crate::facts::memory::Running`] takes it.
    ///
    /// # Errors
    /// [`HostError`] if the kernel does not say.
    fn read_boot(&self) -> impl Future<Output = Result<String, HostError>> + Send;
}

/// A device that nobody else can take, with what it was when it was looked at.
#[derive(Debug)]
pub struct Held<'a, E> {
    pub path: &'a Path,
    pub number: DevNumber,
    pub exclusive: E,
}

/// A view of a device that checkers write to, and that the device knows nothing of. Dropped, or
/// discarded, it leaves the device as it was.
pub trait Trial: Send + 'static {
    /// Runs a tool on the file. Once this has returned, the tool is gone, or hangs in the kernel.
    fn run(
        &mut self,
        launch: &Launch,
        called_off: &mut CalledOff,
        progress: &watch::Sender<Option<Progress>>,
    ) -> impl Future<Output = Outcome> + Send;

    /// Lets the kernel replay the log in the file, by a mount that nobody sees.
    fn replay(
        &mut self,
        fs: &FsType,
        deadline: Duration,
        called_off: &mut CalledOff,
    ) -> impl Future<Output = Outcome> + Send;

    /// Discards what was written, and begins again.
    ///
    /// # Errors
    /// As [`Host::begin_trial`].
    fn renew(&mut self) -> impl Future<Output = Result<(), Outcome>> + Send;

    /// What the file holds there now; `None` if it cannot be read.
    fn read(
        &mut self,
        offset_bytes: u64,
        len_bytes: usize,
    ) -> impl Future<Output = Option<Vec<u8>>> + Send;

    /// Leaves the device as it is. Once this has returned, it is free.
    fn discard(self) -> impl Future<Output = ()> + Send;

    /// Writes what the tools changed to the device, all of it or none. Not to be cut off.
    ///
    /// # Errors
    /// What became of the device.
    fn apply(self, orders: &Orders) -> impl Future<Output = Result<Applied, Unapplied>> + Send;
}

/// How the result of a trial is to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Orders {
    /// Of the filesystem as it was before, by which a redo knows the device again.
    pub fs_uuid: Option<Uuid>,
    /// Written first of all: makes the filesystem say of itself that it needs a check.
    pub mark: Option<Mark>,
    /// The blocks at these offsets, in bytes, come last of all: where the superblocks are.
    pub last: Vec<u64>,
    /// Keep the old blocks in a record that can be put back.
    pub keep_undo: bool,
}

/// The device has the new content, and is free.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    pub changed_bytes: u64,
    /// The record of the old blocks.
    pub undo: Option<PathBuf>,
}

/// Why the result of a trial is not on the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unapplied {
    /// Untouched: the trial is worthless, or its log has no room.
    Spoiled(Trouble),
    /// Untouched: the device takes no writes.
    ReadOnly,
    /// Untouched: somebody still has the file of the trial open.
    StillOpen,
    /// The device may be half written. If `redoable`, a log says how to go on.
    HalfWritten { why: String, redoable: bool },
}

/// A mount, and what tells it from one that was there before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountAt {
    pub mount: Mount,
    /// Never used again, unlike the id in the table. `None` before Linux 6.8.
    pub unique_id: Option<u64>,
}

/// What became of a write to a filesystem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    Yes,
    ReadOnly,
    /// No space, or no quota, is left.
    Full,
    /// The filesystem knows no nameless files.
    NotSupported,
    Failed {
        errno: i32,
    },
    /// No answer in time.
    Silent,
}

/// A verb that was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    #[error("cannot create {path}")]
    Create { path: PathBuf, source: io::Error },
    #[error("cannot read {path}")]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write {path}")]
    Write { path: PathBuf, source: io::Error },
    #[error("cannot remove {path}")]
    Remove { path: PathBuf, source: io::Error },
    #[error("no answer about {path} within {after_ms} ms")]
    Deadline { path: PathBuf, after_ms: u128 },
    #[error("{path} was device {was} and is {now} now")]
    Changed { path: PathBuf, was: DevNumber, now: DevNumber },
    #[error("too much waits for {path} already")]
    Backlog { path: PathBuf },
}
