//! What each kind of filesystem is to be spared.

use std::path::Path;

use tonic::{Code, Status};

use super::scene::Staged;
use super::sound::{debugfs, leave_dirty};
use crate::support::disk::{LoopDisk, MIB, path_str, run as tool};
use crate::support::plugin::{Act, Method};
use crate::support::run;
use crate::support::scene::wait_for;

pub fn tests() -> Vec<libtest_mimic::Trial> {
    crate::tests![
        loop_case_12_an_xfs_with_a_dirty_log_is_mounted_and_never_repaired,
        loop_case_14_a_clone_is_mounted_beside_its_source_without_a_repair,
        loop_case_14_a_mount_that_failed_beside_its_twin_is_explained,
        loop_case_16_an_xfs_newer_than_the_kernel_is_said_to_be,
        loop_case_16_features_that_e2fsck_does_not_know_are_no_damage,
        loop_case_24_a_superblock_with_a_wrong_checksum_is_refused_and_repaired,
        loop_case_24_a_device_smaller_than_its_filesystem_is_never_preened,
        loop_case_33_what_is_only_read_is_not_checked,
        loop_an_xfs_that_fails_to_mount_is_looked_at_afterwards,
    ]
}

fn loop_case_12_an_xfs_with_a_dirty_log_is_mounted_and_never_repaired() {
    let disk = LoopDisk::with_filesystem("xfs", &[]);
    leave_dirty(&disk);
    let staged = Staged::new(disk, "xfs", &["--fsck", "repair"]);
    staged.stages();
    assert_eq!(staged.read("late").unwrap(), b"in the journal");
    assert_eq!(staged.checks(), 0);
}

/// The plugin mounts with `nouuid`; that is all it takes.
fn loop_case_14_a_clone_is_mounted_beside_its_source_without_a_repair() {
    let source = LoopDisk::with_filesystem("xfs", &[("a", b"1")]);
    let clone = LoopDisk::new(320 * MIB);
    tool("cp", &["--sparse=always", path_str(source.image()), path_str(clone.image())]);
    clone.attachment().forget_cache();
    let staged = Staged::new(source, "xfs", &[]);
    let volume = staged.add("pvc-clone", &clone, "xfs");
    staged.stages();
    run(staged.scene.kubelet.mount_device(&volume)).unwrap();
    assert_eq!(staged.checks(), 0);
}

/// A plugin that forgets `nouuid` is told "wrong fs type, bad option".
fn loop_case_14_a_mount_that_failed_beside_its_twin_is_explained() {
    let source = LoopDisk::with_filesystem("xfs", &[("a", b"1")]);
    let clone = LoopDisk::new(320 * MIB);
    tool("cp", &["--sparse=always", path_str(source.image()), path_str(clone.image())]);
    clone.attachment().forget_cache();
    let staged = Staged::new(clone, "xfs", &["--fsck", "repair"]);
    let failure = Act::fail(Status::internal("wrong fs type, bad option, bad superblock"));
    staged.scene.plugin.script().once(Method::Stage, None, failure);
    let source_device = source.device().to_owned();
    source.mounted(|_| staged.stage().unwrap_err());
    let log = staged.guard.log();
    assert!(log.contains("is mounted on this node already, from"), "{log}");
    assert!(log.contains(path_str(&source_device)), "{log}");
    assert_eq!(staged.checks(), 0);
    staged.stages();
}

/// The plugin's failure is passed on as it is, and the log says what it means.
fn loop_case_16_an_xfs_newer_than_the_kernel_is_said_to_be() {
    let disk = LoopDisk::with_filesystem("xfs", &[]);
    let write = "write -d features_ro_compat 0x80000005";
    tool("xfs_db", &["-x", "-c", "sb 0", "-c", write, path_str(disk.image())]);
    disk.attachment().forget_cache();
    let staged = Staged::new(disk, "xfs", &[]);
    let before = staged.scene.disk.hash();
    let status = staged.stage().unwrap_err();
    assert_eq!(status.code(), Code::Internal, "{status:?}");
    assert!(!status.message().starts_with("mount-guard"), "{status:?}");
    let log = staged.guard.log();
    assert!(log.contains("features this kernel does not know"), "{log}");
    assert!(log.contains("use a node with a newer kernel"), "{log}");
    assert_eq!((staged.checks(), staged.scene.disk.hash()), (0, before));
}

fn loop_case_16_features_that_e2fsck_does_not_know_are_no_damage() {
    // M10 and M11 of the cases: e2fsck ends with 12 and 8, and neither is damage.
    for feature in ["FEATURE_C31", "FEATURE_R31"] {
        let disk = LoopDisk::with_filesystem("ext4", &[]);
        debugfs(&disk, "ssv state 0");
        debugfs(&disk, &format!("feature {feature}"));
        let staged = Staged::new(disk, "ext4", &["--fsck", "repair"]);
        staged.is_forwarded_untouched();
        let log = staged.guard.log();
        assert!(log.contains("too old") && log.contains(feature), "{log}");
    }
}

fn loop_case_24_a_superblock_with_a_wrong_checksum_is_refused_and_repaired() {
    let disk = LoopDisk::with_filesystem("ext4", &[("a", b"1")]);
    disk.write_at(1024 + 0x3fc, &[1, 2, 3, 4]);
    let mut staged = Staged::new(disk, "ext4", &[]);
    staged.is_refused_untouched(&["superblock is damaged", "a copy lies at byte", "repair"]);
    staged.set_fsck("repair");
    staged.stages();
    assert_eq!(staged.read("a").unwrap(), b"1");
}

fn loop_case_24_a_device_smaller_than_its_filesystem_is_never_preened() {
    let whole = LoopDisk::with_filesystem("ext4", &[]);
    debugfs(&whole, "ssv state 0");
    let cut = LoopDisk::new(24 * MIB);
    let script = format!("head -c {} {}", 24 * MIB, path_str(whole.image()));
    tool("sh", &["-c", &format!("{script} > {}", path_str(cut.image()))]);
    cut.attachment().forget_cache();
    for mode in ["preen", "repair"] {
        let cut = {
            let again = LoopDisk::new(24 * MIB);
            tool("cp", &[path_str(cut.image()), path_str(again.image())]);
            again.attachment().forget_cache();
            again
        };
        let staged = Staged::new(cut, "ext4", &["--fsck", mode]);
        staged.is_refused_untouched(&[
            "smaller than its filesystem",
            "expand the volume to 33554432",
        ]);
        assert_eq!(staged.checks(), 0);
    }
}

fn loop_case_33_what_is_only_read_is_not_checked() {
    let disk = LoopDisk::with_filesystem("ext4", &[]);
    leave_dirty(&disk);
    let mut staged = Staged::new(disk, "ext4", &["--fsck", "repair"]);
    staged.scene.volume.mount_flags = vec!["ro".to_owned()];
    staged.is_forwarded_untouched();
    assert_eq!(staged.checks(), 0);
    // The kernel's own replay is another matter (facts: a read-only mount writes it).
    staged.stages();
    assert_eq!(staged.checks(), 0);
}

/// The mount fails over a damaged root inode; a trial tells that from the rest.
fn loop_an_xfs_that_fails_to_mount_is_looked_at_afterwards() {
    let disk = LoopDisk::with_filesystem("xfs", &[("a", b"1")]);
    damage_root(disk.image());
    disk.attachment().forget_cache();
    let staged = Staged::new(disk, "xfs", &[]);
    let status = staged.stage().unwrap_err();
    assert_eq!(status.code(), Code::Internal, "{status:?}");
    wait_for("the look afterwards", || {
        staged.guard.log().contains("looked at after a failed mount")
    });
    let log = staged.guard.log();
    assert!(log.contains("xfs_repair found") && staged.checks() > 0, "{log}");
    let looks = staged.checks();
    staged.stage().unwrap_err();
    assert_eq!(staged.checks(), looks, "once in a while is enough");
    assert_eq!(staged.asked(Method::Stage), 2);
}

fn damage_root(image: &Path) {
    let words = ["-x", "-c", "inode 128", "-c", "write -c core.magic 0", path_str(image)];
    tool("xfs_db", &words);
}
