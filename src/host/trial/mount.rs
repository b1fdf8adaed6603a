//! A FUSE superblock that only a descriptor leads to.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::thread;

use nix::sched::{CloneFlags, unshare};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MountPropagationFlags, fsconfig_create,
    fsconfig_set_string, fsmount, fsopen, mount, mount_change,
};

use super::fuse_device;

/// The largest read the kernel asks for, in bytes: the most it can (256 pages, `FUSE_MAX_PAGES`).
/// Half of it doubles the round trips of a scan.
const MAX_READ_BYTES: u32 = 1 << 20;

/// How the superblock is mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mounting {
    /// Whichever of the two works, the detached one first.
    Auto,
    /// fsopen(2) and fsmount(2), Linux 5.2: in nobody's mount table at any time.
    Detached,
    /// mount(2) in a mount namespace that ends before the checker starts. The descriptor keeps the
    /// superblock.
    Private,
}

/// Why this node cannot run a trial at all, whatever the device.
#[derive(Debug, thiserror::Error)]
pub enum NoTrial {
    #[error("this kernel has no FUSE")]
    NoFuse,
    #[error("cannot open {path}")]
    FuseDevice { path: PathBuf, source: io::Error },
    #[error("there is no /dev/fuse and cannot make {path}")]
    NoNode { path: PathBuf, source: io::Error },
    #[error("cannot mount FUSE on a descriptor")]
    Detached { source: io::Error },
    #[error("cannot mount FUSE in a private namespace")]
    Private { source: io::Error },
    #[error("cannot serve FUSE")]
    Serve { source: io::Error },
}

/// A mounted superblock that nobody serves yet.
#[derive(Debug)]
pub(super) struct Mounted {
    /// Where its requests arrive.
    pub(super) requests: OwnedFd,
    /// Its root directory (`O_PATH`). The last copy to go takes the superblock along.
    pub(super) root: OwnedFd,
}

/// Mounts FUSE. `scratch` is a directory for a device node, where `/dev/fuse` is missing.
pub(super) fn mount_fuse(mounting: Mounting, scratch: &Path) -> Result<Mounted, NoTrial> {
    let open = || fuse_device::open(Path::new("/dev/fuse"), scratch);
    match mounting {
        Mounting::Detached => mount_detached(open()?),
        Mounting::Private => mount_private(open()?),
        // A descriptor serves one superblock: each attempt gets its own.
        Mounting::Auto => match mount_detached(open()?) {
            Err(NoTrial::Detached { .. }) => mount_private(open()?),
            answer => answer,
        },
    }
}

fn mount_detached(requests: File) -> Result<Mounted, NoTrial> {
    let attempt = || -> rustix::io::Result<OwnedFd> {
        let fs = fsopen("fuse", FsOpenFlags::FSOPEN_CLOEXEC)?;
        for (key, value) in options(&requests) {
            fsconfig_set_string(&fs, key, value.as_str())?;
        }
        fsconfig_create(&fs)?;
        let attributes = MountAttrFlags::MOUNT_ATTR_NODEV
            | MountAttrFlags::MOUNT_ATTR_NOEXEC
            | MountAttrFlags::MOUNT_ATTR_NOSUID;
        fsmount(&fs, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
    };
    match attempt() {
        Ok(root) => Ok(Mounted { requests: requests.into(), root }),
        // fsopen: no such filesystem.
        Err(rustix::io::Errno::NODEV) => Err(NoTrial::NoFuse),
        Err(errno) => Err(NoTrial::Detached { source: errno.into() }),
    }
}

fn mount_private(requests: File) -> Result<Mounted, NoTrial> {
    let options: Vec<String> =
        options(&requests).iter().map(|(key, value)| format!("{key}={value}")).collect();
    let attempt = move || -> io::Result<OwnedFd> {
        // A thread that shares its root and working directory may not change its namespace (EINVAL).
        unshare(CloneFlags::CLONE_FS)?;
        unshare(CloneFlags::CLONE_NEWNS)?;
        // Slave, not private: the copies of the guard's mounts in here go with their originals.
        // Private ones would keep a volume's superblock alive after its last unmount.
        mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
        // Any directory does: only this thread sees what is on it. /proc is always there, a trial
        // could not hand its file to the checker without it.
        let flags = MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::NOSUID;
        let data = std::ffi::CString::new(options.join(","))?;
        mount("mount-guard", "/proc", "fuse", flags, data.as_c_str())?;
        let root = openat(CWD, "/proc", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        Ok(root)
    };
    let thread = thread::Builder::new().name("trial-mount".into());
    let root = match thread.spawn(attempt) {
        Ok(thread) => thread.join().expect("the thread calls the kernel and does not panic"),
        Err(source) => Err(source),
    };
    match root {
        Ok(root) => Ok(Mounted { requests: requests.into(), root }),
        Err(source) if source.raw_os_error() == Some(libc::ENODEV) => Err(NoTrial::NoFuse),
        Err(source) => Err(NoTrial::Private { source }),
    }
}

/// fuse(4) and fs/fuse/inode.c: the descriptor, the root's type (octal), and who may look.
fn options(requests: &File) -> [(&'static str, String); 5] {
    [
        ("fd", requests.as_raw_fd().to_string()),
        ("rootmode", "40000".into()),
        ("user_id", "0".into()),
        ("group_id", "0".into()),
        ("max_read", MAX_READ_BYTES.to_string()),
    ]
}
