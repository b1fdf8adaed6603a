//! The plugin's word is not taken for a mount, and what it leaves behind is seen.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::libc::O_EXCL;
use nix::mount::{MsFlags, mount};
use tonic::{Code, Status};

use super::scene::Staged;
use crate::support::disk::LoopDisk;
use crate::support::plugin::{Act, Habits, Method, Volume};
use crate::support::scene::VOLUME;

pub fn tests() -> Vec<libtest_mimic::Trial> {
    crate::tests![
        loop_case_34_an_ok_without_a_mount_is_undone,
        loop_a_mount_is_found_in_a_long_table,
        loop_an_ok_with_another_device_is_undone,
        loop_an_ok_with_a_read_only_mount_is_undone,
        loop_a_mount_that_is_older_than_the_call_stays,
        loop_a_final_failure_leaves_no_mount,
        loop_case_37_a_shared_volume_is_left_to_its_share_manager,
        loop_what_pins_an_unstaged_volume_is_named,
        loop_an_unstage_is_not_held_up_by_a_process_that_stays,
        loop_an_unstage_waits_for_a_process_that_ends,
        loop_a_volume_is_free_once_it_is_unstaged,
    ]
}

fn clean() -> Staged {
    Staged::new(LoopDisk::with_filesystem("ext4", &[("a", b"1")]), "ext4", &[])
}

/// With this habit the plugin's OK is not believed, and undone by its own Unstage.
#[track_caller]
fn is_undone(staged: &Staged, habit: impl FnOnce(&mut Habits), words: &[&str]) {
    staged.scene.plugin.change_habits(habit);
    let status = staged.stage().expect_err("the proof fails");
    let text = status.message();
    assert_eq!(status.code(), Code::Aborted, "{text}\n{}", staged.guard.log());
    assert!(text.len() < 900 && text.is_ascii(), "{text}");
    for word in words.iter().chain(&[VOLUME, "longhorn-csi-plugin said OK", "that was undone"]) {
        assert!(text.contains(word), "{word:?} is not in: {text}");
    }
    assert_eq!((staged.asked(Method::Stage), staged.asked(Method::Unstage)), (1, 1));
    assert!(staged.scene.staged().is_empty());
    // It is tried again by itself, and a plugin that does its work is believed.
    staged.scene.plugin.change_habits(|habits| *habits = Habits::default());
    staged.stages();
}

fn loop_case_34_an_ok_without_a_mount_is_undone() {
    let staged = clean();
    is_undone(
        &staged,
        |habits| habits.says_ok_without_mounting = true,
        &["is not mounted: nothing is at"],
    );
}

/// The kernel hands out a mount table a page at a time, and a node has hundreds of mounts.
fn loop_a_mount_is_found_in_a_long_table() {
    let staged = clean();
    let many: Vec<_> = (0..100).map(|_| Bound::new(staged.scene.dir())).collect();
    staged.stages();
    staged.unstages();
    drop(many);
}

/// A directory mounted somewhere else, until dropped.
struct Bound(tempfile::TempDir);

impl Bound {
    fn new(of: &Path) -> Self {
        let at = tempfile::tempdir().unwrap();
        mount(Some(of), at.path(), None::<&str>, MsFlags::MS_BIND, None::<&str>).unwrap();
        Self(at)
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        let _ = nix::mount::umount2(self.0.path(), nix::mount::MntFlags::MNT_DETACH);
    }
}

fn loop_an_ok_with_another_device_is_undone() {
    let staged = clean();
    let other = LoopDisk::with_filesystem("ext4", &[]);
    let number = staged.scene.disk.attachment().number();
    let words = [number.as_str(), "is not mounted: ", &other.attachment().number()];
    let device = other.device().to_owned();
    is_undone(&staged, |habits| habits.stages_another_device = Some(device), &words);
}

fn loop_an_ok_with_a_read_only_mount_is_undone() {
    let staged = clean();
    let number = staged.scene.disk.attachment().number();
    let words = ["takes no writes", number.as_str()];
    is_undone(&staged, |habits| habits.stages_read_only = true, &words);
}

/// Pods may be on it.
fn loop_a_mount_that_is_older_than_the_call_stays() {
    let staged = clean();
    staged.stages();
    let flags = MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
    mount(None::<&str>, &staged.scene.staging(), None::<&str>, flags, None::<&str>).unwrap();
    staged.scene.plugin.change_habits(|habits| habits.write_test_in_ensure_mount_point = false);
    let status = staged.stage().expect_err("it takes no writes");
    assert_eq!(status.code(), Code::Aborted, "{status:?}");
    for words in ["takes no writes", "older than this call and stays", "delete the pods"] {
        assert!(status.message().contains(words), "{status:?}");
    }
    assert_eq!((staged.scene.staged().len(), staged.asked(Method::Unstage)), (1, 0));
}

fn loop_a_final_failure_leaves_no_mount() {
    let staged = clean();
    let act = Act::work_then_fail(Status::internal("the resize failed"));
    staged.scene.plugin.script().once(Method::Stage, None, act);
    let status = staged.stage().expect_err("the plugin failed");
    assert_eq!((status.code(), status.message()), (Code::Internal, "the resize failed"));
    assert!(staged.scene.staged().is_empty(), "kubelet has forgotten it");
    assert!(staged.scene.kubelet.would_leak().is_empty());
    assert_eq!(staged.asked(Method::Unstage), 1);
    let log = staged.guard.log();
    assert!(log.contains("a failed call had left a mount"), "{log}");
    staged.stages();
}

/// Its device is not looked at: this one is damaged and held, and nobody minds.
fn loop_case_37_a_shared_volume_is_left_to_its_share_manager() {
    let disk = LoopDisk::with_filesystem("ext4", &[]);
    disk.zero(1024, 1024);
    let mut staged = Staged::new(disk, "ext4", &[]);
    let shared = Volume::shared(staged.scene.disk.device(), "nfs://share/export");
    staged.scene.plugin.manager().add(VOLUME, shared);
    staged.scene.volume.access =
        mount_guard::csi::volume_capability::access_mode::Mode::MultiNodeMultiWriter;
    let device = staged.scene.disk.device();
    let held = OpenOptions::new().read(true).custom_flags(O_EXCL).open(device).unwrap();
    staged.stages();
    drop(held);
    let log = staged.guard.log();
    assert!(log.contains("shared volume: checked by its share-manager, not here"), "{log}");
    assert!(!log.contains("device examined") && staged.checks() == 0, "{log}");
    staged.unstages();
}

fn loop_what_pins_an_unstaged_volume_is_named() {
    let staged = clean();
    staged.stages();
    let elsewhere = Bound::new(&staged.scene.staging());
    staged.unstages();
    let log = staged.guard.log();
    assert!(log.contains("unstaged, and still in use"), "{log}");
    assert!(log.contains(elsewhere.0.path().to_str().unwrap()), "{log}");
}

/// A file that a process keeps open keeps the filesystem, and shows in no mount table.
fn loop_an_unstage_is_not_held_up_by_a_process_that_stays() {
    let staged = clean();
    staged.stages();
    let file = File::open(staged.scene.staging().join("a")).unwrap();
    staged.unstages();
    let log = staged.guard.log();
    drop(file);
    assert!(log.contains("unstaged, and still in use"), "{log}");
    assert!(log.contains("it is held open exclusively"), "{log}");
}

/// The plugin unmounts lazily what is busy, and says OK.
fn loop_an_unstage_waits_for_a_process_that_ends() {
    let staged = clean();
    staged.stages();
    let file = File::open(staged.scene.staging().join("a")).unwrap();
    // The descriptor is its standard input alone: nobody else keeps the filesystem.
    let mut child = std::process::Command::new("sleep").arg("1").stdin(file).spawn().unwrap();
    staged.unstages();
    let device = staged.scene.disk.device();
    let free = OpenOptions::new().read(true).custom_flags(O_EXCL).open(device);
    assert!(free.is_ok(), "{free:?}\n{}", staged.guard.log());
    child.wait().unwrap();
    assert!(!staged.guard.log().contains("still in use"), "{}", staged.guard.log());
}

/// What a pod wrote last is on the device, and the device is nobody's.
fn loop_a_volume_is_free_once_it_is_unstaged() {
    let staged = clean();
    for round in 0..3_u8 {
        staged.stages();
        if round > 0 {
            assert_eq!(staged.read("late").unwrap(), vec![round - 1; 3 << 20]);
        }
        std::fs::write(staged.scene.staging().join("late"), vec![round; 3 << 20]).unwrap();
        staged.unstages();
        assert_eq!(staged.checks(), 0, "{}", staged.guard.log());
    }
}
