//! What the end of xfs_repair means.
//!
//! xfs_repair(8), "EXIT STATUS": with `-n` 0 is clean and 1 is corrupt, or a log that it did not
//! look into; without, 1 is its own trouble, 2 a log that must be replayed, and with `-e` 4 says
//! that it repaired something.

use super::Findings;
use super::meaning::{Meaning, exit_of, says, says_device_error};
use crate::facts::tool::Ran;

/// Reads the end of an xfs_repair; `looked_only` with `-n`.
#[must_use]
pub fn read(ran: &Ran, looked_only: bool) -> Meaning {
    let found = || findings(ran);
    let exit = match exit_of(ran, found) {
        Ok(exit) => exit,
        Err(meaning) => return meaning,
    };
    if says(ran, "No space left on device") {
        return Meaning::NoRoom;
    }
    if says_device_error(ran) {
        return Meaning::DeviceRead(found());
    }
    if says(ran, "valuable metadata changes in a log") {
        return Meaning::DirtyLog;
    }
    if exit == 1 && says(ran, "unsupported filesystem features") {
        return Meaning::TooOld { said: too_old(ran) };
    }
    match (exit, looked_only) {
        (0, _) => Meaning::Clean,
        (1, true) => Meaning::Damaged(found()),
        (2, false) => Meaning::DirtyLog,
        (4, false) => Meaning::Repaired(found()),
        (exit, _) => Meaning::Unexplained { exit, said: found() },
    }
}

fn too_old(ran: &Ran) -> String {
    let named = ran.stderr.lines().find_map(|line| line.split_once("features ("));
    let named = named.and_then(|(_, rest)| rest.split_once(')'));
    named.map_or_else(String::new, |(features, _)| features.to_owned())
}

/// What is no news of where it is.
fn findings(ran: &Ran) -> Findings {
    const PLAIN: [&str; 8] = [
        "Phase ",
        "- ",
        "Cannot get host filesystem geometry.",
        "Repair may fail if there is a sector size mismatch",
        "the image and the host filesystem.",
        "No modify flag set",
        "done",
        "Metadata corruption detected at 0x",
    ];
    let lines = ran.stderr.lines().chain(ran.stdout.lines()).map(str::trim);
    Findings::of(
        lines.filter(|line| !line.is_empty() && !PLAIN.iter().any(|plain| line.starts_with(plain))),
    )
}
