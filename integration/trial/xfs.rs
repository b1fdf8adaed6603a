//! The kernel replays an xfs log inside a trial, and the device never notices.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use mount_guard::facts::tool::End;
use mount_guard::host::tool::{Cancel, Tool};
use mount_guard::host::trial::{Apply, HeldDevice, Mounting, Replay, ReplayError, Room, Trial};
use mount_guard::volume::FsType;

use super::disks::{Lab, Mount, hash, path, run};
use super::same::begin;
use super::word::apply_of;

pub fn tests() -> Vec<libtest_mimic::Trial> {
    crate::tests![
        loop_a_dirty_xfs_log_is_replayed_in_the_trial_only,
        loop_a_damaged_xfs_is_repaired_in_the_trial,
        loop_what_does_not_mount_is_an_answer,
        loop_a_mount_that_is_called_off_ends,
        loop_a_guard_killed_while_it_mounts_is_gone_at_once,
    ]
}

const DEADLINE: Duration = Duration::from_secs(60);

fn fs(name: &str) -> FsType {
    FsType::parse(name).unwrap()
}

fn make_dirty_xfs(lab: &Lab) {
    let disk = lab.disk();
    std::fs::File::create(&disk).unwrap().set_len(320 << 20).unwrap();
    run("/sbin/mkfs.xfs", &["-q", path(&disk)]);
    let mnt = lab.path("mnt");
    let mounted = Mount::of_image(&disk, "rw", &mnt);
    for name in 0..500 {
        std::fs::write(mnt.join(format!("file{name}")), "content").unwrap();
    }
    run("/usr/sbin/xfs_io", &["-x", "-c", "shutdown -f", path(&mnt)]);
    drop(mounted);
}

fn xfs_repair(trial: &Trial) -> End {
    let tool = Tool::new("/sbin/xfs_repair", DEADLINE).args(["-n", "-f"]).arg(trial.path());
    trial.run(tool, &Cancel::new().unwrap()).unwrap().end
}

fn loop_a_dirty_xfs_log_is_replayed_in_the_trial_only() {
    let lab = Lab::new();
    make_dirty_xfs(&lab);
    let before = hash(&lab.disk());
    for mounting in [Mounting::Detached, Mounting::Private] {
        let trial = begin(&lab, Room::StateDir, mounting);
        // A dirty log reads as damage (M7).
        assert_eq!(xfs_repair(&trial), End::Exited(1));
        let cancel = Cancel::new().unwrap();
        let (trial, replay) = trial.replay(&fs("xfs"), DEADLINE, &cancel).unwrap();
        assert_eq!(replay, Replay::Replayed);
        assert_eq!(xfs_repair(&trial), End::Exited(0));
        let difference = trial.finish().unwrap();
        assert!(difference.changed_bytes() > 0);
        drop(difference);
        assert_eq!(hash(&lab.disk()), before);
    }
    assert_no_loop_is_left(&lab.disk());
}

fn loop_a_damaged_xfs_is_repaired_in_the_trial() {
    let lab = Lab::new();
    make_dirty_xfs(&lab);
    // Clean the log, then break the free space header of the first allocation group.
    drop(Mount::of_image(&lab.disk(), "rw", &lab.path("mnt")));
    let file = std::fs::File::options().write(true).open(lab.disk()).unwrap();
    file.write_all_at(&[0x5a; 128], 512).unwrap();
    let before = hash(&lab.disk());

    let trial = begin(&lab, Room::StateDir, Mounting::Auto);
    assert_eq!(xfs_repair(&trial), End::Exited(1));
    let tool = Tool::new("/sbin/xfs_repair", DEADLINE).arg("-f").arg(trial.path());
    let exit = trial.run(tool, &Cancel::new().unwrap()).unwrap();
    assert_eq!(exit.end, End::Exited(0), "{}", exit.stderr.text());
    assert_eq!(xfs_repair(&trial), End::Exited(0));
    assert_eq!(hash(&lab.disk()), before);
    let apply = Apply { last: vec![0], ..apply_of(None, false) };
    trial.finish().unwrap().apply(&apply, &mut |_| {}).unwrap();
    run("/sbin/xfs_repair", &["-n", "-f", path(&lab.disk())]);
}

fn loop_what_does_not_mount_is_an_answer() {
    let lab = Lab::with_ext4();
    let trial = begin(&lab, Room::StateDir, Mounting::Auto);
    let cancel = Cancel::new().unwrap();
    let (trial, replay) = trial.replay(&fs("xfs"), DEADLINE, &cancel).unwrap();
    assert!(matches!(replay, Replay::Refused { .. }), "{replay:?}");
    let (trial, replay) = trial.replay(&fs("ext4"), DEADLINE, &cancel).unwrap();
    assert_eq!(replay, Replay::Replayed);
    assert!(!trial.finish().unwrap().is_empty());
}

fn loop_a_mount_that_is_called_off_ends() {
    let lab = Lab::new();
    make_dirty_xfs(&lab);
    let before = hash(&lab.disk());
    let trial = begin(&lab, Room::StateDir, Mounting::Auto);
    let late = trial.replay(&fs("xfs"), Duration::ZERO, &Cancel::new().unwrap());
    // It may have been quick enough.
    assert!(matches!(late, Ok(_) | Err(ReplayError::Deadline)), "{late:?}");
    drop(late);
    assert_eq!(hash(&lab.disk()), before);
    // Nothing holds the image any more, or will not for long.
    wait_until_free(&lab);
}

/// A thread that waits for its own process's FUSE must not keep that process from dying.
fn loop_a_guard_killed_while_it_mounts_is_gone_at_once() {
    let lab = Lab::new();
    make_dirty_xfs(&lab);
    let before = hash(&lab.disk());
    for delay_millis in (0..200).step_by(10) {
        let mut guard = super::redo::word(&lab, &["replay", "discard", "--", "-n"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(delay_millis));
        let _ = guard.kill();
        let begun = Instant::now();
        guard.wait().unwrap();
        assert!(begun.elapsed() < Duration::from_secs(5), "after {delay_millis} ms");
        wait_until_free(&lab);
    }
    assert_eq!(hash(&lab.disk()), before);
    assert_no_loop_is_left(&lab.disk());
}

fn wait_until_free(lab: &Lab) {
    let begun = Instant::now();
    while HeldDevice::hold(&lab.disk()).is_err() {
        assert!(begun.elapsed() < DEADLINE);
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn assert_no_loop_is_left(disk: &Path) {
    let list = run("/sbin/losetup", &["-a"]);
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    assert!(!list.contains(path(disk)), "{list}");
}
