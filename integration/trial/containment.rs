//! Whatever happens during a trial, the device is what it was.

use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use mount_guard::facts::tool::{End, Why};
use mount_guard::host::tool::{Cancel, Tool};
use mount_guard::host::trial::{
    Apply, ApplyError, FinishError, HeldDevice, HoldError, Mounting, Quota, Room, RunError, Step,
    Trial, Trials, Trouble,
};

use super::disks::{Lab, Loop, Mount, PLANTED, damage_some, hash, path};
use super::same::begin;
use super::word::{apply_of, hold, mark, trials, volume};

pub fn tests() -> Vec<libtest_mimic::Trial> {
    crate::tests![
        loop_a_killed_checker_changes_nothing,
        loop_a_killed_guard_changes_nothing_before_the_apply,
        loop_a_full_store_ends_the_trial,
        loop_a_full_spill_file_ends_the_trial,
        loop_a_store_in_memory_has_a_limit,
        loop_a_write_beyond_the_end_ends_the_trial,
        loop_a_log_that_cannot_be_written_leaves_the_device_alone,
        loop_a_device_that_changes_underneath_is_not_written_to,
        loop_a_device_that_changes_before_the_first_write_is_not_written_to,
        loop_a_read_only_device_is_checked_and_not_written_to,
        loop_a_held_device_can_neither_be_mounted_nor_held_again,
        loop_a_trial_in_memory_leaves_no_trace_in_the_state_directory,
        loop_a_trial_works_without_a_fuse_node,
        loop_a_process_that_left_its_group_cannot_use_a_finished_trial,
    ]
}

const DEADLINE: Duration = Duration::from_secs(60);

/// Writes `blocks` blocks of 4 KiB of nonsense to the trial.
fn scribble(trial: &Trial, blocks: u32) -> Result<mount_guard::host::tool::ToolExit, RunError> {
    let to = format!("of={}", path(&trial.path()));
    let count = format!("count={blocks}");
    let args =
        ["if=/dev/urandom".to_owned(), to, "bs=4k".into(), count, "conv=notrunc,fsync".into()];
    trial.run(Tool::new("/bin/dd", DEADLINE).args(args), &Cancel::new().unwrap())
}

fn repair(trial: &Trial) {
    let tool = Tool::new("/sbin/e2fsck", DEADLINE).args(["-f", "-y"]).arg(trial.path());
    let exit = trial.run(tool, &Cancel::new().unwrap()).unwrap();
    assert_eq!(exit.end, End::Exited(1));
}

fn begin_with_quota(lab: &Lab, bytes: u64) -> Trial {
    let trials = Trials::open(&lab.state(), Quota::new(bytes)).unwrap();
    let device = hold(&lab.disk());
    trials.begin(volume(), device, Room::StateDir, Mounting::Auto).unwrap()
}

fn damaged() -> (Lab, String) {
    let lab = Lab::with_ext4();
    damage_some(&lab.disk());
    let before = hash(&lab.disk());
    (lab, before)
}

fn loop_a_killed_checker_changes_nothing() {
    let (lab, before) = damaged();
    let trial = begin(&lab, Room::StateDir, Mounting::Auto);
    let cancel = Cancel::new().unwrap();
    let raise = cancel.clone();
    let later = thread::spawn(move || {
        thread::sleep(Duration::from_millis(300));
        raise.raise();
    });
    // It writes the same megabyte over and over.
    let script = r#"while :; do dd if=/dev/urandom of="$0" bs=64k count=16 conv=notrunc; done"#;
    let tool = Tool::new("/bin/sh", DEADLINE).arg("-c").arg(script).arg(trial.path());
    let exit = trial.run(tool, &cancel).unwrap();
    later.join().unwrap();
    assert_eq!(exit.end, End::Killed(Why::Cancelled));
    drop(trial);
    assert_eq!(hash(&lab.disk()), before);
}

fn loop_a_killed_guard_changes_nothing_before_the_apply() {
    let (lab, before) = damaged();
    for delay_millis in (0..60).step_by(4) {
        let mut guard = super::redo::word(&lab, &["discard", "--", "-f", "-y"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        thread::sleep(Duration::from_millis(delay_millis));
        let _ = guard.kill();
        guard.wait().unwrap();
        assert_eq!(hash(&lab.disk()), before);
    }
    assert_eq!(lab.left(), [""; 0]);
}

fn loop_a_full_store_ends_the_trial() {
    let (lab, before) = damaged();
    let trial = begin_with_quota(&lab, 1 << 20);
    let spoiled = scribble(&trial, 1024);
    assert!(matches!(spoiled, Err(RunError::Spoiled(Trouble::StoreFull))), "{spoiled:?}");
    let finished = trial.finish();
    assert!(matches!(finished, Err(FinishError::Spoiled(Trouble::StoreFull))), "{finished:?}");
    assert_eq!(hash(&lab.disk()), before);
}

fn loop_a_full_spill_file_ends_the_trial() {
    let (lab, before) = damaged();
    let _small = Mount::new(&["-t", "tmpfs", "-o", "size=1m", "none"], &lab.state());
    let trial = begin(&lab, Room::StateDir, Mounting::Auto);
    let spoiled = scribble(&trial, 4096);
    let full = Trouble::Store { errno: nix::libc::ENOSPC };
    assert!(matches!(&spoiled, Err(RunError::Spoiled(trouble)) if *trouble == full), "{spoiled:?}");
    drop(trial);
    assert_eq!(hash(&lab.disk()), before);
}

fn loop_a_store_in_memory_has_a_limit() {
    let (lab, before) = damaged();
    let trial = begin(&lab, Room::Memory { limit_bytes: 256 << 10 }, Mounting::Auto);
    let spoiled = scribble(&trial, 1024);
    assert!(matches!(spoiled, Err(RunError::Spoiled(Trouble::StoreFull))), "{spoiled:?}");
    drop(trial);
    assert_eq!(hash(&lab.disk()), before);
}

fn loop_a_write_beyond_the_end_ends_the_trial() {
    let (lab, before) = damaged();
    let trial = begin(&lab, Room::StateDir, Mounting::Auto);
    let to = format!("of={}", path(&trial.path()));
    let args = ["if=/dev/zero", &to, "bs=4k", "count=2", "seek=8191", "conv=notrunc,fsync"];
    let tool = Tool::new("/bin/dd", DEADLINE).args(args);
    let spoiled = trial.run(tool, &Cancel::new().unwrap());
    let beyond = matches!(spoiled, Err(RunError::Spoiled(Trouble::BeyondEnd { .. })));
    assert!(beyond, "{spoiled:?}");
    drop(trial);
    assert_eq!(hash(&lab.disk()), before);
}

fn loop_a_log_that_cannot_be_written_leaves_the_device_alone() {
    check_log_fails(
        |_| {},
        &["-t", "tmpfs", "-o", "size=16k", "none"],
        |err| matches!(err, ApplyError::Log(_)),
    );
    check_log_fails(
        // On top: the store holds a file open in the one below.
        |lab| std::mem::forget(Mount::new(&["-t", "tmpfs", "-o", "ro", "none"], &lab.state())),
        &["-t", "tmpfs", "none"],
        |err| matches!(err, ApplyError::Log(_)),
    );
    // A quota that has room for the store and none for the log.
    let (lab, before) = damaged();
    let refused = (1..).find_map(|step: u64| {
        let trial = begin_with_quota(&lab, step * 8192);
        let tool = Tool::new("/sbin/e2fsck", DEADLINE).args(["-f", "-y"]).arg(trial.path());
        match trial.run(tool, &Cancel::new().unwrap()) {
            Ok(_) => Some(trial.finish().unwrap().apply(&apply_of(None, false), &mut |_| {})),
            Err(spoiled) => {
                assert!(matches!(spoiled, RunError::Spoiled(Trouble::StoreFull)), "{spoiled:?}");
                None
            }
        }
    });
    assert!(matches!(refused, Some(Err(ApplyError::Quota { .. }))), "{refused:?}");
    assert_eq!(hash(&lab.disk()), before);
    assert_eq!(lab.left(), [""; 0]);
}

fn check_log_fails(
    prepare: impl FnOnce(&Lab),
    state: &[&str],
    expected: impl FnOnce(&ApplyError) -> bool,
) {
    let (lab, before) = damaged();
    let state = Mount::new(state, &lab.state());
    let trial = begin(&lab, Room::StateDir, Mounting::Auto);
    repair(&trial);
    let difference = trial.finish().unwrap();
    prepare(&lab);
    let err = difference.apply(&apply_of(Some(mark()), true), &mut |_| {}).unwrap_err();
    assert!(expected(&err) && err.is_untouched(), "{err:?}");
    assert_eq!(hash(&lab.disk()), before);
    assert_eq!(lab.left(), [""; 0]);
    drop(state);
    let _ = Command::new("/bin/umount").arg(lab.state()).output();
}

fn loop_a_device_that_changes_underneath_is_not_written_to() {
    // The inode bitmap of the first group: read by every check, and changed by this repair.
    let change = |lab: &Lab, value| {
        let file = std::fs::File::options().write(true).open(lab.disk()).unwrap();
        file.write_all_at(&[value; 8], 2048).unwrap();
    };
    let (lab, _) = damaged();
    let trial = begin(&lab, Room::StateDir, Mounting::Auto);
    repair(&trial);
    change(&lab, 1);
    let before = hash(&lab.disk());
    let finished = trial.finish();
    let changed = matches!(finished, Err(FinishError::Spoiled(Trouble::DeviceChanged { .. })));
    assert!(changed, "{finished:?}");
    assert_eq!(hash(&lab.disk()), before);

    let (lab, _) = damaged();
    for room in [Room::StateDir, Room::Memory { limit_bytes: 64 << 20 }] {
        let trial = begin(&lab, room, Mounting::Auto);
        repair(&trial);
        let difference = trial.finish().unwrap();
        change(&lab, if room == Room::StateDir { 2 } else { 3 });
        let before = hash(&lab.disk());
        let applied = difference.apply(&apply_of(None, false), &mut |_| {});
        assert!(matches!(applied, Err(ApplyError::Spoiled(_))), "{applied:?}");
        assert_eq!(hash(&lab.disk()), before);
        assert_eq!(lab.left(), [""; 0]);
    }
}

fn loop_a_device_that_changes_before_the_first_write_is_not_written_to() {
    let (lab, _) = damaged();
    let trial = begin(&lab, Room::StateDir, Mounting::Auto);
    repair(&trial);
    let mut before = String::new();
    let mut change = |step| {
        if step == Step::LogNamed {
            let file = std::fs::File::options().write(true).open(lab.disk()).unwrap();
            file.write_all_at(&[9; 8], 1024 + 0x2c).unwrap();
            before = hash(&lab.disk());
        }
    };
    let applied = trial.finish().unwrap().apply(&apply_of(Some(mark()), true), &mut change);
    let changed = Trouble::DeviceChanged { offset: 1024 };
    assert!(
        matches!(&applied, Err(ApplyError::Spoiled(trouble)) if *trouble == changed),
        "{applied:?}"
    );
    assert_eq!(hash(&lab.disk()), before);
    assert_eq!(lab.left(), [""; 0]);
}

fn loop_a_read_only_device_is_checked_and_not_written_to() {
    let (lab, before) = damaged();
    let device = Loop::read_only_on(&lab.disk());
    let trial = trials(&lab.state())
        .begin(volume(), hold(&device.0), Room::StateDir, Mounting::Auto)
        .unwrap();
    repair(&trial);
    let refused = trial.finish().unwrap().apply(&apply_of(Some(mark()), true), &mut |_| {});
    assert!(matches!(refused, Err(ApplyError::ReadOnly(_))), "{refused:?}");
    assert_eq!(hash(&lab.disk()), before);
    assert_eq!(lab.left(), [""; 0]);
}

fn loop_a_held_device_can_neither_be_mounted_nor_held_again() {
    let lab = Lab::with_ext4();
    let device = Loop::on(&lab.disk());
    let held = HeldDevice::hold(&device.0).unwrap();
    assert_eq!(held.size_bytes(), 32 << 20);
    assert!(matches!(HeldDevice::hold(&device.0), Err(HoldError::InUse { .. })));
    let mnt = lab.path("mnt");
    std::fs::create_dir(&mnt).unwrap();
    let mount = || Command::new("/bin/mount").arg(&device.0).arg(&mnt).output().unwrap();
    assert!(!mount().status.success());

    damage_some_on(&device);
    let trial = trials(&lab.state()).begin(volume(), held, Room::StateDir, Mounting::Auto).unwrap();
    assert!(!mount().status.success());
    repair(&trial);
    let applied = trial.finish().unwrap().apply(&apply_of(Some(mark()), false), &mut |_| {});
    let applied = applied.unwrap();
    assert!(!mount().status.success(), "it is held until it is let go");
    drop(applied.device);
    assert!(mount().status.success());
    assert!(matches!(HeldDevice::hold(&device.0), Err(HoldError::InUse { .. })));
    super::disks::run("/bin/umount", &[path(&mnt)]);
    super::disks::run("/sbin/e2fsck", &["-f", "-n", path(&device.0)]);

    let file = HeldDevice::hold(&lab.path("state"));
    assert!(matches!(file, Err(HoldError::NoDisk { .. })), "{file:?}");
    let image = hold(&lab.disk());
    assert!(matches!(HeldDevice::hold(&lab.disk()), Err(HoldError::InUse { .. })));
    drop(image);
}

/// dd and debugfs are raw writers: nobody holds them back.
fn damage_some_on(device: &Loop) {
    damage_some(&device.0);
}

fn loop_a_trial_in_memory_leaves_no_trace_in_the_state_directory() {
    let (lab, before) = damaged();
    let planted = std::fs::read(lab.disk()).unwrap();
    let planted = planted.windows(PLANTED.len()).filter(|w| *w == PLANTED.as_bytes()).count();
    assert!(planted > 0);
    let trial = begin(&lab, Room::Memory { limit_bytes: 64 << 20 }, Mounting::Auto);
    repair(&trial);
    assert_eq!(open_files_in(&lab), 0);
    let difference = trial.finish().unwrap();
    let mut steps = 0;
    let mut look = |_| {
        steps += 1;
        assert_eq!(lab.left(), [""; 0]);
        assert_eq!(open_files_in(&lab), 0);
    };
    difference.apply(&apply_of(Some(mark()), false), &mut look).unwrap();
    assert!(steps > 4);
    assert_ne!(hash(&lab.disk()), before);
    super::disks::run("/sbin/e2fsck", &["-f", "-n", path(&lab.disk())]);

    damage_some(&lab.disk());
    let trial = begin(&lab, Room::Memory { limit_bytes: 64 << 20 }, Mounting::Auto);
    repair(&trial);
    let apply = Apply { keep_undo: true, ..apply_of(None, false) };
    let refused = trial.finish().unwrap().apply(&apply, &mut |_| {});
    assert!(matches!(refused, Err(ApplyError::NoUndoInMemory)), "{refused:?}");
}

/// Files of this process, with or without a name, that lie in the state directory.
fn open_files_in(lab: &Lab) -> usize {
    let fds = std::fs::read_dir("/proc/self/fd").unwrap();
    let targets = fds.filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok());
    // The directory itself is open while `left` reads it.
    let state = format!("{}/", path(&lab.state()));
    targets.filter(|target| path(target).starts_with(&state)).count()
}

fn loop_a_trial_works_without_a_fuse_node() {
    let (lab, before) = damaged();
    let output = super::redo::word(&lab, &["bare-dev", "--", "-f", "-y"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_ne!(hash(&lab.disk()), before);
    assert_eq!(lab.left(), [""; 0]);
}

fn loop_a_process_that_left_its_group_cannot_use_a_finished_trial() {
    let (lab, before) = damaged();
    let trial = begin(&lab, Room::StateDir, Mounting::Auto);
    let script = r#"setsid sh -c 'exec 3<>"$0"; sleep 1; dd if=/dev/zero bs=4k count=1 >&3; sleep 20' "$0" & echo $!; sleep 0.5"#;
    let tool = Tool::new("/bin/sh", DEADLINE).arg("-c").arg(script).arg(trial.path());
    let exit = trial.run(tool, &Cancel::new().unwrap()).unwrap();
    let finished = trial.finish();
    assert!(matches!(finished, Err(FinishError::StillOpen)), "{finished:?}");
    // The device is free at once; the process writes into the void.
    drop(hold(&lab.disk()));
    assert_eq!(hash(&lab.disk()), before);
    let pid = exit.stdout.text().trim().parse().unwrap();
    let group = rustix::process::Pid::from_raw(pid).unwrap();
    let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
}
