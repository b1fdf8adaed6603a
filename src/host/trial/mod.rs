//! The trial: a checker works on a copy-on-write view of a device, and what it did is written to
//! the device later, all of it or none.
//!
//! ```text
//! HeldDevice ─▶ Disk ◀─ FUSE ◀─ checker (run, replay)
//!                │
//!             finish ─▶ Difference ─▶ apply ─▶ device, by way of a redo log
//! ```
//!
//! Invariants:
//! * nothing in this room writes to the device but `write.rs`, and it writes what a whole, named
//!   redo log holds (or, for an encrypted volume, what the memory does);
//! * the guard's own threads touch the trial's filesystem from `sealed.rs` only;
//! * plain text of a volume in [`Room::Memory`] reaches no file.

mod apply;
mod arena;
mod device;
mod difference;
mod disk;
mod fingerprints;
mod fuse_device;
mod log;
mod loop_device;
mod mount;
mod plan;
mod quota;
mod redo;
mod replay;
mod sealed;
mod serve;
mod state;
mod store;
mod write;

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::{Duration, Instant};

pub use apply::{Applied, Apply, ApplyError};
pub use device::{DeviceNumber, HeldDevice, HoldError};
pub use difference::{Difference, Extent};
pub use disk::Trouble;
pub use log::{Direction, Identity, LogError, LogHeader};
pub use loop_device::LoopDevice;
pub use mount::{Mounting, NoTrial};
pub use plan::Mark;
pub use quota::Quota;
pub use redo::{Pending, RedoError, Redone};
pub use replay::{Replay, ReplayError};
pub use state::{StateError, Trials};
pub use write::{Observe, Step};

use super::tool::{Cancel, Tool, ToolError, ToolExit};
use crate::volume::VolumeId;
use disk::Disk;

/// The unit of the store, of the comparison and of the log, in bytes.
///
/// 4 KiB: the page, which is what the kernel sends at least. A smaller one would read more often
/// around a write, a larger one would rewrite what the checker left alone.
const BLOCK_BYTES: usize = 4096;

/// How long the kernel may take to let go of the trial's filesystem after the last checker.
///
/// It takes milliseconds; what lasts longer is a process that still has the file open.
const RELEASE: Duration = Duration::from_secs(10);

/// Where a trial keeps what the checker writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    /// A little in memory, the rest in a nameless file in the state directory; the redo log too.
    StateDir,
    /// Memory only, at most so much, and no redo log: for the plain text of encrypted volumes.
    Memory { limit_bytes: u64 },
}

/// How long a request that has begun may take to end.
///
/// 2 s: it reads a mebibyte of the device. One that takes longer is not waited for by anybody.
const RECLAIM: Duration = Duration::from_secs(2);

/// A running trial. Dropped, it is discarded: the device is what it was.
#[derive(Debug)]
pub struct Trial {
    volume: VolumeId,
    trials: Trials,
    room: Room,
    disk: serve::Slot,
    alarm: Cancel,
    root: Option<OwnedFd>,
    ended: Receiver<()>,
}

/// Looks after a trial whose device may hang, and does not keep it.
#[derive(Debug, Clone)]
pub struct Watchdog(Weak<Disk>);

impl Watchdog {
    /// See [`Trial::watchdog`].
    pub fn look(&self, patience: Duration) {
        if let Some(disk) = self.0.upgrade() {
            disk.give_up_if_stalled(patience);
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum BeginError {
    #[error("this node cannot run a trial")]
    NoTrial(#[source] NoTrial),
    #[error("cannot make the store of the trial in {dir}")]
    Store { dir: PathBuf, source: io::Error },
    #[error("cannot make the alarm of the trial")]
    Alarm { source: io::Error },
}

#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("cannot run the checker")]
    Tool(#[source] ToolError),
    #[error("the trial is worthless")]
    Spoiled(#[source] Trouble),
}

#[derive(Debug, thiserror::Error)]
pub enum FinishError {
    #[error("the trial is worthless")]
    Spoiled(#[source] Trouble),
    #[error("somebody still has the file of the trial open")]
    StillOpen,
}

impl Trials {
    /// Shows `device` as a file that can be written to without writing to the device.
    ///
    /// # Errors
    /// [`BeginError::NoTrial`] if the node cannot run any trial.
    pub fn begin(
        &self,
        volume: VolumeId,
        device: HeldDevice,
        room: Room,
        mounting: Mounting,
    ) -> Result<Trial, BeginError> {
        let overflow = self
            .overflow(room)
            .map_err(|source| BeginError::Store { dir: self.dir().into(), source })?;
        let store = store::Store::new(overflow, self.quota().charge());
        let alarm = Cancel::new().map_err(|source| BeginError::Alarm { source })?;
        let disk = Arc::new(Disk::new(device, store, alarm.clone()));
        let disk = Arc::new(Mutex::new(Some(disk)));
        let mounted = mount::mount_fuse(mounting, self.dir()).map_err(BeginError::NoTrial)?;
        let name = OsString::from(volume.as_str());
        let ended = serve::serve(mounted.requests, name, Arc::clone(&disk))
            .map_err(|source| BeginError::NoTrial(NoTrial::Serve { source }))?;
        let root = Some(mounted.root);
        Ok(Trial { volume, trials: self.clone(), room, disk, alarm, root, ended })
    }
}

impl Trial {
    /// The file, as an argument for a tool run by [`Trial::run`]. It ends with the volume's name,
    /// which is then what the checker calls the filesystem in its messages.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}/{}", self.root().as_raw_fd(), self.volume).into()
    }

    /// Runs a checker. It is killed as soon as `cancel` is raised, or its work is in vain.
    ///
    /// # Errors
    /// [`RunError::Spoiled`]: no result of this trial may be used. What an exit code means belongs
    /// to the caller.
    pub fn run(&self, tool: Tool, cancel: &Cancel) -> Result<ToolExit, RunError> {
        let tool = tool.keep(self.root().as_raw_fd());
        let exit = tool.run(&[cancel, &self.alarm]).map_err(RunError::Tool)?;
        match self.trouble() {
            Some(trouble) => Err(RunError::Spoiled(trouble)),
            None => Ok(exit),
        }
    }

    /// Makes the trial worthless once its device has not answered for `patience`; to be asked now
    /// and then, from beside a checker that waits for it.
    #[must_use]
    pub fn watchdog(&self) -> Watchdog {
        Watchdog(Arc::downgrade(&self.disk()))
    }

    /// What made this trial worthless, if anything did.
    #[must_use]
    pub fn trouble(&self) -> Option<Trouble> {
        self.disk().trouble()
    }

    /// Reads the disk as the checkers left it. To be called between tools, not beside one.
    ///
    /// # Errors
    /// The device cannot be read: the trial is worthless.
    pub fn read(&self, offset: u64, length: usize) -> Result<Vec<u8>, Trouble> {
        self.disk().read(offset, length, <[u8]>::to_vec)
    }

    /// Ends the trial and says what the checkers changed.
    ///
    /// # Errors
    /// The result may not be used, and the device is what it was.
    pub fn finish(mut self) -> Result<Difference, FinishError> {
        // What the kernel still has arrives before the threads that serve it end.
        self.release();
        match self.ended.recv_timeout(RELEASE) {
            Err(RecvTimeoutError::Disconnected) => {}
            Ok(()) | Err(RecvTimeoutError::Timeout) => return Err(FinishError::StillOpen),
        }
        let disk = self.withdraw().and_then(reclaim).ok_or(FinishError::StillOpen)?;
        if let Some(trouble) = disk.trouble() {
            return Err(FinishError::Spoiled(trouble));
        }
        let difference = Difference::of(disk, self.volume.clone(), self.trials.clone(), self.room);
        difference.map_err(FinishError::Spoiled)
    }

    /// Ends the trial without a result and gives the device back, still held; `None` if somebody
    /// hangs in the middle of a read of it.
    #[must_use]
    pub fn discard(mut self) -> Option<HeldDevice> {
        let disk = self.withdraw();
        self.release();
        disk.and_then(reclaim).map(Disk::into_device)
    }

    fn root(&self) -> &OwnedFd {
        self.root.as_ref().expect("only the end of the trial takes it")
    }

    fn disk(&self) -> Arc<Disk> {
        let disk = self.disk.lock().expect("no holder of this lock panics");
        Arc::clone(disk.as_ref().expect("only the end of the trial takes it"))
    }

    /// From here on every request is answered EIO, also that of a process which left its group.
    fn withdraw(&self) -> Option<Arc<Disk>> {
        self.disk.lock().expect("no holder of this lock panics").take()
    }

    /// Lets go of the superblock, from a sealed thread: taking it down may send requests.
    fn release(&mut self) {
        let Some(root) = self.root.take() else { return };
        let (go, wait) = channel::<()>();
        let sealed = sealed::start(&[root.as_fd()], move || {
            let _ = wait.recv();
        });
        drop(root);
        // Without a thread the line above took it down already.
        drop((go, sealed));
    }
}

impl Drop for Trial {
    /// Once this has returned, the device is free, unless it hangs in the middle of a read.
    fn drop(&mut self) {
        let disk = self.withdraw();
        self.release();
        drop(disk.and_then(reclaim));
    }
}

/// Waits until no request works on the disk any more, which a hanging device can prevent. The
/// last one then lets go of it.
fn reclaim(disk: Arc<Disk>) -> Option<Disk> {
    let begun = Instant::now();
    while Arc::strong_count(&disk) > 1 && begun.elapsed() < RECLAIM {
        thread::sleep(Duration::from_millis(1));
    }
    Arc::into_inner(disk)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_and_its_result_can_go_to_a_blocking_thread() {
        fn is_send<T: Send + 'static>() {}
        is_send::<Trial>();
        is_send::<Difference>();
        is_send::<HeldDevice>();
        is_send::<Trials>();
    }
}
