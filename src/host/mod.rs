//! EFFECTS on the node. Nothing outside this room reads, writes, forks or mounts on it (the
//! sockets in `proxy/` and `http.rs` excepted). It decides nothing.

#[cfg(test)]
pub mod fake;
pub mod linux;
mod sent;

use std::future::Future;
use std::io;
use std::path::PathBuf;

use crate::facts::call::SentCall;

/// What the guard asks of the node. Every verb has a deadline.
pub trait Host: Send + Sync + 'static {
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
