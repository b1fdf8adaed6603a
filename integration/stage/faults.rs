//! A device that fails, lies or hangs is never formatted, and keeps nobody else waiting.

use std::time::{Duration, Instant};

use nix::libc::{EIO, ENODATA};
use tonic::Code;

use super::scene::{SETTLE, Staged};
use super::sound::debugfs;
use crate::support::disk::{LoopDisk, MIB};
use crate::support::fault::{Direction, Fault, FaultDisk};
use crate::support::plugin::Method;
use crate::support::run;
use crate::support::scene::Scene;

pub fn tests() -> Vec<libtest_mimic::Trial> {
    crate::tests![
        loop_case_25_a_device_that_cannot_be_read_is_never_formatted,
        loop_case_26_reads_that_fail_while_writes_land_format_nothing,
        loop_case_26_a_new_volume_that_cannot_be_read_is_not_formatted,
        loop_case_28_zeros_of_a_known_volume_are_refused_and_pass,
        loop_case_28_zeros_that_pass_while_it_is_watched_are_no_blank,
        loop_a_short_read_formats_nothing,
        loop_a_device_that_fails_under_its_check_is_waited_for,
        loop_writes_that_vanish_are_not_proven,
        loop_case_10_a_device_that_hangs_keeps_nobody_else_waiting,
    ]
}

const ALL: std::ops::Range<u64> = 0..u64::MAX;

/// A volume on a disk that fails on command.
struct Faulty {
    staged: Staged,
    fault: FaultDisk,
}

impl Faulty {
    fn new(disk: LoopDisk, settle: &str) -> Self {
        let fault = FaultDisk::over(disk.image());
        let scene = Scene::with_device(disk, fault.device(), "ext4");
        Self { staged: Staged::in_scene(scene, &["--format-settle", settle]), fault }
    }

    /// With a filesystem that holds the file `a`.
    fn holding_a_file() -> Self {
        Self::new(LoopDisk::with_filesystem("ext4", &[("a", b"1")]), SETTLE)
    }

    #[track_caller]
    fn is_whole(&self) {
        self.fault.heal();
        self.staged.stages();
        assert_eq!(self.staged.read("a").unwrap(), b"1");
        assert_eq!(self.mkfs(), 0);
        self.staged.unstages();
    }

    fn mkfs(&self) -> usize {
        self.staged.scene.plugin.counts().ran("mkfs")
    }
}

impl Drop for Faulty {
    /// A process that waits for a frozen disk cannot be ended.
    fn drop(&mut self) {
        self.fault.heal();
    }
}

fn loop_case_25_a_device_that_cannot_be_read_is_never_formatted() {
    for errno in [EIO, ENODATA] {
        let it = Faulty::holding_a_file();
        it.fault.fail(ALL, Direction::Both, Fault::Errno(errno));
        it.staged.must_wait(&["cannot be read at byte 0", "wait until the Longhorn engine"]);
        assert_eq!((it.fault.writes(), it.mkfs()), (0, 0));
        it.is_whole();
    }
}

fn loop_case_26_reads_that_fail_while_writes_land_format_nothing() {
    let it = Faulty::holding_a_file();
    it.fault.fail(ALL, Direction::Read, Fault::Errno(EIO));
    for _ in 0..3 {
        it.staged.must_wait(&["cannot be read"]);
    }
    assert_eq!((it.fault.writes(), it.mkfs()), (0, 0));
    it.is_whole();
}

fn loop_case_26_a_new_volume_that_cannot_be_read_is_not_formatted() {
    let it = Faulty::new(LoopDisk::new(32 * MIB), SETTLE);
    it.fault.fail(ALL, Direction::Read, Fault::Errno(EIO));
    it.staged.must_wait(&["a device that cannot be read is never formatted"]);
    // One place that fails is enough: what is there is not known.
    it.fault.heal();
    it.fault.fail(20 * MIB..21 * MIB, Direction::Read, Fault::Errno(EIO));
    it.staged.must_wait(&["cannot be read at byte"]);
    assert_eq!((it.fault.writes(), it.mkfs()), (0, 0));
    it.fault.heal();
    it.staged.stages();
    assert_eq!(it.mkfs(), 1);
}

fn loop_case_28_zeros_of_a_known_volume_are_refused_and_pass() {
    let it = Faulty::holding_a_file();
    it.staged.stages();
    it.staged.unstages();
    it.fault.fail(ALL, Direction::Read, Fault::Zeros);
    it.staged.is_refused(&["reads as zeros", "but held ext4", "mount-guard forget pvc-"]);
    it.is_whole();
}

fn loop_case_28_zeros_that_pass_while_it_is_watched_are_no_blank() {
    let it = Faulty::new(LoopDisk::with_filesystem("ext4", &[("a", b"1")]), "5s");
    it.fault.fail_for(Duration::from_secs(3), ALL, Direction::Read, Fault::Zeros);
    let took = it.staged.stages();
    assert!(took >= Duration::from_secs(5), "it was not watched: {took:?}");
    assert_eq!(it.staged.read("a").unwrap(), b"1");
    assert_eq!(it.mkfs(), 0);
}

fn loop_a_short_read_formats_nothing() {
    let it = Faulty::holding_a_file();
    it.fault.fail(ALL, Direction::Read, Fault::Short);
    it.staged.must_wait(&["cannot be read"]);
    assert_eq!((it.fault.writes(), it.mkfs()), (0, 0));
    it.is_whole();
}

/// Its superblock reads well, so it is checked, and the rest does not.
fn loop_a_device_that_fails_under_its_check_is_waited_for() {
    let disk = LoopDisk::with_filesystem("ext4", &[("a", b"1")]);
    debugfs(&disk, "ssv state 0");
    let it = Faulty::new(disk, SETTLE);
    it.fault.fail(64 * 1024..u64::MAX, Direction::Read, Fault::Errno(EIO));
    let before = it.staged.scene.disk.hash();
    it.staged.must_wait(&["could not be read while it was checked", "Longhorn engine"]);
    assert_eq!(it.staged.scene.disk.hash(), before);
    assert_eq!(it.fault.writes(), 0);
    it.is_whole();
}

/// What the plugin mounted takes writes as it seems; that they are there is not ours to prove. A
/// write that fails is.
fn loop_writes_that_vanish_are_not_proven() {
    let it = Faulty::holding_a_file();
    it.fault.fail(ALL, Direction::Write, Fault::Errno(EIO));
    let status = it.staged.stage().expect_err("no write lands");
    assert!(matches!(status.code(), Code::Aborted | Code::Internal), "{status:?}");
    assert!(it.staged.scene.staged().is_empty(), "{}", it.staged.guard.log());
}

fn loop_case_10_a_device_that_hangs_keeps_nobody_else_waiting() {
    let it = Faulty::holding_a_file();
    let other = LoopDisk::with_filesystem("ext4", &[]);
    let other_volume = it.staged.add("pvc-other", &other, "ext4");
    it.fault.freeze();
    let hasty = it.staged.kubelet(10);
    std::thread::scope(|scope| {
        let begun = Instant::now();
        let hung = scope.spawn(|| run(hasty.mount_device(&it.staged.scene.volume)));
        run(it.staged.scene.kubelet.mount_device(&other_volume)).unwrap();
        let status = hung.join().unwrap().unwrap_err();
        assert!(begun.elapsed() < Duration::from_secs(10), "after kubelet's deadline");
        assert!(matches!(status.code(), Code::Aborted | Code::Unavailable), "{status:?}");
        assert!(status.message().starts_with("mount-guard: "), "{status:?}");
    });
    assert_eq!(it.staged.asked(Method::Stage), 1, "the hung one never came to the plugin");
    it.fault.heal();
    it.staged.scene.plugin.counts().clear();
    run(it.staged.scene.kubelet.start_pod(crate::support::scene::POD, &it.staged.scene.volume, 6))
        .unwrap();
    assert_eq!(it.mkfs(), 0);
}
