//! What the kernel shows of one device. The number of system calls depends on the device alone,
//! but for the loop devices of the node and the names beside the device's own.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use nix::errno::Errno as Number;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, open, stat, statat};
use rustix::io::Errno;

use super::descriptors::lock_copies;
use super::sysfs::Dir;
use super::{HostError, Roots, loops, stack};
use crate::facts::device::{DeviceFacts, ExclusiveOpen, Node, Partition};
use crate::facts::sysfs as text;
use crate::volume::DevNumber;

/// A device that nobody else can mount, map or claim for as long as this is held.
///
/// To be dropped before a call goes to the plugin: its mount would be refused too.
#[derive(Debug)]
pub struct Exclusive {
    /// `None` while it is being dropped or handed on.
    fd: Option<OwnedFd>,
}

impl Exclusive {
    /// The descriptor that holds it.
    pub(super) fn into_fd(mut self) -> OwnedFd {
        self.fd.take().expect("only the drop and this take it")
    }
}

impl Drop for Exclusive {
    /// Once this has returned, the device can be mounted.
    fn drop(&mut self) {
        let Some(fd) = self.fd.take() else { return };
        let _copies = lock_copies();
        drop(fd);
    }
}

/// # Errors
/// [`HostError::Read`] if the node cannot be looked at. What cannot be read of its device is a
/// `None` in the facts.
pub(super) fn read(path: &Path, roots: &Roots) -> Result<(Node, Option<Exclusive>), HostError> {
    let found = match stat(path) {
        Ok(found) => found,
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok((Node::Absent, None)),
        Err(errno) => return Err(HostError::Read { path: path.into(), source: errno.into() }),
    };
    if !is_block(&found) {
        return Ok((Node::NotADevice, None));
    }
    let number = number_of(&found);
    let (opened, exclusive) = open_exclusively(path, number)?;
    let mut facts = DeviceFacts::unread(path.into(), number, opened);
    read_sysfs(&mut facts, roots);
    facts.loops = loops::over(number, roots);
    facts.twins = read_twins(path, number);
    if opened == ExclusiveOpen::Busy {
        facts.is_swap = read_swap(number, roots);
    }
    Ok((Node::Device(Box::new(facts)), exclusive))
}

pub(super) fn is_block(found: &Stat) -> bool {
    FileType::from_raw_mode(found.st_mode) == FileType::BlockDevice
}

pub(super) fn number_of(found: &Stat) -> DevNumber {
    let (major, minor) = (rustix::fs::major(found.st_rdev), rustix::fs::minor(found.st_rdev));
    DevNumber { major, minor }
}

pub(super) fn open_exclusively(
    path: &Path,
    number: DevNumber,
) -> Result<(ExclusiveOpen, Option<Exclusive>), HostError> {
    // Non-blocking: a removable drive without a medium would be waited for.
    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let fd = match open(path, flags, Mode::empty()) {
        Ok(fd) => fd,
        Err(Errno::BUSY) => return Ok((ExclusiveOpen::Busy, None)),
        Err(Errno::NXIO | Errno::NODEV) => return Ok((ExclusiveOpen::NoDevice, None)),
        Err(errno) => {
            let errno = Number::from_raw(errno.raw_os_error());
            return Ok((ExclusiveOpen::Failed(errno), None));
        }
    };
    check_number(path, &fd, number)?;
    Ok((ExclusiveOpen::Granted, Some(Exclusive { fd: Some(fd) })))
}

/// Sees that what was opened is what was looked at: Longhorn may make a node anew at any moment.
pub(super) fn check_number(path: &Path, fd: &OwnedFd, number: DevNumber) -> Result<(), HostError> {
    let found =
        fstat(fd).map_err(|errno| HostError::Read { path: path.into(), source: errno.into() })?;
    let now = number_of(&found);
    if now == number && is_block(&found) {
        return Ok(());
    }
    Err(HostError::Changed { path: path.into(), was: number, now })
}

fn read_sysfs(facts: &mut DeviceFacts, roots: &Roots) {
    let places = roots.sys.join("dev/block");
    let place = places.join(facts.number.to_string());
    let dir = match Dir::open(&place) {
        Ok(dir) => dir,
        Err(Errno::NOENT) => {
            // Without sysfs at all there is nothing to be seen of any device.
            facts.is_known = Dir::open(&places).is_ok().then_some(false);
            return;
        }
        Err(_) => return,
    };
    facts.is_known = Some(true);
    facts.size_bytes = dir.text("size").ok().as_deref().and_then(text::parse_size);
    facts.is_read_only = dir.text("ro").ok().as_deref().and_then(text::parse_flag);
    facts.holders = stack::holders(&dir);
    if let Ok(link) = rustix::fs::readlink(&place, Vec::new()) {
        let link = PathBuf::from(link.to_string_lossy().into_owned());
        facts.name = link.file_name().map(|name| name.to_string_lossy().into_owned());
        facts.target = stack::target(&link, |name| Dir::open(&places)?.text(name));
    }
    let Some(name) = &facts.name else { return };
    facts.map = if name.starts_with("dm-") { stack::map_name(&dir) } else { Some(None) };
    facts.slaves = match facts.map {
        Some(None) if !name.starts_with("md") => Some(Vec::new()),
        _ => stack::members(&dir, "slaves"),
    };
    if facts.exclusive_open == ExclusiveOpen::Busy {
        facts.partitions = read_partitions(&dir, name);
    }
}

/// A partition's directory lies in the disk's, and has its name at the start.
fn read_partitions(dir: &Dir, disk: &str) -> Option<Vec<Partition>> {
    let names = dir.names().ok()?;
    let parts = names.into_iter().filter(|name| name.starts_with(disk));
    let read = |name: String| {
        let part = dir.dir(Path::new(&name)).ok()?;
        part.text("partition").ok()?;
        let number = part.text("dev").ok().and_then(|text| DevNumber::parse(text.trim()));
        Some(Partition { name, number, holders: stack::holders(&part) })
    };
    Some(parts.filter_map(read).collect())
}

/// Real nodes only: a link beside them is a name for one of them.
fn read_twins(path: &Path, number: DevNumber) -> Option<Vec<PathBuf>> {
    let (parent, own) = (path.parent()?, path.file_name()?);
    let dir = Dir::open(parent).ok()?;
    let candidates = dir.entries().ok()?.into_iter().filter(|(name, kind)| {
        *name.as_str() != *own && matches!(kind, FileType::BlockDevice | FileType::Unknown)
    });
    let same = |name: &String| {
        statat(dir.fd(), name.as_str(), AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|found| is_block(&found) && number_of(&found) == number)
    };
    let mut twins: Vec<PathBuf> =
        candidates.map(|(name, _)| name).filter(same).map(|name| parent.join(name)).collect();
    twins.sort();
    Some(twins)
}

fn read_swap(number: DevNumber, roots: &Roots) -> Option<bool> {
    let swaps = Dir::open(&roots.proc).ok()?.table("swaps").ok()?;
    let is_it = |path: &PathBuf| {
        stat(path).is_ok_and(|found| is_block(&found) && number_of(&found) == number)
    };
    Some(text::parse_swaps(&swaps).iter().any(is_it))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use rustix::fs::{CWD, mknodat};

    use super::*;

    /// What the code takes, not what the machine does beside it: the best of many.
    #[test]
    fn loop_the_look_at_a_device_costs_little() {
        let roots = Roots { proc: "/proc".into(), sys: "/sys".into() };
        let dir = tempfile::tempdir().unwrap();
        let node = dir.path().join("pvc-1");
        let number = stat("/dev/loop0").unwrap().st_rdev;
        let mode = Mode::RUSR | Mode::WUSR;
        mknodat(CWD, &node, FileType::BlockDevice, mode, number).unwrap();
        let best = |work: &dyn Fn()| {
            let once = || {
                let start = Instant::now();
                work();
                start.elapsed()
            };
            (0..1000).map(|_| once()).min().unwrap()
        };
        let number = DevNumber { major: 7, minor: 0 };
        let mut facts = DeviceFacts::unread(node.clone(), number, ExclusiveOpen::Granted);
        read_sysfs(&mut facts, &roots);
        assert_eq!(facts.is_known, Some(true));
        let took = best(&|| drop(read(&node, &roots).unwrap()));
        let open = best(&|| drop(open_exclusively(&node, number)));
        let sysfs = best(&|| read_sysfs(&mut facts.clone(), &roots));
        let loops = best(&|| drop(loops::over(number, &roots)));
        let twins = best(&|| drop(read_twins(&node, number)));
        println!(
            "a look at a device: {took:?} (open {open:?}, sysfs {sysfs:?}, loops {loops:?}, \
             twins {twins:?})"
        );
        assert!(took <= Duration::from_micros(300), "{took:?}");
    }
}
