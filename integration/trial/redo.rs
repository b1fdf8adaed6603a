//! Killed at any point of an apply, a redo or an undo, the device ends up wholly old or wholly new.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use mount_guard::host::tool::{Cancel, Tool};
use mount_guard::host::trial::{
    ApplyError, Direction, HeldDevice, Identity, LogError, Mounting, RedoError, Room,
};

use super::disks::{Lab, Mount, damage_some, hash};
use super::same::begin;
use super::word::{apply_of, hold, identity, mark, trials, volume};

pub fn tests() -> Vec<libtest_mimic::Trial> {
    crate::tests![
        loop_an_apply_killed_in_any_step_is_done_or_was_never_begun,
        loop_a_redo_killed_in_any_step_is_done_the_next_time,
        loop_an_apply_killed_at_any_moment_is_done_or_was_never_begun,
        loop_an_undo_killed_in_any_step_is_done_the_next_time,
        loop_a_repair_is_undone_to_the_last_byte,
        loop_a_repair_is_not_undone_once_the_filesystem_was_mounted,
        loop_a_log_is_not_applied_to_another_disk,
        loop_a_damaged_log_is_kept_and_reported,
        loop_an_unfinished_log_is_swept_out,
    ]
}

const KILLED: Option<i32> = Some(9);

/// This program as a guard of its own, see `word.rs`.
pub fn word(lab: &Lab, words: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg("run-trial").arg(lab.disk()).arg(lab.state()).args(words);
    // A repair writes the same whenever it is done.
    command.env("E2FSCK_TIME", "1700000000");
    command
}

/// A damaged disk, and the hashes of what it is and of what its repair makes of it.
struct Patient {
    lab: Lab,
    damaged: Vec<u8>,
    old: String,
    new: String,
}

impl Patient {
    fn new() -> Self {
        let lab = Lab::with_ext4();
        damage_some(&lab.disk());
        let damaged = std::fs::read(lab.disk()).unwrap();
        let old = hash(&lab.disk());
        let mut patient = Self { lab, damaged, old, new: String::new() };
        assert_eq!(patient.repair(&[]), Some(1));
        patient.new = hash(&patient.lab.disk());
        assert_ne!(patient.old, patient.new);
        patient.reset();
        patient
    }

    fn reset(&self) {
        std::fs::write(self.lab.disk(), &self.damaged).unwrap();
        for name in self.lab.left() {
            std::fs::remove_file(self.lab.state().join(name)).unwrap();
        }
    }

    /// Repairs by a child. Its exit code, or `None` if it was killed.
    fn repair(&self, words: &[&str]) -> Option<i32> {
        self.run(&[words, &["--", "-f", "-y"]].concat())
    }

    fn run(&self, words: &[&str]) -> Option<i32> {
        let output = word(&self.lab, words).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() != Some(101), "{words:?}: {text}");
        assert!(output.status.signal().is_none_or(|signal| Some(signal) == KILLED), "{text}");
        output.status.code()
    }

    fn redo(&self) {
        assert_eq!(self.run(&["redo"]), Some(0));
    }

    fn is_new(&self) -> bool {
        let now = hash(&self.lab.disk());
        assert!(now == self.new || now == self.old, "torn");
        now == self.new
    }
}

fn loop_an_apply_killed_in_any_step_is_done_or_was_never_begun() {
    let patient = Patient::new();
    let mut outcomes = Vec::new();
    for step in 1.. {
        patient.reset();
        let killed = patient.repair(&[&format!("crash={step}")]).is_none();
        let torn = ![&patient.old, &patient.new].contains(&&hash(&patient.lab.disk()));
        let named = patient.lab.left().contains(&"pvc-trial.redo".to_owned());
        patient.redo();
        outcomes.push((named, torn, patient.is_new()));
        assert_eq!(patient.lab.left(), [""; 0], "step {step}");
        if !killed {
            break;
        }
    }
    // Before the log had its name nothing was written; from there on all of it is.
    assert_eq!(outcomes[..2], [(false, false, false); 2], "{outcomes:?}");
    let middle = &outcomes[2..outcomes.len() - 2];
    assert!(middle.iter().all(|(named, _, new)| *named && *new), "{outcomes:?}");
    assert!(middle.iter().filter(|(_, torn, _)| *torn).count() > 3, "{outcomes:?}");
}

fn loop_a_redo_killed_in_any_step_is_done_the_next_time() {
    let patient = Patient::new();
    for step in 1.. {
        patient.reset();
        assert_eq!(patient.repair(&["crash=5"]), None);
        let killed = patient.run(&["redo", &format!("crash={step}")]).is_none();
        patient.redo();
        assert!(patient.is_new(), "step {step}");
        assert_eq!(patient.lab.left(), [""; 0]);
        if !killed {
            assert!(step > 5);
            break;
        }
    }
}

fn loop_an_apply_killed_at_any_moment_is_done_or_was_never_begun() {
    let patient = Patient::new();
    let mut new = 0;
    for delay_millis in 0..40 {
        patient.reset();
        let mut guard = word(&patient.lab, &["--", "-f", "-y"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        thread::sleep(Duration::from_millis(4 * delay_millis));
        let _ = guard.kill();
        guard.wait().unwrap();
        patient.redo();
        new += u32::from(patient.is_new());
    }
    println!("{new} of 40 were applied");
}

fn loop_an_undo_killed_in_any_step_is_done_the_next_time() {
    let patient = Patient::new();
    for step in 1.. {
        patient.reset();
        assert_eq!(patient.repair(&["undo"]), Some(1));
        assert_eq!(patient.lab.left(), ["pvc-trial@1.undo"]);
        let killed = patient.run(&["undo-record", &format!("crash={step}")]).is_none();
        patient.redo();
        assert!(!patient.is_new(), "step {step}");
        assert_eq!(patient.lab.left(), [""; 0]);
        if !killed {
            assert!(step > 5);
            break;
        }
    }
}

fn loop_a_repair_is_undone_to_the_last_byte() {
    let patient = Patient::new();
    assert_eq!(patient.repair(&["undo"]), Some(1));
    assert!(patient.is_new());
    let trials = trials(&patient.lab.state());
    let used_bytes = trials.quota().used_bytes();
    assert!(used_bytes > 0, "a record counts");
    let held = hold(&patient.lab.disk());
    let record = trials.undo_records().unwrap().remove(0);
    let other = Identity { volume: "pvc-other".into(), fs_uuid: None };
    let foreign = trials.undo(&record, &held, &other, &mut |_| {});
    assert!(matches!(foreign, Err(RedoError::Foreign { .. })), "{foreign:?}");
    let undone = trials.undo(&record, &held, &identity(), &mut |_| {}).unwrap();
    assert!(undone.written && undone.undo.is_none());
    assert!(!patient.is_new());
    assert_eq!(trials.quota().used_bytes(), 0);
}

fn loop_a_repair_is_not_undone_once_the_filesystem_was_mounted() {
    let patient = Patient::new();
    assert_eq!(patient.repair(&["undo"]), Some(1));
    let disk = patient.lab.disk();
    drop(Mount::of_image(&disk, "rw", &patient.lab.path("mnt")));
    let before = hash(&disk);
    let trials = trials(&patient.lab.state());
    let record = trials.undo_records().unwrap().remove(0);
    let held = hold(&disk);
    let refused = trials.undo(&record, &held, &identity(), &mut |_| {});
    assert!(matches!(refused, Err(RedoError::Changed { .. })), "{refused:?}");
    assert_eq!(hash(&disk), before);
    assert_eq!(patient.lab.left(), ["pvc-trial@1.undo"]);
}

fn loop_a_log_is_not_applied_to_another_disk() {
    let patient = Patient::new();
    assert_eq!(patient.repair(&["crash=5"]), None);
    let trials = trials(&patient.lab.state());
    let pending = trials.pending().unwrap().remove(0);
    assert_eq!(pending.direction, Direction::Redo);
    assert_eq!(pending.header.as_ref().unwrap().identity, identity());

    let other = patient.lab.path("other.img");
    for change in [1usize << 20, 0] {
        // Another size; then a sector that is neither old nor new.
        let mut bytes = std::fs::read(patient.lab.disk()).unwrap();
        bytes.truncate(bytes.len() - change);
        bytes[1024 + 0x2c] ^= 0xff;
        std::fs::write(&other, bytes).unwrap();
        let before = hash(&other);
        let held = HeldDevice::hold(&other).unwrap();
        let refused = trials.redo(&pending, &held, &identity(), &mut |_| {}).unwrap_err();
        match change {
            0 => assert!(matches!(refused, RedoError::Changed { .. }), "{refused:?}"),
            _ => assert!(matches!(refused, RedoError::Foreign { .. }), "{refused:?}"),
        }
        assert_eq!(hash(&other), before);
    }

    // While it is there, no other repair of the volume is applied.
    let trial = begin(&patient.lab, Room::StateDir, Mounting::Auto);
    let tool = Tool::new("/sbin/e2fsck", Duration::from_secs(60)).args(["-f", "-y"]);
    trial.run(tool.arg(trial.path()), &Cancel::new().unwrap()).unwrap();
    let refused = trial.finish().unwrap().apply(&apply_of(Some(mark()), false), &mut |_| {});
    assert!(matches!(refused, Err(ApplyError::Unresolved { .. })), "{refused:?}");
    trials.set_aside(&volume(), &pending.path).unwrap();
    assert_eq!(patient.lab.left(), ["pvc-trial@1.kept"]);
    assert!(trials.pending().unwrap().is_empty());
}

fn loop_a_damaged_log_is_kept_and_reported() {
    let patient = Patient::new();
    assert_eq!(patient.repair(&["crash=5"]), None);
    let log = patient.lab.state().join("pvc-trial.redo");
    let mut bytes = std::fs::read(&log).unwrap();
    bytes[10_000] ^= 1;
    std::fs::write(&log, bytes).unwrap();
    let before = hash(&patient.lab.disk());
    let trials = trials(&patient.lab.state());
    let pending = trials.pending().unwrap().remove(0);
    assert!(matches!(pending.header, Err(LogError::Damaged { .. })), "{pending:?}");
    let held = hold(&patient.lab.disk());
    let refused = trials.redo(&pending, &held, &identity(), &mut |_| {});
    assert!(matches!(refused, Err(RedoError::Log(LogError::Damaged { .. }))), "{refused:?}");
    assert_eq!(hash(&patient.lab.disk()), before);
    assert_eq!(patient.lab.left(), ["pvc-trial.redo"]);
}

fn loop_an_unfinished_log_is_swept_out() {
    let patient = Patient::new();
    assert_eq!(patient.repair(&["crash=1"]), None);
    assert_eq!(patient.lab.left(), ["pvc-trial.part"]);
    let trials = trials(&patient.lab.state());
    assert_eq!(patient.lab.left(), [""; 0]);
    assert!(trials.pending().unwrap().is_empty());
    assert!(!patient.is_new());
}
