//! What the guard makes of an image: the one place that knows how it is asked.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use mount_guard::fsck::Mode;
use serde_json::Value;

/// The answer.
#[derive(Debug)]
pub struct Examined {
    pub answer: Answer,
    /// Whether something was written to the image.
    pub applied: bool,
    /// In the guard's words.
    pub reason: String,
    pub took: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Answer {
    Go,
    Refuse,
    Wait,
    /// It would be formatted.
    Format,
}

/// Judges `image` in this mode, and applies what the mode allows: `mount-guard check --repair`.
/// `state` is a directory for it.
pub fn examine(image: &Path, is_xfs: bool, mode: Mode, state: &Path) -> Examined {
    let begun = Instant::now();
    let fsck = match mode {
        Mode::Off => "off",
        Mode::Check => "check",
        Mode::Preen => "preen",
        Mode::Repair => "repair",
    };
    let done = Command::new(env!("CARGO_BIN_EXE_mount-guard"))
        .arg("check")
        .arg(image)
        .args(["--repair", "--fsck", fsck, "--format", "json"])
        .args(["--fs-type", if is_xfs { "xfs" } else { "ext4" }])
        .args(["--host-proc", "/proc", "--state-dir"])
        .arg(state)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said: Value = serde_json::from_slice(&done.stdout)
        .unwrap_or_else(|error| panic!("{error}: {done:?} of {}", image.display()));
    let kind = said["verdict"]["kind"].as_str().unwrap();
    let answer = match (kind, said["verdict"]["detail"].as_str()) {
        ("go", Some("to_format")) => Answer::Format,
        ("go", _) => Answer::Go,
        ("refuse", _) => Answer::Refuse,
        ("wait", _) => Answer::Wait,
        other => panic!("{other:?}: {said}"),
    };
    let unchecked = said["verdict"]["detail"] == "unchecked";
    let exit = match answer {
        Answer::Go if unchecked => 3,
        Answer::Go | Answer::Format => 0,
        Answer::Refuse => 1,
        Answer::Wait => 3,
    };
    assert_eq!(done.status.code(), Some(exit), "{said}");
    let written = |run: &Value| run["applied"] == true && run["blocks_changed"] != 0;
    let applied = said["checks"].as_array().unwrap().iter().any(written);
    let notes = said["notes"].as_array().unwrap().iter().map(|note| &note["text"]);
    let words = notes.chain([&said["reason"]["text"]]).filter_map(Value::as_str);
    let reason = words.collect::<Vec<_>>().join("; ");
    Examined { answer, applied, reason, took: begun.elapsed() }
}
