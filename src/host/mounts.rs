//! Mounts of the guard's own namespace, which kubelet's directories propagate into.

use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags, fsync, open, statx, syncfs};
use rustix::io::{Errno, write};

use super::sysfs::Dir;
use super::{HostError, MountAt, Written};
use crate::facts::mounts::{Mount, Table};

/// `include/uapi/linux/stat.h`, Linux 6.8: an id that is never used again.
const STATX_MNT_ID_UNIQUE: StatxFlags = StatxFlags::from_bits_retain(0x4000);

/// What a probe writes, in bytes: one page, so that a block must be found for it.
const PROBE_BYTES: usize = 4096;

/// The table of the guard's own namespace.
pub(super) const TABLE: &str = "/proc/self/mountinfo";

/// Every mount, in the table's order.
///
/// # Errors
/// The mount table cannot be read.
pub(super) fn read_all() -> Result<Vec<Mount>, HostError> {
    let text = Dir::open(Path::new("/proc/self"))
        .and_then(|dir| dir.table("mountinfo"))
        .map_err(|errno| HostError::Read { path: TABLE.into(), source: errno.into() })?;
    Ok(Table::parse(&text).mounts)
}

/// The topmost mount at exactly `path`.
///
/// # Errors
/// The mount table cannot be read.
pub(super) fn read_at(path: &Path) -> Result<Option<MountAt>, HostError> {
    let topmost = read_all()?.into_iter().rfind(|mount| mount.path == path);
    Ok(topmost.map(|mount| {
        let unique_id = if is_remote(&mount) { None } else { read_unique_id(path) };
        MountAt { mount, unique_id }
    }))
}

/// A server that does not answer keeps whoever asks.
fn is_remote(mount: &Mount) -> bool {
    mount.fs_type.starts_with("nfs")
}

fn read_unique_id(path: &Path) -> Option<u64> {
    let found = statx(CWD, path, AtFlags::NO_AUTOMOUNT, STATX_MNT_ID_UNIQUE).ok()?;
    let known = found.stx_mask & STATX_MNT_ID_UNIQUE.bits() != 0;
    known.then_some(found.stx_mnt_id)
}

/// Writes a nameless file in `dir` and waits until it is on disk.
pub(super) fn probe_write(dir: &Path) -> Written {
    let attempt = || -> Result<(), Errno> {
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        let file = open(dir, flags, Mode::RUSR | Mode::WUSR)?;
        write(&file, &[0; PROBE_BYTES])?;
        fsync(&file)
    };
    match attempt() {
        Ok(()) => Written::Yes,
        Err(Errno::ROFS) => Written::ReadOnly,
        Err(Errno::NOSPC | Errno::DQUOT) => Written::Full,
        // What a filesystem without nameless files says, by kernel and filesystem.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => Written::NotSupported,
        Err(errno) => Written::Failed { errno: errno.raw_os_error() },
    }
}

/// Writes what the filesystem at `path` still has in memory.
///
/// # Errors
/// It cannot be opened or written.
pub(super) fn sync(path: &Path) -> Result<(), HostError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let synced = open(path, flags, Mode::empty()).and_then(syncfs);
    synced.map_err(|errno| HostError::Write { path: path.into(), source: errno.into() })
}
