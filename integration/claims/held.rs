//! Devices that somebody has mounted or open.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use mount_guard::claims::{Claim, Expected, judge};
use mount_guard::facts::device::Life;
use nix::errno::Errno;
use nix::libc::O_EXCL;
use nix::mount::{MntFlags, MsFlags, mount, umount2};

use super::scene::{Nodes, expected};
use crate::support::disk::LoopDisk;

pub fn tests() -> Vec<libtest_mimic::Trial> {
    crate::tests![
        loop_a_hold_keeps_everybody_else_away_until_it_is_dropped,
        loop_the_volumes_own_mounts_are_no_claim,
        loop_a_mount_in_another_namespace_is_found_and_named,
        loop_a_dead_mount_is_seen_to_be_dead,
        loop_a_btrfs_is_found_by_the_name_it_was_mounted_by,
        loop_who_holds_it_open_is_named,
        loop_a_mount_that_is_detached_and_still_used_shows_in_no_namespace,
    ]
}

fn mounted(disk: &LoopDisk, fs: &str, work: impl FnOnce(&Path)) {
    let dir = tempfile::tempdir().unwrap();
    mount(Some(disk.device()), dir.path(), Some(fs), MsFlags::empty(), None::<&str>).unwrap();
    work(dir.path());
    // Another test that forks at this moment may hold a file of it for an instant.
    umount2(dir.path(), MntFlags::MNT_DETACH).unwrap();
}

fn loop_a_hold_keeps_everybody_else_away_until_it_is_dropped() {
    let disk = LoopDisk::with_filesystem("ext4", &[]);
    let (nodes, node) = Nodes::of(disk.device());
    let (_, exclusive) = nodes.node(&node);
    assert!(exclusive.is_some());
    let dir = tempfile::tempdir().unwrap();
    let try_mount =
        || mount(Some(disk.device()), dir.path(), Some("ext4"), MsFlags::empty(), None::<&str>);
    assert_eq!(try_mount(), Err(Errno::EBUSY));
    drop(exclusive);
    // A test that forks at this moment has a copy of the hold until its child executes a tool.
    let is_mounted = (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        try_mount() == Ok(())
    });
    assert!(is_mounted);
    umount2(dir.path(), MntFlags::MNT_DETACH).unwrap();
}

fn loop_the_volumes_own_mounts_are_no_claim() {
    let disk = LoopDisk::with_filesystem("ext4", &[]);
    let (nodes, node) = Nodes::of(disk.device());
    mounted(&disk, "ext4", |staging| {
        let facts = nodes.facts(&node);
        let own = Expected { paths: vec![staging.to_owned()], ..expected() };
        let Claim::Own { mounts, .. } = judge(&facts, &own) else { panic!("{facts:?}") };
        assert_eq!(mounts[0].mount.path, staging);
        assert_eq!(mounts[0].life, Life::Answers);
        assert_eq!(judge(&facts, &expected()).label(), "mounted_elsewhere");
    });
}

/// A process with a mount in a namespace of its own, for as long as it is kept.
struct Elsewhere(Child);

impl Elsewhere {
    fn mount(device: &Path, dir: &Path) -> Self {
        let script = "mount \"$0\" \"$1\" && echo mounted && read -r _";
        let mut child = Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-c", script])
            .args([device, dir])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "mounted\n");
        Self(child)
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn loop_a_mount_in_another_namespace_is_found_and_named() {
    let disk = LoopDisk::with_filesystem("ext4", &[]);
    let (nodes, node) = Nodes::of(disk.device());
    let dir = tempfile::tempdir().unwrap();
    let elsewhere = Elsewhere::mount(disk.device(), dir.path());
    assert!(!crate::support::mounts::is_mounted(dir.path()));
    let facts = nodes.facts(&node);
    let claim = judge(&facts, &expected());
    let Claim::MountedElsewhere { mounts } = &claim else { panic!("{facts:?}") };
    assert_eq!(mounts.len(), 1, "{mounts:?}");
    assert_eq!(mounts[0].mount.path, dir.path());
    assert_eq!((mounts[0].process.pid, mounts[0].life), (elsewhere.0.id(), Life::Unknown));
    assert_eq!(mounts[0].process.comm, "sh");
    let who = format!("by sh (pid {})", elsewhere.0.id());
    assert!(claim.text(&facts).unwrap().contains(&who));
}

fn loop_a_dead_mount_is_seen_to_be_dead() {
    use std::os::fd::AsRawFd;
    nix::ioctl_read!(going_down, b'X', 125, u32);
    // A dead ext4 shows it on the newest kernels only.
    let disk = LoopDisk::with_filesystem("xfs", &[]);
    let (nodes, node) = Nodes::of(disk.device());
    mounted(&disk, "xfs", |path| {
        let (root, mut flush_log) = (std::fs::File::open(path).unwrap(), 1);
        // SAFETY: the descriptor is open, and the kernel reads one u32 at the pointer.
        unsafe { going_down(root.as_raw_fd(), &raw mut flush_log) }.unwrap();
        drop(root);
        let Claim::MountedElsewhere { mounts } = nodes.claim(&node) else { panic!() };
        assert_eq!(mounts[0].life, Life::Dead);
    });
}

fn loop_a_btrfs_is_found_by_the_name_it_was_mounted_by() {
    let disk = LoopDisk::with_filesystem("btrfs", &[]);
    let (nodes, node) = Nodes::of(disk.device());
    mounted(&disk, "btrfs", |path| {
        let Claim::MountedElsewhere { mounts } = nodes.claim(&node) else { panic!() };
        assert_eq!(mounts[0].mount.path, path);
        assert_eq!(mounts[0].mount.number.major, 0);
    });
}

fn loop_who_holds_it_open_is_named() {
    let disk = LoopDisk::new(crate::support::disk::MIB);
    let (nodes, node) = Nodes::of(disk.device());
    let file = OpenOptions::new().read(true).custom_flags(O_EXCL).open(disk.device()).unwrap();
    let mut child = Command::new("sleep").arg("600").stdin(file).spawn().unwrap();
    let claim = nodes.claim(&node);
    let (pid, _) = (child.id(), child.kill());
    child.wait().unwrap();
    let Claim::HeldOpen { openers: Some(openers) } = claim else { panic!("{claim:?}") };
    let who = openers.seen.iter().find(|process| process.pid == pid).expect("the child");
    assert_eq!(who.comm, "sleep");
    assert_eq!(nodes.claim(&node).label(), "free");
}

fn loop_a_mount_that_is_detached_and_still_used_shows_in_no_namespace() {
    let disk = LoopDisk::with_filesystem("ext4", &[("file", b"content")]);
    let (nodes, node) = Nodes::of(disk.device());
    let mut file = None;
    mounted(&disk, "ext4", |path| file = Some(std::fs::File::open(path.join("file")).unwrap()));
    assert_eq!(nodes.claim(&node).label(), "held_open");
    drop(file);
}
