//! EFFECTS on the node. Nothing outside this room reads, writes, forks or mounts on it (the
//! sockets in `proxy/` and `http.rs` excepted). It decides nothing.
//!
//! `unsafe` lives in this room and in no other: in `tool/spawn.rs` (between fork and exec), in
//! `trial/arena.rs` (memory that is never swapped), in `trial/sealed.rs` and `trial/replay.rs` (a
//! thread with its own descriptors), in `trial/device.rs` and in `trial/loop_device.rs` (ioctls
//! without a binding).

mod descriptors;
#[cfg(test)]
pub mod fake;
pub mod linux;
pub mod memory;
mod sent;
#[expect(clippy::disallowed_methods, reason = "host/ is the room that runs tools")]
pub mod tool;
#[expect(clippy::disallowed_methods, reason = "host/ is the room that touches devices and files")]
pub mod trial;

use std::future::Future;
use std::io;
use std::path::PathBuf;

use crate::facts::call::SentCall;
use crate::facts::memory::{Event, Remembered};
use crate::volume::VolumeId;

/// What the guard asks of the node. Every verb has a deadline.
pub trait Host: Send + Sync + 'static {
    /// Writes down that `call` is about to go to the plugin. It outlives this process, not the
    /// node's uptime.
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
    #[error("too much waits for {path} already")]
    Backlog { path: PathBuf },
}
