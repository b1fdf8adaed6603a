//! A tool that runs on a trial of a device: what it is told, and what becomes of it.

use std::time::Duration;

/// A tool, and how it is to be run on the file of a trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// Where the program may be; the first that is there counts.
    pub candidates: &'static [&'static str],
    /// What it is told before the name of the file.
    pub options: Vec<String>,
    /// It takes `-C FD` and writes there how far it is, as e2fsck(8) does.
    pub reports_progress: bool,
    pub deadline: Duration,
    /// Of each of its two streams.
    pub output_limit_bytes: u64,
}

/// A pass of e2fsck (1 to 5) and how much of it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    pub pass: u8,
    pub percent: u8,
}

/// A tool that was started, and its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    pub end: End,
    pub stdout: String,
    pub stderr: String,
    pub took: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Exited(i32),
    /// It died of a signal that was not ours.
    Signalled(i32),
    /// We killed it, and it is gone.
    Killed(Why),
    /// We killed it, and it does not die: it hangs in the kernel (state D). It is reaped if it
    /// ever comes back; until then it may hold what it had open.
    Stuck {
        pid: u32,
        why: Why,
    },
}

/// Why we killed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    Deadline,
    Cancelled,
    /// It printed more than it was allowed to.
    Flood,
}

/// What one step in a trial came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Ran(Ran),
    /// The trial is worthless, whatever the tool said.
    Spoiled(Trouble),
    /// This node cannot run a trial.
    NoTrial,
    /// None of the tool's paths has it, or it does not start.
    NoTool,
    /// The kernel mounted and unmounted the trial: its log is clean.
    Replayed,
    /// The kernel did not mount it.
    ReplayRefused {
        errno: i32,
    },
    /// The mount in the trial did not come back in time.
    ReplayHung,
    Cancelled,
}

/// What makes the result of a trial worthless.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// The tool changed more than the trial may keep, or there was no room to keep it.
    NoRoom,
    DeviceRead {
        offset_bytes: u64,
        errno: i32,
    },
    DeviceChanged {
        offset_bytes: u64,
    },
    /// The tool wrote beyond the end of the device.
    BeyondEnd {
        offset_bytes: u64,
    },
}
