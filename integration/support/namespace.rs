//! A mount namespace of the test process's own.

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

/// Moves this process into a new mount namespace from which nothing propagates to the machine.
///
/// Must run while the process has one thread: unshare(2) moves the caller only.
pub fn enter() {
    unshare(CloneFlags::CLONE_NEWNS).expect("the tests need root: unshare(CLONE_NEWNS)");
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(None::<&str>, "/", None::<&str>, private, None::<&str>).expect("make / private");
}

pub fn tests() -> Vec<libtest_mimic::Trial> {
    crate::tests![loop_a_mount_of_a_test_is_not_seen_by_the_machine]
}

fn loop_a_mount_of_a_test_is_not_seen_by_the_machine() {
    let dir = tempfile::tempdir().unwrap();
    mount(None::<&str>, dir.path(), Some("tmpfs"), MsFlags::empty(), None::<&str>).unwrap();
    let path = dir.path().to_str().unwrap();
    let ours = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let machine = std::fs::read_to_string("/proc/1/mountinfo").unwrap();
    nix::mount::umount(dir.path()).unwrap();
    assert!(ours.contains(path));
    assert!(!machine.contains(path));
}
