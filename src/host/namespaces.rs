//! Who on the node uses a device: the mounts of every mount namespace, and open files.
//!
//! Slow (every process is looked at), and only ever asked to *name* a holder.

#![expect(clippy::disallowed_methods, reason = "host/ is the room that touches files")]

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, StatxFlags, statx};
use rustix::io::Errno;

use super::sysfs::Dir;
use super::{HostError, Roots};
use crate::facts::device::{Life, MountSighting, Sightings};
use crate::facts::mounts::{Mount, Table};
use crate::facts::process::{PodUid, Process};
use crate::volume::DevNumber;

/// What tells one view of the mounts from another: the namespace, and the root of the process in
/// it. A process that was chrooted sees a part only.
type View = (u64, PathBuf);

/// The mounts of any of `numbers`, each once for every namespace.
pub(super) fn find_mounts(
    numbers: &[DevNumber],
    roots: &Roots,
) -> Result<Sightings<MountSighting>, HostError> {
    let own = Dir::open(Path::new("/proc/self")).ok().and_then(|dir| read_namespace(&dir));
    let mut found = Sightings { seen: Vec::new(), unread_processes: 0 };
    let mut views: BTreeSet<View> = BTreeSet::new();
    // The number of a mount is the node's, not its namespace's (`mnt_alloc_id`, fs/namespace.c).
    let mut known: BTreeSet<u64> = BTreeSet::new();
    for pid in pids(&roots.proc)? {
        let dir = roots.proc.join(pid.to_string());
        let view = read_view(&dir);
        if view.as_ref().is_some_and(|view| views.contains(view)) {
            continue;
        }
        let table = match fs::read(dir.join("mountinfo")) {
            Ok(table) => Table::parse(&table),
            Err(error) if is_end(&error) => continue,
            Err(_) => {
                found.unread_processes += 1;
                continue;
            }
        };
        let namespace = view.as_ref().map(|(namespace, _)| *namespace);
        for mount in table.mounts.into_iter().filter(|mount| is_of(mount, numbers)) {
            if known.insert(mount.id) {
                let life = read_life(&mount, own.is_some() && own == namespace);
                let pod = PodUid::of_path(&mount.path);
                let process = name(pid, &dir);
                found.seen.push(MountSighting { mount, namespace, process, pod, life });
            }
        }
        views.extend(view);
    }
    Ok(found)
}

/// `None` where it is not shown, as of a process with more rights: its table is then read for
/// itself.
fn read_view(process: &Path) -> Option<View> {
    let process = Dir::open(process).ok()?;
    Some((read_namespace(&process)?, process.link("root").ok()?))
}

/// The processes that have a node of any of `numbers` open.
pub(super) fn find_openers(
    numbers: &[DevNumber],
    roots: &Roots,
) -> Result<Sightings<Process>, HostError> {
    let mut found = Sightings { seen: Vec::new(), unread_processes: 0 };
    // Under the host's `proc` this process has another number than its own.
    let own = fs::read_link(roots.proc.join("self")).ok();
    let own = own.and_then(|own| own.to_str()?.parse().ok());
    for pid in pids(&roots.proc)?.into_iter().filter(|pid| Some(*pid) != own) {
        let dir = roots.proc.join(pid.to_string());
        let has_it = |process: &Dir| {
            let files = process.dir(Path::new("fd"))?;
            Ok(files.names()?.iter().any(|fd| {
                number_behind(files.fd(), Path::new(fd)).is_some_and(|fd| numbers.contains(&fd))
            }))
        };
        match Dir::open(&dir).and_then(|process| has_it(&process)) {
            Ok(true) => found.seen.push(name(pid, &dir)),
            Ok(false) | Err(Errno::NOENT | Errno::SRCH) => {}
            Err(_) => found.unread_processes += 1,
        }
    }
    Ok(found)
}

/// Processes by their numbers: the oldest of a namespace comes first and gives it its name.
fn pids(proc: &Path) -> Result<Vec<u32>, HostError> {
    let names = Dir::open(proc).and_then(|dir| dir.names()).map_err(cannot(proc))?;
    let mut pids: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
    pids.sort_unstable();
    Ok(pids)
}

/// The number in `mnt:[4026531840]`.
fn read_namespace(process: &Dir) -> Option<u64> {
    let link = process.link("ns/mnt").ok()?;
    link.to_str()?.strip_prefix("mnt:[")?.strip_suffix(']')?.parse().ok()
}

fn name(pid: u32, dir: &Path) -> Process {
    let read = |name: &str| Dir::open(dir).and_then(|dir| dir.text(name)).unwrap_or_default();
    let pod = PodUid::of_cgroup(&read("cgroup"));
    Process { pid, comm: read("comm").trim_end_matches('\n').to_owned(), pod }
}

/// btrfs shows an anonymous number, so the name it was mounted by has to do.
fn is_of(mount: &Mount, numbers: &[DevNumber]) -> bool {
    let by_name = || number_behind(CWD, &mount.source).is_some_and(|it| numbers.contains(&it));
    numbers.contains(&mount.number)
        || mount.fs_type == "btrfs" && mount.source.starts_with("/dev") && by_name()
}

/// The number of a block device node, without asking a server for it.
fn number_behind(dir: impl std::os::fd::AsFd, path: &Path) -> Option<DevNumber> {
    let flags = AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
    let found = statx(dir, path, flags, StatxFlags::TYPE).ok()?;
    let is_block = FileType::from_raw_mode(found.stx_mode.into()) == FileType::BlockDevice;
    let (major, minor) = (found.stx_rdev_major, found.stx_rdev_minor);
    is_block.then_some(DevNumber { major, minor })
}

/// Only the newest kernels show a dead filesystem in its options; a dead xfs fails a stat of its
/// root, a dead ext4 does not (facts measured on 5.10, 6.1, 6.12 and 6.18).
fn read_life(mount: &Mount, is_own_namespace: bool) -> Life {
    let died = ["shutdown", "emergency_ro"].iter().any(|how| mount.super_options.has(how));
    if died {
        return Life::Dead;
    }
    if !is_own_namespace {
        return Life::Unknown;
    }
    let flags = AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
    match statx(CWD, &mount.path, flags, StatxFlags::TYPE | StatxFlags::INO) {
        Err(Errno::IO) => Life::Dead,
        // Another mount on top of it would answer in its place.
        Ok(found) if (found.stx_dev_major, found.stx_dev_minor) == pair(mount.number) => {
            Life::Answers
        }
        _ => Life::Unknown,
    }
}

fn pair(number: DevNumber) -> (u32, u32) {
    (number.major, number.minor)
}

fn is_end(error: &io::Error) -> bool {
    // A process whose namespace is gone already has a table that cannot be opened (EINVAL).
    matches!(Errno::from_io_error(error), Some(Errno::NOENT | Errno::SRCH | Errno::INVAL))
}

fn cannot(path: impl AsRef<Path>) -> impl FnOnce(Errno) -> HostError {
    let path = path.as_ref().to_owned();
    move |errno| HostError::Read { path, source: errno.into() }
}
