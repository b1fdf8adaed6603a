//! What the end of e2fsck means.
//!
//! Its exit code is a bit mask (e2fsck(8), "EXIT CODE"), and one code has many causes: 8 is a
//! mounted device, a feature it does not know, no superblock, an I/O error or a crash; 12 is an
//! unknown compatible feature (nothing is wrong) as well as a full disk under a repair. So the mask
//! is read together with what was printed.

use super::Findings;
use super::meaning::{Death, Meaning, exit_of, says, says_device_error};
use crate::facts::tool::Ran;

const CORRECTED: i32 = 1;
const REBOOT: i32 = 2;
const UNCORRECTED: i32 = 4;
const OPERATIONAL: i32 = 8;
const USAGE: i32 = 16;
const CANCELLED: i32 = 32;
const LIBRARY: i32 = 128;

/// What e2fsck 1.47 prints without having found anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    /// Where it is, or how full the filesystem is.
    Plain,
    /// What a mount would have done too.
    Replay,
    Finding,
}

/// Reads the end of an e2fsck.
#[must_use]
pub fn read(ran: &Ran) -> Meaning {
    let found = || findings(ran);
    let exit = match exit_of(ran, found) {
        Ok(exit) => exit,
        Err(meaning) => return meaning,
    };
    let known = CORRECTED | REBOOT | UNCORRECTED | OPERATIONAL | USAGE | CANCELLED | LIBRARY;
    let has = |bit: i32| exit & bit != 0;
    // Not e2fsck's mask: busybox has an applet that ends its usage with 1, "corrected".
    if is_usage(ran) {
        return Meaning::Unusable { exit, said: found() };
    }
    if exit & !known != 0 {
        return Meaning::Unexplained { exit, said: found() };
    }
    // Whatever the code: with these words even 1, "fixed", is no result.
    if says(ran, "No space left on device") {
        return Meaning::NoRoom;
    }
    if says(ran, "physical size of the device is") {
        return Meaning::DeviceTooSmall(found());
    }
    if says_device_error(ran) {
        return Meaning::DeviceRead(found());
    }
    if has(LIBRARY) || has(USAGE) {
        return Meaning::Unusable { exit, said: found() };
    }
    if has(CANCELLED) {
        return Meaning::Died(Death::Asked);
    }
    if has(OPERATIONAL) {
        return operational(ran, exit);
    }
    if has(UNCORRECTED) || says(ran, "UNEXPECTED INCONSISTENCY") {
        return Meaning::Damaged(found());
    }
    done(ran)
}

/// It says how it wants to be called, in place of a check.
fn is_usage(ran: &Ran) -> bool {
    lines(ran).any(|line| line.starts_with("Usage: "))
}

/// How many inodes are in use, as it says at its end.
#[must_use]
pub fn files_in_use(ran: &Ran) -> Option<u64> {
    let summary = lines(ran).map(without_name).filter(|line| is_summary(line)).last()?;
    summary.trim_start_matches("clean, ").split('/').next()?.parse().ok()
}

fn operational(ran: &Ran, exit: i32) -> Meaning {
    if says(ran, "Get a newer version of e2fsck") {
        return Meaning::TooOld { said: too_old(ran) };
    }
    if says(ran, "Signal (") {
        return Meaning::Died(Death::Crash);
    }
    if says(ran, "is in use.") || says(ran, "is mounted.") {
        return Meaning::InUse;
    }
    if says(ran, "could not be read or does not describe") || says(ran, "Bad magic number") {
        return Meaning::NoSuperblock(findings(ran));
    }
    if exit & UNCORRECTED != 0 && says(ran, "UNEXPECTED INCONSISTENCY") {
        return Meaning::Damaged(findings(ran));
    }
    Meaning::Unexplained { exit, said: findings(ran) }
}

/// It ended well, or says so.
fn done(ran: &Ran) -> Meaning {
    let found = findings(ran);
    if !found.is_empty() {
        return Meaning::Repaired(found);
    }
    let replayed = lines(ran).any(|line| classify(line) == Line::Replay);
    if replayed { Meaning::Replayed } else { Meaning::Clean }
}

fn too_old(ran: &Ran) -> String {
    let named = lines(ran).find_map(|line| line.split_once("unsupported feature(s):"));
    named.map_or_else(String::new, |(_, features)| {
        Findings::of([features.trim()]).lines().first().cloned().unwrap_or_default()
    })
}

fn findings(ran: &Ran) -> Findings {
    let all = || lines(ran).filter(|line| classify(line) == Line::Finding).map(without_name);
    let found = Findings::of(all().filter(|line| !is_deed(line)));
    // Whoever did something had found something.
    if found.is_empty() { Findings::of(all()) } else { found }
}

/// A line that only says what was done about the one before it. It was done to a trial: in a
/// refusal it would frighten people with what never happened to their volume.
fn is_deed(line: &str) -> bool {
    let only = ["CLEARED.", "FIXED.", "IGNORED.", "RELOCATED.", "ABORTED."];
    only.contains(&line) || (line.starts_with("***") && line.ends_with("***"))
}

fn lines(ran: &Ran) -> impl Iterator<Item = &str> {
    ran.stdout.lines().chain(ran.stderr.lines()).map(str::trim).filter(|line| !line.is_empty())
}

/// Most lines begin with the name of the trial, or with the filesystem's label.
fn without_name(line: &str) -> &str {
    match line.split_once(": ") {
        Some((name, said)) if !name.contains(' ') => said,
        _ => line,
    }
}

/// A label may hold ": " too, so the words may begin after any of them.
fn classify(line: &str) -> Line {
    let starts = line.match_indices(": ").map(|(at, colon)| at + colon.len());
    let tails = std::iter::once(0).chain(starts).map(|at| &line[at..]);
    tails.map(classify_words).find(|kind| *kind != Line::Finding).unwrap_or(Line::Finding)
}

fn classify_words(words: &str) -> Line {
    const REPLAY: [&str; 4] = [
        "Clearing orphaned inode ",
        "Truncating orphaned inode ",
        "Setting free blocks count to ",
        "Setting free inodes count to ",
    ];
    if words == "recovering journal" || REPLAY.iter().any(|start| words.starts_with(start)) {
        return Line::Replay;
    }
    let version = words.starts_with("e2fsck 1.") && words.ends_with(')');
    let plain =
        is_pass(words) || is_summary(words) || version || words.ends_with(", check forced.");
    // What is said again, in general, at the end.
    let repeated = words == "UNEXPECTED INCONSISTENCY; RUN fsck MANUALLY."
        || words == "(i.e., without -a or -p options)"
        || words.starts_with("***** ")
        || words.starts_with("********** WARNING: ");
    if plain || repeated { Line::Plain } else { Line::Finding }
}

fn is_pass(words: &str) -> bool {
    ["Pass 1: C", "Pass 2: C", "Pass 3: C", "Pass 4: C", "Pass 5: C"]
        .iter()
        .any(|pass| words.starts_with(pass))
}

/// `[clean, ]N/N files[ (N% non-contiguous)], N/N blocks[ (check …)]`
fn is_summary(words: &str) -> bool {
    let words = words.strip_prefix("clean, ").unwrap_or(words);
    let Some((files, blocks)) = words.split_once(", ") else { return false };
    let blocks = blocks.split(" (check ").next().unwrap_or(blocks);
    let files = files.split(" (").next().unwrap_or(files);
    let is_ratio = |text: Option<&str>| {
        text.and_then(|text| text.split_once('/')).is_some_and(|(part, whole)| {
            part.parse::<u64>().is_ok() && whole.parse::<u64>().is_ok()
        })
    };
    is_ratio(files.strip_suffix(" files")) && is_ratio(blocks.strip_suffix(" blocks"))
}
