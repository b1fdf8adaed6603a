//! How far a check may go: flags, the volume's own wish, and the operator's.

use super::scene::Staged;
use super::sound::{debugfs, zero_group_descriptors};
use crate::support::disk::LoopDisk;
use crate::support::plugin::Method;
use crate::support::scene::VOLUME;

pub fn tests() -> Vec<libtest_mimic::Trial> {
    crate::tests![
        loop_fsck_off_checks_nothing,
        loop_fsck_check_writes_nothing,
        loop_case_2_preen_refuses_what_repair_mends,
        loop_case_3_a_volumes_own_wish_goes_before_the_flag,
        loop_case_8_a_volume_may_be_spared,
        loop_a_wish_that_is_none_is_the_flags,
        loop_dry_run_refuses_nothing_and_writes_nothing,
        loop_case_38_a_recheck_is_done_once,
    ]
}

/// Only a repair saves it.
fn damaged() -> LoopDisk {
    let disk = LoopDisk::with_filesystem("ext4", &[("a", b"1")]);
    debugfs(&disk, "ssv state 0");
    zero_group_descriptors(&disk);
    disk
}

/// What a boot mends by itself.
fn flawed() -> LoopDisk {
    let disk = LoopDisk::with_filesystem("ext4", &[("a", b"1")]);
    debugfs(&disk, "sif /a links_count 9");
    debugfs(&disk, "ssv state 0");
    disk
}

fn loop_fsck_off_checks_nothing() {
    let staged = Staged::new(damaged(), "ext4", &["--fsck", "off"]);
    staged.is_forwarded_untouched();
    assert_eq!(staged.checks(), 0);
}

fn loop_fsck_check_writes_nothing() {
    let staged = Staged::new(flawed(), "ext4", &["--fsck", "check"]);
    staged.is_forwarded_untouched();
    let log = staged.guard.log();
    assert!(log.contains("a check would mend it"), "{log}");
    let staged = Staged::new(damaged(), "ext4", &["--fsck", "check"]);
    staged.is_refused_untouched(&["its filesystem is damaged", "e2fsck"]);
}

/// And what a repair replaced is kept, and named.
fn loop_case_2_preen_refuses_what_repair_mends() {
    let staged = Staged::new(damaged(), "ext4", &["--fsck", "preen"]);
    staged.is_refused_untouched(&["damaged", " --repair` in the guard's container"]);
    let Staged { guard, scene } = staged;
    drop(guard);
    let staged = Staged::in_scene(scene, &["--fsck", "repair"]);
    staged.stages();
    assert_eq!(staged.read("a").unwrap(), b"1");
    let log = staged.guard.log();
    assert!(log.contains("was repaired") && log.contains("mount-guard undo "), "{log}");
}

fn loop_case_3_a_volumes_own_wish_goes_before_the_flag() {
    let mut staged = Staged::new(damaged(), "ext4", &[]);
    staged.is_refused_untouched(&["damaged"]);
    staged.set_fsck("repair");
    staged.stages();
    assert_eq!(staged.read("a").unwrap(), b"1");
    let log = staged.guard.log();
    assert!(log.contains("Exited("), "the exit code is on record: {log}");
}

fn loop_case_8_a_volume_may_be_spared() {
    let mut staged = Staged::new(damaged(), "ext4", &["--fsck", "repair"]);
    staged.set_fsck("off");
    staged.is_forwarded_untouched();
    assert_eq!(staged.checks(), 0);
}

fn loop_a_wish_that_is_none_is_the_flags() {
    let mut staged = Staged::new(damaged(), "ext4", &[]);
    staged.set_fsck("yes, please");
    staged.is_refused_untouched(&["damaged"]);
    let log = staged.guard.log();
    assert!(log.contains("mount-guard/fsck is none of off, check, preen, repair"), "{log}");
    assert!(!log.contains("yes, please"), "{log}");
}

fn loop_dry_run_refuses_nothing_and_writes_nothing() {
    let lost = LoopDisk::with_filesystem("ext4", &[]);
    lost.zero(1024, 1024);
    let unknown = LoopDisk::new(32 << 20);
    unknown.write_at(9 << 20, &[0xa5; 1 << 20]);
    let other = LoopDisk::with_filesystem("xfs", &[]);
    for (disk, words) in [
        (damaged(), "its filesystem is damaged"),
        (flawed(), "a check would mend it"),
        (lost, "superblock is gone"),
        (unknown, "unknown content"),
        (other, "ext4 was asked for"),
    ] {
        let staged = Staged::new(disk, "ext4", &["--dry-run"]);
        staged.is_forwarded_untouched();
        let log = staged.guard.log();
        assert!(log.contains(words), "{words}: {log}");
        assert!(!log.contains("check applied"), "{log}");
    }
}

fn loop_case_38_a_recheck_is_done_once() {
    let staged = Staged::new(LoopDisk::with_filesystem("ext4", &[]), "ext4", &[]);
    staged.stages();
    staged.unstages();
    assert_eq!(staged.checks(), 0);
    staged.by_hand(&["recheck", VOLUME], 0);
    for _ in 0..2 {
        staged.stages();
        staged.unstages();
        assert_eq!(staged.checks(), 1, "{}", staged.guard.log());
    }
    assert!(staged.guard.log().contains(r#"[\"-f\", \"-p\"]"#), "{}", staged.guard.log());
    assert_eq!(staged.asked(Method::Stage), 3);
}
