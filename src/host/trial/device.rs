//! The device a trial is of, held so that nobody mounts or formats it meanwhile.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock, major, minor};

use crate::host::Exclusive;
use crate::host::descriptors::lock_copies;
use crate::volume::DevNumber;

/// A block device opened with `O_EXCL`, or an image file under an exclusive lock. Opened for
/// reading only: nothing is written before a trial is applied.
///
/// While this lives, mount, mkfs and other checkers get EBUSY from the device; raw writers (`dd`,
/// `tune2fs`) do not ask. The lock of a file keeps out only those that ask for it.
#[derive(Debug)]
pub struct HeldDevice {
    /// `None` while it is being dropped.
    file: Option<File>,
    path: PathBuf,
    number: DeviceNumber,
    size_bytes: u64,
}

/// What the kernel calls a device (major:minor) or a file (its device and inode).
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceNumber {
    Block { major: u32, minor: u32 },
    File { dev: u64, inode: u64 },
}

#[derive(Debug, thiserror::Error)]
pub enum HoldError {
    #[error("{path} is in use")]
    InUse { path: PathBuf },
    #[error("cannot open {path}")]
    Open { path: PathBuf, source: io::Error },
    #[error("{path} is neither a block device nor a file")]
    NoDisk { path: PathBuf },
    #[error("cannot tell the size of {path}")]
    Size { path: PathBuf, source: io::Error },
}

impl HeldDevice {
    /// # Errors
    /// [`HoldError::InUse`] if somebody else holds it, otherwise what the kernel said.
    pub fn hold(path: &Path) -> Result<Self, HoldError> {
        let open_error = |source: io::Error| match source.raw_os_error() {
            Some(libc::EBUSY | libc::EAGAIN) => HoldError::InUse { path: path.into() },
            _ => HoldError::Open { path: path.into(), source },
        };
        // O_NONBLOCK: the open of a FIFO would wait for its writer.
        let flags = libc::O_EXCL | libc::O_NONBLOCK;
        let mut file =
            File::options().read(true).custom_flags(flags).open(path).map_err(open_error)?;
        let meta = file.metadata().map_err(open_error)?;
        let number = if meta.file_type().is_block_device() {
            DeviceNumber::Block { major: major(meta.rdev()), minor: minor(meta.rdev()) }
        } else if meta.is_file() {
            let lock = FlockOperation::NonBlockingLockExclusive;
            flock(&file, lock).map_err(|errno| open_error(errno.into()))?;
            DeviceNumber::File { dev: meta.dev(), inode: meta.ino() }
        } else {
            return Err(HoldError::NoDisk { path: path.into() });
        };
        let size_bytes = file
            .seek(SeekFrom::End(0))
            .map_err(|source| HoldError::Size { path: path.into(), source })?;
        Ok(Self { file: Some(file), path: path.into(), number, size_bytes })
    }

    /// A device that was held already.
    ///
    /// # Errors
    /// Its size cannot be told.
    pub fn of(exclusive: Exclusive, path: &Path, number: DevNumber) -> io::Result<Self> {
        let mut file = File::from(exclusive.into_fd());
        let size_bytes = file.seek(SeekFrom::End(0))?;
        let number = DeviceNumber::Block { major: number.major, minor: number.minor };
        Ok(Self { file: Some(file), path: path.into(), number, size_bytes })
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    #[must_use]
    pub fn number(&self) -> &DeviceNumber {
        &self.number
    }

    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Reads `buffer.len()` bytes at `offset`, all of them.
    ///
    /// # Errors
    /// The device did not give them.
    pub fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file().read_exact_at(buffer, offset)
    }

    /// The same device, open for writing.
    ///
    /// A read-only device is refused here: Linux 6.18 opens it, and refuses the first write.
    ///
    /// By way of the descriptor, not of the path: a path can lead elsewhere by now. Without
    /// `O_EXCL`, which our own first descriptor would refuse.
    pub(super) fn open_for_writing(&self) -> io::Result<File> {
        let path = format!("/proc/self/fd/{}", self.file().as_raw_fd());
        let file = File::options().write(true).open(path)?;
        match self.number {
            DeviceNumber::Block { .. } if is_read_only(&file)? => {
                Err(io::Error::from_raw_os_error(libc::EROFS))
            }
            _ => Ok(file),
        }
    }

    fn file(&self) -> &File {
        self.file.as_ref().expect("only the drop takes it")
    }
}

impl Drop for HeldDevice {
    /// Once this has returned, the device can be mounted.
    fn drop(&mut self) {
        let _copies = lock_copies();
        drop(self.file.take());
    }
}

/// Whether a block device is set read-only (`BLKROGET`, `include/uapi/linux/fs.h`).
fn is_read_only(device: &File) -> io::Result<bool> {
    const BLKROGET: libc::Ioctl = 0x125E;
    let mut flag: libc::c_int = 0;
    // SAFETY: BLKROGET writes one int, and `flag` is one that lives through the call.
    match unsafe { libc::ioctl(device.as_raw_fd(), BLKROGET, &raw mut flag) } {
        0 => Ok(flag != 0),
        _ => Err(io::Error::last_os_error()),
    }
}
