//! A loop device over a file that is reached by descriptor only.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

/// `include/uapi/linux/loop.h`.
const LOOP_CTL_GET_FREE: libc::Ioctl = 0x4C82;
const LOOP_CONFIGURE: libc::Ioctl = 0x4C0A;
const LO_FLAGS_AUTOCLEAR: u32 = 4;

/// How often a free device is asked for: another process may take it first.
const ATTEMPTS: u32 = 16;

/// Open, it is a disk; closed, it is gone, also if the guard is killed (`LO_FLAGS_AUTOCLEAR`).
#[derive(Debug)]
pub struct LoopDevice {
    path: PathBuf,
    _open: File,
    /// Keeps the lock on a file of the caller's.
    image: Option<File>,
}

impl LoopDevice {
    /// Puts a loop device on `backing`.
    pub(super) fn attach(backing: BorrowedFd<'_>) -> io::Result<Self> {
        let control = File::options().read(true).write(true).open("/dev/loop-control")?;
        let mut busy = io::Error::from_raw_os_error(libc::EBUSY);
        for _ in 0..ATTEMPTS {
            let number = find_free(&control)?;
            let path = PathBuf::from(format!("/dev/loop{number}"));
            let open = File::options().read(true).write(true).open(&path)?;
            match configure(&open, backing) {
                Ok(()) => return Ok(Self { path, _open: open, image: None }),
                Err(err) if err.raw_os_error() == Some(libc::EBUSY) => busy = err,
                Err(err) => return Err(err),
            }
        }
        Err(busy)
    }

    /// Puts a loop device on the file at `image`, which nobody else may use meanwhile.
    ///
    /// # Errors
    /// What the kernel said; EAGAIN if another check has the file.
    pub fn over(image: &Path) -> io::Result<Self> {
        let file = File::options().read(true).write(true).open(image)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        let mut device = Self::attach(file.as_fd())?;
        device.image = Some(file);
        Ok(device)
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn find_free(control: &File) -> io::Result<libc::c_int> {
    // SAFETY: LOOP_CTL_GET_FREE takes no argument and returns a number.
    match unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) } {
        number if number >= 0 => Ok(number),
        _ => Err(io::Error::last_os_error()),
    }
}

fn configure(device: &File, backing: BorrowedFd<'_>) -> io::Result<()> {
    let config = LoopConfig {
        fd: backing.as_raw_fd().cast_unsigned(),
        flags: LO_FLAGS_AUTOCLEAR,
        ..LoopConfig::default()
    };
    // SAFETY: LOOP_CONFIGURE reads one `struct loop_config`, of which `LoopConfig` has size and
    // layout (checked below); `config` lives through the call, and the kernel keeps no pointer.
    match unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE, &raw const config) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// `struct loop_config` with its `struct loop_info64`; what the trial leaves at zero is not named.
#[repr(C)]
#[derive(Default)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    device_inode_rdevice_offset_sizelimit: [u64; 5],
    number_encrypt_type_key_size: [u32; 3],
    flags: u32,
    file_and_crypt_name: [[u64; 8]; 2],
    encrypt_key: [u64; 4],
    init: [u64; 2],
    reserved: [u64; 8],
}

const _: () = assert!(size_of::<LoopConfig>() == 304);
const _: () = assert!(std::mem::offset_of!(LoopConfig, flags) == 60);
