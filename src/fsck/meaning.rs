//! What the end of a checker means, whichever checker it was.

use std::fmt;

use super::Findings;
use crate::facts::tool::{End, Ran, Why};

/// All ends that can be told apart. None of them is "go on" by default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Meaning {
    Clean,
    /// Only what a mount would have done too: a journal was replayed, orphans were freed.
    Replayed,
    Repaired(Findings),
    /// Damage is left.
    Damaged(Findings),
    /// The filesystem has features that the checker does not know: no damage.
    TooOld {
        said: String,
    },
    /// There is a log that must be replayed first.
    DirtyLog,
    DeviceTooSmall(Findings),
    DeviceRead(Findings),
    InUse,
    NoSuperblock(Findings),
    /// There is no room for what the checker writes.
    NoRoom,
    /// The checker itself does not work here: its options, or a library.
    Unusable {
        exit: i32,
        said: Findings,
    },
    /// It died, of a signal or of a bug.
    Died(Death),
    Cancelled,
    /// It hangs in the kernel.
    Stuck,
    /// It printed without end.
    Flood(Findings),
    Unexplained {
        exit: i32,
        said: Findings,
    },
}

/// How a checker died.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Death {
    Signal(i32),
    /// It caught a signal of its own making and said so.
    Crash,
    /// Somebody else asked it to stop.
    Asked,
    Deadline,
}

impl fmt::Display for Death {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Signal(signal) => write!(f, "of signal {signal}"),
            Self::Crash => f.write_str("of a crash"),
            Self::Asked => f.write_str("because somebody stopped it"),
            Self::Deadline => f.write_str("at its deadline"),
        }
    }
}

/// What a shell, the loader and busybox end with where the program is none, or lacks a library. No
/// checker does.
const NOT_RUN: [i32; 2] = [126, 127];

/// The exit code, or what an end without one means.
pub(super) fn exit_of(ran: &Ran, findings: impl FnOnce() -> Findings) -> Result<i32, Meaning> {
    match ran.end {
        End::Exited(exit) if NOT_RUN.contains(&exit) => {
            Err(Meaning::Unusable { exit, said: findings() })
        }
        End::Exited(exit) => Ok(exit),
        End::Signalled(signal) => Err(Meaning::Died(Death::Signal(signal))),
        End::Killed(Why::Cancelled) | End::Stuck { why: Why::Cancelled, .. } => {
            Err(Meaning::Cancelled)
        }
        End::Killed(Why::Deadline) => Err(Meaning::Died(Death::Deadline)),
        End::Killed(Why::Flood) | End::Stuck { why: Why::Flood, .. } => {
            Err(Meaning::Flood(findings()))
        }
        End::Stuck { why: Why::Deadline, .. } => Err(Meaning::Stuck),
    }
}

/// Whether a tool says `words` of its own accord: what stands between quotes are names from the
/// filesystem, and they may be anything.
pub(super) fn says(ran: &Ran, words: &str) -> bool {
    let of_its_own = |line: &str| match (line.find('\''), line.rfind('\'')) {
        (Some(from), Some(to)) if from < to => {
            line[..from].contains(words) || line[to..].contains(words)
        }
        _ => line.contains(words),
    };
    ran.stdout.lines().chain(ran.stderr.lines()).any(of_its_own)
}

/// Whether it speaks of a device that does not give back what it should.
pub(super) fn says_device_error(ran: &Ran) -> bool {
    ["Input/output error", "No data available", "short read"]
        .into_iter()
        .any(|words| says(ran, words))
}
