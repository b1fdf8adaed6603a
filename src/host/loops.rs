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

/// The loop devices whose backing node has this number, and, for a loop device, the others over
/// the same part of the same file. One whose backing file nobody can look at any more is left out:
/// it shows in nothing that could be asked.
pub(super) fn over(number: DevNumber, roots: &Roots) -> Option<Vec<LoopOnTop>> {
    // Not `block`, whose links make each look twice as long.
    let block = Dir::open(&roots.sys.join("devices/virtual/block")).ok()?;
    let names = block.names().ok()?.into_iter().filter(|name| name.starts_with("loop"));
    let read = |name: String| {
        let text = block.bytes(format!("{name}/loop/backing_file")).ok()?;
        let backing_file = parse_backing_file(&text)?;
        // A name that was given anew leads elsewhere by now.
        let is_gone = text.ends_with(b" (deleted)\n");
        Some((LoopOnTop { name, backing_file }, is_gone))
    };
    let loops: Vec<(LoopOnTop, bool)> = names.filter_map(read).collect();
    let own = (number.major == LOOP_MAJOR).then(|| {
        let is_own = |name: &str| read_dev(&block, name) == Some(number);
        loops.iter().map(|(it, _)| it).find(|it| is_own(&it.name)).cloned()
    });
    let own = own.flatten();
    let is_over = |(it, is_gone): &(LoopOnTop, bool)| {
        let by_name = || read_number(&it.backing_file, roots);
        let backing = if *is_gone { ask_number(&it.name) } else { by_name() };
        let backing = backing.or_else(|| ask_number(&it.name)).or_else(by_name);
        let is_on_it = backing.is_some_and(|backing| backing == Some(number));
        is_on_it || own.as_ref().is_some_and(|own| share(&block, own, it))
    };
    Some(loops.iter().filter(|it| is_over(it)).map(|(it, _)| it.clone()).collect())
}

/// Of loop devices (Documentation/admin-guide/devices.txt).
const LOOP_MAJOR: u32 = 7;

fn read_dev(block: &Dir, name: &str) -> Option<DevNumber> {
    block.text(format!("{name}/dev")).ok().and_then(|text| DevNumber::parse(text.trim()))
}

/// Whether another loop device writes where this one does: each of them has a cache of its own, and
/// holds nothing of the other.
fn share(block: &Dir, own: &LoopOnTop, other: &LoopOnTop) -> bool {
    if own.name == other.name || own.backing_file != other.backing_file {
        return false;
    }
    // What cannot be told is taken for the whole file.
    let range = |name: &str| {
        let number = |file: &str| -> Option<u64> {
            block.text(format!("{name}/{file}")).ok()?.trim().parse().ok()
        };
        let from = number("loop/offset").unwrap_or(0);
        let bytes = number("size").map_or(u64::MAX, |sectors| sectors.saturating_mul(512));
        from..from.saturating_add(bytes)
    };
    let (own, other) = (range(&own.name), range(&other.name));
    own.start < other.end && other.start < own.end
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
