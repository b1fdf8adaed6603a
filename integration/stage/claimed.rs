//! Who holds the device decides before anything is read of it.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Child, Command};

use nix::libc::O_EXCL;
use nix::mount::{MntFlags, umount2};

use super::scene::Staged;
use super::sound::debugfs;
use crate::support::disk::{Loop, LoopDisk, path_str, run as tool};
use crate::support::kubelet::Claimed;
use crate::support::plugin::Method;
use crate::support::run;
use crate::support::scene::{OTHER_POD, POD, make_node, wait_for};

pub fn tests() -> Vec<libtest_mimic::Trial> {
    crate::tests![
        loop_who_holds_it_exclusively_is_named_and_refused,
        loop_case_4_a_mount_elsewhere_that_lives_is_said_and_never_checked,
        loop_a_mount_elsewhere_that_is_dead_is_refused,
        loop_a_loop_device_on_top_is_refused_with_its_name,
        loop_a_second_node_of_the_same_number_is_refused,
        loop_a_node_without_a_device_is_waited_for,
        loop_a_read_only_device_is_refused_unless_only_read,
        loop_case_5_a_second_pod_runs_no_check,
        loop_case_6_what_is_staged_is_staged_again_without_a_process,
        loop_a_block_volume_is_not_looked_at,
    ]
}

fn clean() -> Staged {
    Staged::new(LoopDisk::with_filesystem("ext4", &[("a", b"1")]), "ext4", &[])
}

/// A process that is killed when dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A mount that is gone when dropped.
struct Mounted(tempfile::TempDir);

impl Mounted {
    fn of(device: &Path) -> Self {
        let dir = tempfile::tempdir().unwrap();
        tool("mount", &[path_str(device), path_str(dir.path())]);
        Self(dir)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = umount2(self.0.path(), MntFlags::MNT_DETACH);
    }
}

fn loop_who_holds_it_exclusively_is_named_and_refused() {
    let staged = clean();
    let device = staged.scene.disk.device();
    let file = OpenOptions::new().read(true).custom_flags(O_EXCL).open(device).unwrap();
    let holder = Killed(Command::new("sleep").arg("600").stdin(file).spawn().unwrap());
    let who = format!("sleep (pid {})", holder.0.id());
    staged.is_refused_untouched(&["held open exclusively", "stop who has it open", &who]);
    drop(holder);
    staged.stages();
}

/// What it holds is dirty, so it would be checked if nobody had it.
fn loop_case_4_a_mount_elsewhere_that_lives_is_said_and_never_checked() {
    let disk = LoopDisk::with_filesystem("ext4", &[("a", b"1")]);
    debugfs(&disk, "ssv state 0");
    let staged = Staged::new(disk, "ext4", &[]);
    let elsewhere = Mounted::of(staged.scene.disk.device());
    staged.stages();
    let log = staged.guard.log();
    assert!(log.contains("it is mounted elsewhere") && staged.checks() == 0, "{log}");
    assert!(log.contains(path_str(elsewhere.0.path())), "{log}");
}

fn loop_a_mount_elsewhere_that_is_dead_is_refused() {
    let staged = Staged::new(LoopDisk::with_filesystem("xfs", &[]), "xfs", &[]);
    let elsewhere = Mounted::of(staged.scene.disk.device());
    tool("xfs_io", &["-x", "-c", "shutdown", path_str(elsewhere.0.path())]);
    staged.is_refused(&["it is mounted elsewhere: at ", ", dead", "unmount it"]);
    drop(elsewhere);
    // A namespace that another test makes keeps a copy of the mount for a moment.
    wait_for("the device to be free", || is_free(staged.scene.disk.device()));
    staged.stages();
}

fn is_free(device: &Path) -> bool {
    OpenOptions::new().read(true).custom_flags(O_EXCL).open(device).is_ok()
}

fn loop_a_loop_device_on_top_is_refused_with_its_name() {
    let staged = clean();
    let on_top = Loop::over(staged.scene.disk.device());
    let undo = format!("losetup -d {}", path_str(on_top.path()));
    staged.is_refused_untouched(&["a loop device is over it", &undo]);
}

fn loop_a_second_node_of_the_same_number_is_refused() {
    let staged = clean();
    let other = staged.scene.devices().join("pvc-other");
    make_node(staged.scene.disk.device(), &other);
    staged.is_refused_untouched(&[path_str(&other), "is the same device", "attach it again"]);
    std::fs::remove_file(&other).unwrap();
    staged.stages();
}

fn loop_a_node_without_a_device_is_waited_for() {
    use nix::sys::stat::{Mode, SFlag, makedev, mknod};
    let staged = clean();
    let node = staged.scene.node();
    std::fs::remove_file(&node).unwrap();
    // A number of the kernel's range for local use, which no driver has.
    mknod(&node, SFlag::S_IFBLK, Mode::S_IRUSR | Mode::S_IWUSR, makedev(121, 7)).unwrap();
    staged.must_wait(&["(121:7)", "no device behind it", "attached the volume again"]);
}

fn loop_a_read_only_device_is_refused_unless_only_read() {
    let mut staged = clean();
    staged.scene.disk.attachment().set_read_only(true);
    staged.is_refused(&["the kernel takes no writes to it", "blockdev --setrw"]);
    staged.scene.volume.mount_flags = vec!["ro".to_owned()];
    staged.stages();
    assert_eq!((staged.read("a").unwrap(), staged.checks()), (vec![b'1'], 0));
    staged.unstages();
}

fn loop_case_5_a_second_pod_runs_no_check() {
    let staged = clean();
    staged.stages();
    let volume = &staged.scene.volume;
    for pod in [POD, OTHER_POD] {
        run(staged.scene.kubelet.set_up(pod, volume)).unwrap();
    }
    let fscks = staged.scene.plugin.counts().ran("fsck");
    staged.stages();
    assert_eq!((staged.checks(), staged.scene.plugin.counts().ran("fsck")), (0, fscks));
    for pod in [POD, OTHER_POD] {
        run(staged.scene.kubelet.delete_pod(pod, volume)).unwrap();
    }
}

fn loop_case_6_what_is_staged_is_staged_again_without_a_process() {
    let staged = clean();
    staged.stages();
    let fscks = staged.scene.plugin.counts().ran("fsck");
    let volume = &staged.scene.volume;
    run(async {
        let calls = (0..20).map(|_| staged.scene.kubelet.mount_device(volume));
        for result in futures_util::future::join_all(calls).await {
            result.unwrap();
        }
    });
    assert_eq!((staged.checks(), staged.scene.plugin.counts().ran("fsck")), (0, fscks));
    assert!(staged.asked(Method::Stage) >= 2, "the plugin has its say");
    assert_eq!(staged.scene.staged().len(), 1);
}

/// A virtual machine's disk: a partition table is what it should hold.
fn loop_a_block_volume_is_not_looked_at() {
    let mut staged = clean();
    let volume = Claimed::block(&staged.scene.volume.id);
    staged.scene.volume = volume;
    staged.scene.disk.write_at(0, &[0x5a; 4096]);
    let before = staged.scene.disk.hash();
    staged.stage().unwrap();
    assert_eq!((staged.checks(), staged.scene.disk.hash()), (0, before));
    staged.unstages();
}
