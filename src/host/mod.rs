//! EFFECTS on the node. Nothing outside this room reads, writes, forks or mounts on it (the
//! sockets in `proxy/` and `http.rs` excepted). It decides nothing.
//!
//! `unsafe` lives in this room and in no other: in `tool/spawn.rs` (between fork and exec), in
//! `trial/arena.rs` (memory that is never swapped), in `trial/sealed.rs` and `trial/replay.rs` (a
//! thread with its own descriptors), in `trial/device.rs` and in `trial/loop_device.rs` (ioctls
//! without a binding).

mod content;
mod descriptors;
mod device;
#[cfg(test)]
pub mod fake;
pub mod linux;
mod loops;
pub mod memory;
mod namespaces;
mod sent;
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

pub use self::device::Exclusive;
use crate::facts::bytes::{ByteRange, DeviceBytes};
use crate::facts::call::SentCall;
use crate::facts::device::{MountSighting, Node, Sightings};
use crate::facts::memory::{Event, Remembered};
use crate::facts::process::Process;
use crate::volume::{DevNumber, VolumeId};

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

    /// The boot id of the node, as [`crate::facts::memory::Running`] takes it.
    ///
    /// # Errors
    /// [`HostError`] if the kernel does not say.
    fn read_boot(&self) -> impl Future<Output = Result<String, HostError>> + Send;
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
    #[error("cannot start a thread for {path}")]
    Thread { path: PathBuf, source: io::Error },
    #[error("too much waits for {path} already")]
    Backlog { path: PathBuf },
}
