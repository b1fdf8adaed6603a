//! What became of a tool that ran on a trial of a device.

use std::time::Duration;

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
    /// We killed it, and it hangs in the kernel.
    Stuck(Why),
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
