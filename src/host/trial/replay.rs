//! Mounts and unmounts the trial's file, so that the kernel replays the filesystem's log in it.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags, openat};
use rustix::mount::{FsOpenFlags, fsconfig_create, fsconfig_set_flag, fsconfig_set_string, fsopen};

use super::loop_device::LoopDevice;
use super::{Trial, Trouble, sealed};
use crate::host::tool::Cancel;
use crate::volume::FsType;

/// How often it is looked whether the mount is still wanted. 20 ms: soon for a person, and for
/// the processor too.
const LOOK: Duration = Duration::from_millis(20);

/// What the kernel made of the filesystem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replay {
    /// It was mounted and unmounted: its log is clean.
    Replayed,
    /// It would not mount, or the kernel does not know it (ENODEV).
    Refused { errno: i32 },
}

/// There is no answer, and no trial any more.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    #[error("cannot start a thread for the mount")]
    Thread { source: io::Error },
    #[error("cannot open the file of the trial")]
    Open { source: io::Error },
    #[error("cannot put a loop device on the file of the trial")]
    Attach { source: io::Error },
    #[error("cannot flush the file of the trial")]
    Flush { source: io::Error },
    #[error("the mount was called off")]
    Cancelled,
    #[error("the mount did not come back in time")]
    Deadline,
    #[error("the trial is worthless")]
    Spoiled(#[source] Trouble),
}

impl Trial {
    /// Mounts the trial's file as `fs` where nobody sees it, and unmounts it again. The device is
    /// not written to.
    ///
    /// # Errors
    /// The trial is gone: with it, every request of the mount is answered EIO, which ends it.
    pub fn replay(
        self,
        fs: &FsType,
        deadline: Duration,
        cancel: &Cancel,
    ) -> Result<(Self, Replay), ReplayError> {
        let until = Instant::now().checked_add(deadline);
        let root = self.root().as_raw_fd();
        let name = self.volume.as_str().to_owned();
        let fs = fs.as_str().to_owned();
        let sealed =
            sealed::start(&[self.root().as_fd()], move || mount_and_unmount(root, &name, &fs))
                .map_err(|source| ReplayError::Thread { source })?;
        loop {
            let answer = sealed.wait(LOOK);
            if let Some(trouble) = self.trouble() {
                return Err(ReplayError::Spoiled(trouble));
            }
            match answer {
                Some(answer) => return answer.map(|replay| (self, replay)),
                None if cancel.is_raised() => return Err(ReplayError::Cancelled),
                None if until.is_some_and(|until| Instant::now() >= until) => {
                    return Err(ReplayError::Deadline);
                }
                None => {}
            }
        }
    }
}

/// Runs on a sealed thread: `root` is the number of its own copy.
fn mount_and_unmount(root: RawFd, name: &str, fs: &str) -> Result<Replay, ReplayError> {
    // SAFETY: the sealed thread's table holds a copy under this number, and nothing in the thread
    // closes it.
    let root = unsafe { BorrowedFd::borrow_raw(root) };
    let file = openat(root, name, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| ReplayError::Open { source: errno.into() })?;
    let device =
        LoopDevice::attach(file.as_fd()).map_err(|source| ReplayError::Attach { source })?;
    let replay = mount_nowhere(device.path(), fs);
    drop(device);
    rustix::fs::fsync(&file).map_err(|errno| ReplayError::Flush { source: errno.into() })?;
    Ok(replay)
}

/// Sets up the superblock and takes it down again, without ever mounting it anywhere: a mount
/// namespace for it would hold copies of all other mounts, and their superblocks alive.
fn mount_nowhere(device: &Path, fs: &str) -> Replay {
    let attempt = || -> rustix::io::Result<()> {
        let context = fsopen(fs, FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_set_string(&context, "source", device)?;
        if fs == "xfs" {
            // A clone of the volume may be mounted on this node under the same UUID.
            fsconfig_set_flag(&context, "nouuid")?;
        }
        fsconfig_create(&context)
    };
    match attempt() {
        Ok(()) => Replay::Replayed,
        Err(errno) => Replay::Refused { errno: errno.raw_os_error() },
    }
}
