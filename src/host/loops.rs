//! Loop devices over a device: they hold it in no way that the kernel would tell, except in
//! `loop/backing_file`.

use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Statx, StatxFlags, open, statx};

use super::Roots;
use super::sysfs::Dir;
use crate::facts::device::LoopOnTop;
use crate::facts::sysfs::parse_backing_file;
use crate::volume::DevNumber;

/// `LOOP_GET_STATUS64` (linux/loop.h).
const LOOP_GET_STATUS64: u32 = 0x4c05;

/// `struct loop_info64` (linux/loop.h): 232 bytes, of which the third number is `lo_rdevice`, the
/// device number of a backing node.
type LoopInfo = [u64; 29];

nix::ioctl_read_bad!(loop_get_status, LOOP_GET_STATUS64, LoopInfo);

/// The loop devices whose backing node has this number. One whose backing file nobody can look at
/// any more is left out: it shows in nothing that could be asked.
pub(super) fn over(number: DevNumber, roots: &Roots) -> Option<Vec<LoopOnTop>> {
    // Not `block`, whose links make each look twice as long.
    let block = Dir::open(&roots.sys.join("devices/virtual/block")).ok()?;
    let names = block.names().ok()?.into_iter().filter(|name| name.starts_with("loop"));
    let read = |name: String| {
        let text = block.bytes(format!("{name}/loop/backing_file")).ok()?;
        let backing_file = parse_backing_file(&text)?;
        // A name that was given anew leads elsewhere by now.
        let is_gone = text.ends_with(b" (deleted)\n");
        let by_name = || read_number(&backing_file, roots);
        let backing = if is_gone { ask_number(&name) } else { by_name() };
        let backing = backing.or_else(|| ask_number(&name)).or_else(by_name)?;
        (backing == Some(number)).then_some(LoopOnTop { name, backing_file })
    };
    Some(names.filter_map(read).collect())
}

/// The number of the node at `path`, here or in the host's view; `Some(None)` for a file.
///
/// Without asking a server: the file may lie on a dead NFS, and is none of ours then.
fn read_number(path: &Path, roots: &Roots) -> Option<Option<DevNumber>> {
    let of_host = |path: &Path| -> Option<PathBuf> {
        Some(roots.proc.join("1/root").join(path.strip_prefix("/").ok()?))
    };
    let found = look(path).or_else(|| look(&of_host(path)?))?;
    let is_block = FileType::from_raw_mode(found.stx_mode.into()) == FileType::BlockDevice;
    let number = DevNumber { major: found.stx_rdev_major, minor: found.stx_rdev_minor };
    Some(is_block.then_some(number))
}

fn look(path: &Path) -> Option<Statx> {
    let flags = AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
    statx(CWD, path, flags, StatxFlags::TYPE).ok()
}

/// Asks the loop device itself, for a node whose name is gone or is seen elsewhere only.
fn ask_number(name: &str) -> Option<Option<DevNumber>> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let fd = open(Path::new("/dev").join(name), flags, Mode::empty()).ok()?;
    let mut info: LoopInfo = [0; 29];
    // SAFETY: the descriptor is open, `info` has the size of the structure that the kernel fills,
    // and any bits are a valid `u64`.
    unsafe { loop_get_status(fd.as_raw_fd(), &raw mut info) }.ok()?;
    let (major, minor) = (rustix::fs::major(info[2]), rustix::fs::minor(info[2]));
    Some((info[2] != 0).then_some(DevNumber { major, minor }))
}
