//! What `check` says: to people, and to programs.

use std::fmt::Write;
use std::path::Path;

use serde_json::{Value, json};

use super::version;
use crate::format::{Content, Filesystem};
use crate::guard::examine::{CheckRun, Examination, Go, Verdict};
use crate::guard::reason::Reason;

/// The unit of a trial, in bytes: what a block is in `blocks_changed`.
const BLOCK_BYTES: u64 = 4096;

/// One line for each thing that was seen, and the verdict at the end.
pub(super) fn text(asked: &Path, seen: &Examination) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "{name:<9} {value}");
    };
    match &seen.facts {
        Some(facts) => line("device", &format!("{} ({})", shown(asked), facts.number)),
        None => line("device", &format!("{} (no device, and no file)", shown(asked))),
    }
    if let Some(claim) = &seen.claim {
        line("held by", if claim.label() == "free" { "nobody" } else { claim.label() });
    }
    if let Some(content) = &seen.content {
        line("content", &content_text(content));
    }
    for run in &seen.checks {
        line("check", &run_text(run));
    }
    for warning in &seen.warnings {
        line("note", &warning.to_string());
    }
    line("verdict", &verdict_text(seen));
    text.trim_end().to_owned()
}

/// A name as a terminal may show it.
pub(super) fn shown(path: &Path) -> String {
    path.to_string_lossy().chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

fn verdict_text(seen: &Examination) -> String {
    match &seen.verdict {
        Verdict::Go(Go::NoDevice) => "cannot tell: there is no device to look at".into(),
        Verdict::Go(Go::InUse) => "in use by what belongs to the volume; not checked".into(),
        Verdict::Go(Go::Unchecked) => "may be mounted; not checked".into(),
        Verdict::Go(Go::Sound) => "may be mounted".into(),
        Verdict::Go(Go::ToFormat) => "blank: whoever mounts it will format it".into(),
        Verdict::Refuse(reason) => format!("must not be mounted: {reason}"),
        Verdict::Wait(reason) => format!("cannot tell: {reason}"),
        Verdict::CalledOff => "called off".into(),
    }
}

fn content_text(content: &Content) -> String {
    match content {
        Content::Filesystem(fs) => fs.to_string(),
        content => content.label().replace('_', " "),
    }
}

fn run_text(run: &CheckRun) -> String {
    let CheckRun { tool, arguments, exit, seconds, .. } = run;
    let exit = exit.map_or_else(|| "no exit".to_owned(), |exit| format!("exit {exit}"));
    let mut text = format!("{tool} {}: {exit}, {seconds:.1} s", arguments.join(" "));
    if let Some(bytes) = run.changed_bytes {
        let blocks = bytes.div_ceil(BLOCK_BYTES);
        let _ = write!(text, ", {blocks} blocks of 4 KiB written");
    }
    text
}

/// How far e2fsck is, as a bar of 40.
pub(super) fn bar(tool: &str, pass: u8, percent: u8) -> String {
    let done = usize::from(percent.min(100)) * 40 / 100;
    format!("{tool} pass {pass}/5 [{}{}] {percent:>3} %", "#".repeat(done), "-".repeat(40 - done))
}

/// One object; every `kind` is from a fixed list.
pub(super) fn json(asked: &Path, seen: &Examination) -> String {
    let (verdict, detail) = match &seen.verdict {
        // Nothing was seen, so nothing may go.
        Verdict::Go(Go::NoDevice) => ("wait", Some(Go::NoDevice)),
        Verdict::Go(go) => ("go", Some(*go)),
        Verdict::Refuse(_) => ("refuse", None),
        Verdict::Wait(_) => ("wait", None),
        Verdict::CalledOff => ("called_off", None),
    };
    let reason = match &seen.verdict {
        Verdict::Refuse(reason) | Verdict::Wait(reason) => Some(reason),
        Verdict::Go(_) | Verdict::CalledOff => None,
    };
    let facts = seen.facts.as_deref();
    let claim = seen.claim.as_ref();
    let value = json!({
        "device": {
            "path": asked.to_string_lossy(),
            "kernel_path": facts.map(|facts| facts.path.to_string_lossy()),
        },
        "number": facts.map(|facts| facts.number.to_string()),
        "claim": claim.map(|claim| json!({ "kind": claim.label() })),
        "content": seen.content.as_ref().map(content_json),
        "verdict": { "kind": verdict, "detail": detail.map(Go::label) },
        "reason": reason.map(|reason| json!({ "kind": reason.kind, "text": reason.why })),
        "remedy": reason.map(|reason| &reason.remedy).filter(|remedy| !remedy.is_empty()),
        "notes": seen.warnings.iter().map(note_json).collect::<Vec<_>>(),
        "checks": seen.checks.iter().map(run_json).collect::<Vec<_>>(),
    });
    serde_json::to_string_pretty(&value).expect("texts and numbers always serialize")
}

fn content_json(content: &Content) -> Value {
    let Content::Filesystem(fs) = content else { return json!({ "kind": content.label() }) };
    let uuid = Filesystem::uuid(fs).map(|uuid| uuid.to_string());
    json!({ "kind": content.label(), "type": fs.name(), "uuid": uuid })
}

fn note_json(note: &Reason) -> Value {
    json!({ "kind": note.kind, "text": note.why, "remedy": note.remedy })
}

fn run_json(run: &CheckRun) -> Value {
    json!({
        "tool": run.tool,
        "version": version::of(run.tool),
        "arguments": run.arguments,
        "exit": run.exit,
        "seconds": run.seconds,
        "blocks_changed": run.changed_bytes.map(|bytes| bytes.div_ceil(BLOCK_BYTES)),
        "applied": run.applied,
    })
}
