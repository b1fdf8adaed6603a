//! What comes out of a plan or a ladder.

use std::fmt;
use std::path::Path;

use super::meaning::Death;
use super::{Findings, Refusal, Tool};
use crate::facts::memory::Stage;
use crate::volume::VolumeId;

/// The end of a ladder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Write what the trial has to the device, then hand it on.
    Apply {
        keep: Keep,
        report: Report,
    },
    /// Discard the trial and hand the device on as it is.
    Sound(Report),
    /// Discard the trial, hand the device on and say why it is not known to be sound.
    Forward(Forward),
    Refuse(Refusal),
    /// Discard the trial; the next call may find out.
    Wait(Wait),
    /// The checker died. It counts; the next call tries again.
    Died {
        death: Death,
        stage: Stage,
    },
    /// Somebody wanted the volume more.
    Cancelled,
}

/// What is kept of the blocks that an apply replaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    Nothing,
    /// In the state directory.
    Undo,
    /// A Longhorn snapshot, taken before.
    SnapshotFirst,
}

/// What a checker made of the filesystem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    Clean,
    Replayed,
    /// And a second pass found nothing any more.
    Repaired(Findings),
    /// Mode `check`: preen would mend this.
    WouldRepair(Findings),
}

/// Why there is nothing to check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoCheck {
    Block,
    ReadOnly,
    Off,
    /// The superblock says clean, and nothing speaks against it.
    Clean,
    /// xfs replays its log when it is mounted.
    MountReplays,
    /// It is checked after a mount that failed only.
    OnlyAfterFailedMount,
}

/// Why a device is handed on unchecked. Always worth a warning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Forward {
    ExternalJournal,
    MultipleMountProtection,
    /// The checkers of this volume died, this often in a row.
    Killed {
        kills: u32,
    },
    NoTrial,
    NoTool(Tool),
    TooOld {
        tool: Tool,
        features: String,
    },
    Unusable {
        tool: Tool,
        exit: i32,
        said: Findings,
    },
    /// What it changes does not fit in what may be kept.
    NoRoom,
    /// The kernel does not have the filesystem to replay a log with.
    NoReplay,
}

/// Why there is no answer yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wait {
    DeviceRead {
        errno: Option<i32>,
    },
    DeviceChanged {
        offset_bytes: u64,
    },
    InUse,
    /// The checker hangs in the kernel.
    Stuck,
    Unexplained {
        tool: Tool,
        exit: i32,
        said: Findings,
    },
}

impl Verdict {
    /// One word for log and metric.
    #[must_use]
    pub fn label(&self) -> &'static str {
        match self {
            Self::Apply { .. } => "apply",
            Self::Sound(_) => "sound",
            Self::Forward(_) => "forward",
            Self::Refuse(_) => "refuse",
            Self::Wait(_) => "wait",
            Self::Died { .. } => "died",
            Self::Cancelled => "cancelled",
        }
    }
}

impl Forward {
    /// The one thing that would change it; empty where nothing would, or need not.
    #[must_use]
    pub fn remedy(&self, volume: &VolumeId) -> String {
        match self {
            Self::ExternalJournal | Self::MultipleMountProtection => {
                "check it by hand if in doubt, while no node has it mounted".to_owned()
            }
            Self::Killed { .. } => format!(
                "give the guard's container more memory, or check it by hand, then run \
                 `mount-guard recheck {volume}`"
            ),
            Self::NoTrial => "load the fuse module, and give the guard /dev/fuse".to_owned(),
            Self::NoTool(_) | Self::Unusable { .. } => {
                "use an image with e2fsprogs and xfsprogs".to_owned()
            }
            Self::TooOld { tool, .. } => format!("use an image with a newer {}", tool.name()),
            Self::NoRoom => {
                "see that the guard can write to its state directory, and make room there"
                    .to_owned()
            }
            Self::NoReplay => "load the module of its filesystem on this node".to_owned(),
        }
    }
}

impl Wait {
    /// The one thing that would change it for the device at `device`.
    #[must_use]
    pub fn remedy(&self, device: &Path) -> String {
        match self {
            Self::DeviceRead { .. } | Self::Stuck => "waiting for the Longhorn engine".to_owned(),
            Self::DeviceChanged { .. } | Self::InUse => {
                "find out who has it open on this node or another, and stop that".to_owned()
            }
            Self::Unexplained { .. } => format!(
                "run `mount-guard check {}` in the guard's container on this node to see more; its \
                 flag `--fsck off` mounts unchecked",
                device.display()
            ),
        }
    }
}

impl fmt::Display for Forward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ExternalJournal => f.write_str("not checked: its journal is on another device"),
            Self::MultipleMountProtection => {
                f.write_str("not checked: multiple mount protection is on")
            }
            Self::Killed { kills } => {
                write!(f, "not checked: its checker died {kills} times in a row")
            }
            Self::NoTrial => f.write_str("not checked: this node cannot run a trial (no FUSE)"),
            Self::NoTool(tool) => write!(
                f,
                "not checked: there is no {} ({})",
                tool.name(),
                tool.candidates().join(", ")
            ),
            Self::TooOld { tool, features } => {
                write!(f, "not checked: {} is too old for its features ({features})", tool.name())
            }
            Self::Unusable { tool, exit, said } => {
                write!(f, "not checked: {} does not work here (exit {exit}): {said}", tool.name())
            }
            Self::NoRoom => f.write_str(
                "not checked: the state directory cannot be used, or what the checker changes does \
                 not fit in it or its quota",
            ),
            Self::NoReplay => {
                f.write_str("not checked: this kernel cannot replay its log in a trial")
            }
        }
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DeviceRead { errno } => {
                f.write_str("it could not be read while it was checked")?;
                if let Some(errno) = errno {
                    write!(f, " (errno {errno})")?;
                }
                Ok(())
            }
            Self::DeviceChanged { offset_bytes } => {
                write!(f, "somebody wrote to it at byte {offset_bytes} while it was checked")
            }
            Self::InUse => f.write_str("somebody else has it open"),
            Self::Stuck => f.write_str("its checker hangs in the kernel"),
            Self::Unexplained { tool, exit, said } => {
                write!(f, "{} ended with {exit} and said {said}", tool.name())
            }
        }
    }
}
