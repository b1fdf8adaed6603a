//! Checkers that are old, broken or not there: the guard's own trouble, which stops nobody.
//!
//! The guard runs in a mount namespace in which another program lies over its e2fsck.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::scene::Staged;
use super::sound::debugfs;
use crate::support::disk::LoopDisk;

pub fn tests() -> Vec<libtest_mimic::Trial> {
    crate::tests![
        loop_case_17_a_checker_that_is_too_old_stops_nobody,
        loop_case_18_that_nothing_is_checked_shows_in_readiness_and_metrics,
        loop_case_19_the_features_it_does_not_know_are_named,
        loop_case_20_what_is_no_checker_is_told_from_damage,
        loop_case_21_a_checker_that_is_not_there_formats_nothing,
        loop_a_checker_that_crashes_is_tried_again_and_then_left,
    ]
}

pub const E2FSCK: &str = "/usr/sbin/e2fsck";

/// A shell script in a directory of its own.
pub struct Program(tempfile::TempDir);

impl Program {
    pub fn new(script: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("e2fsck");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        Self(dir)
    }

    pub fn path(&self) -> PathBuf {
        self.0.path().join("e2fsck")
    }
}

pub fn dirty() -> LoopDisk {
    let disk = LoopDisk::with_filesystem("ext4", &[("a", b"1")]);
    debugfs(&disk, "ssv state 0");
    disk
}

fn hiding(with: &Path, hidden: &'static str) -> Staged {
    Staged::with_hidden(dirty(), "ext4", with, hidden)
}

/// The guard's e2fsck is `script`: the volume is staged all the same, and the log says why.
#[track_caller]
fn stops_nobody(script: &str, words: &[&str]) -> Staged {
    let program = Program::new(script);
    let staged = hiding(&program.path(), E2FSCK);
    staged.is_forwarded_untouched();
    let log = staged.guard.log();
    for word in words {
        assert!(log.contains(word), "{word:?} is not in: {log}");
    }
    staged.stages();
    assert_eq!(staged.read("a").unwrap(), b"1");
    assert_eq!(staged.scene.plugin.counts().ran("mkfs"), 0);
    staged
}

/// What e2fsck 1.46.5 says of a filesystem of 1.47's defaults.
const TOO_OLD: &str = "echo \"$0 has unsupported feature(s): FEATURE_C12 FEATURE_R16\" >&2\n\
    echo 'e2fsck: Get a newer version of e2fsck!' >&2\nexit";

fn loop_case_17_a_checker_that_is_too_old_stops_nobody() {
    for exit in [8, 12] {
        stops_nobody(&format!("{TOO_OLD} {exit}"), &["e2fsck is too old", "with a newer e2fsck"]);
    }
}

fn loop_case_18_that_nothing_is_checked_shows_in_readiness_and_metrics() {
    let staged = stops_nobody("exit 127", &["e2fsck does not work here (exit 127)"]);
    let (status, body) = staged.guard.get("/readyz").unwrap();
    assert_eq!(status, 503, "{body}");
    assert!(body.contains("checker"), "{body}");
    let (_, metrics) = staged.guard.get("/metrics").unwrap();
    let counted = "mount_guard_checks_total{verdict=\"forward\"} 2";
    assert!(metrics.lines().any(|line| line == counted), "{metrics}");
}

fn loop_case_19_the_features_it_does_not_know_are_named() {
    let script = TOO_OLD.replace("FEATURE_C12 FEATURE_R16", "metadata_csum");
    stops_nobody(&format!("{script} 8"), &["its features (metadata_csum)"]);
}

/// busybox ends the usage of its fsck with 1, which is e2fsck's "corrected".
fn loop_case_20_what_is_no_checker_is_told_from_damage() {
    let usage = "echo 'BusyBox v1.29.3 (2019-01-24) multi-call binary.' >&2\necho >&2\n\
        echo 'Usage: fsck [-ANPRTV] [-C FD] [-t FSTYPE] [FS_OPTS] [BLOCKDEV]...' >&2\nexit 1";
    stops_nobody(usage, &["e2fsck does not work here (exit 1)"]);
    let no_applet = "echo 'e2fsck: applet not found' >&2\nexit 127";
    stops_nobody(no_applet, &["e2fsck does not work here (exit 127)", "applet not found"]);
}

fn loop_case_21_a_checker_that_is_not_there_formats_nothing() {
    let empty = tempfile::tempdir().unwrap();
    let staged = hiding(empty.path(), "/usr/sbin");
    staged.is_forwarded_untouched();
    staged.stages();
    assert_eq!(staged.read("a").unwrap(), b"1");
    assert_eq!(staged.scene.plugin.counts().ran("mkfs"), 0);
    let log = staged.guard.log();
    assert!(log.contains("there is no e2fsck (/usr/sbin/e2fsck"), "{log}");
}

fn loop_a_checker_that_crashes_is_tried_again_and_then_left() {
    let program = Program::new("kill -SEGV $$");
    let staged = hiding(&program.path(), E2FSCK);
    for _ in 0..3 {
        staged.must_wait(&["its checker died (of signal 11)", "tried again by itself"]);
    }
    staged.is_forwarded_untouched();
    let log = staged.guard.log();
    assert!(log.contains("its checker died 3 times in a row"), "{log}");
    assert!(log.contains("mount-guard recheck pvc-"), "{log}");
}
