//! What is sound, or can be made so, is handed on.

use std::path::Path;

use super::scene::Staged;
use crate::support::disk::{LoopDisk, path_str, run};
use crate::support::plugin::Method;

pub fn tests() -> Vec<libtest_mimic::Trial> {
    crate::tests![
        loop_a_new_volume_is_formatted_once_and_remembered,
        loop_a_clean_volume_is_staged_without_any_process,
        loop_a_dirty_journal_needs_nobody,
        loop_what_preen_mends_is_mended_and_staged,
        loop_a_repair_is_applied_where_it_is_allowed,
    ]
}

fn loop_a_new_volume_is_formatted_once_and_remembered() {
    for fs_type in ["ext4", "xfs"] {
        let bytes = crate::support::disk::smallest_bytes(fs_type);
        let staged = Staged::new(LoopDisk::new(bytes), fs_type, &[]);
        staged.stages();
        std::fs::write(staged.scene.staging().join("data"), "of the pod").unwrap();
        staged.unstages();
        staged.stages();
        assert_eq!(staged.read("data").unwrap(), b"of the pod");
        staged.unstages();
        // The volume is known now: blank, it is not formatted again.
        staged.scene.disk.zero(0, bytes as usize);
        staged.is_refused_untouched(&["reads as zeros", fs_type, "mount-guard forget"]);
    }
}

fn loop_a_clean_volume_is_staged_without_any_process() {
    for fs_type in ["ext4", "xfs"] {
        let disk = LoopDisk::with_filesystem(fs_type, &[("a", b"b")]);
        let staged = Staged::new(disk, fs_type, &[]);
        staged.stages();
        assert!(!staged.guard.log().contains("check step"), "{}", staged.guard.log());
        assert_eq!(staged.asked(Method::Stage), 1);
    }
}

/// 11: a power cut leaves a journal to replay, and nobody is woken for it.
fn loop_a_dirty_journal_needs_nobody() {
    let disk = LoopDisk::with_filesystem("ext4", &[]);
    leave_dirty(&disk);
    let staged = Staged::new(disk, "ext4", &[]);
    staged.stages();
    assert_eq!(staged.read("late").unwrap(), b"in the journal");
    let log = staged.guard.log();
    assert!(log.contains("check applied"), "{log}");
}

fn loop_what_preen_mends_is_mended_and_staged() {
    let disk = LoopDisk::with_filesystem("ext4", &[("a", b"1"), ("b", b"2")]);
    debugfs(&disk, "sif /a links_count 9");
    debugfs(&disk, "ssv state 0");
    let staged = Staged::new(disk, "ext4", &[]);
    staged.stages();
    assert_eq!(staged.read("b").unwrap(), b"2");
    assert!(staged.guard.log().contains("was repaired"), "{}", staged.guard.log());
}

fn loop_a_repair_is_applied_where_it_is_allowed() {
    let disk = LoopDisk::with_filesystem("ext4", &[("a", b"1"), ("b", b"2")]);
    zero_group_descriptors(&disk);
    let staged = Staged::new(disk, "ext4", &["--fsck", "repair"]);
    staged.stages();
    assert_eq!((staged.read("a").unwrap(), staged.read("b").unwrap()), (vec![b'1'], vec![b'2']));
    staged.unstages();
    run("e2fsck", &["-fn", path_str(staged.scene.disk.device())]);
}

/// As a power cut leaves it: written, in the journal, and not in its place.
pub fn leave_dirty(disk: &LoopDisk) {
    disk.mounted(|root: &Path| {
        let mut late = std::fs::File::create(root.join("late")).unwrap();
        std::io::Write::write_all(&mut late, b"in the journal").unwrap();
        late.sync_all().unwrap();
        run("xfs_io", &["-x", "-c", "shutdown -f", path_str(root)]);
    });
}

pub fn debugfs(disk: &LoopDisk, command: &str) {
    run("debugfs", &["-w", "-R", command, path_str(disk.device())]);
    disk.attachment().forget_cache();
}

/// M9 of the cases: nothing but a repair from the backup descriptors saves the files.
pub fn zero_group_descriptors(disk: &LoopDisk) {
    let at = if disk.read_at(1024 + 0x18, 4) == [0; 4] { 2048 } else { 4096 };
    disk.zero(at, 1024);
}
