//! What is to be run on a trial, word by word.

use std::time::Duration;

use crate::facts::tool::Launch;

/// A checker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tool {
    E2fsck,
    XfsRepair,
    Btrfs,
}

/// One step of a ladder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    Run(Command),
    /// Mount the trial as this type where nobody sees it, and unmount it again.
    Replay {
        fs: &'static str,
    },
}

/// In which trial a step runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    Same,
    /// The one so far is discarded.
    New,
}

/// A tool and what it is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    pub tool: Tool,
    pub options: Vec<String>,
    pub bounds: Bounds,
}

/// When a tool is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    pub deadline: Duration,
    /// Of each of its two streams.
    pub output_limit_bytes: u64,
}

impl Bounds {
    /// For a checker that works.
    ///
    /// A day: 30 TB of small files take hours; what takes longer does not end. 64 MiB are half a
    /// million findings: less, and a repair that would end is cut off; more tells nobody anything.
    pub const WORK: Self =
        Self { deadline: Duration::from_secs(24 * 60 * 60), output_limit_bytes: 64 << 20 };

    /// For the pass that has to find nothing, after one that `took` so long.
    ///
    /// Four times and a minute: it reads the same, perhaps on a busier disk. A clean pass prints
    /// seven lines; 1 MiB is enough to know that this one is not.
    #[must_use]
    pub fn proof(took: Duration) -> Self {
        let deadline = took.saturating_mul(4).saturating_add(Duration::from_secs(60));
        Self { deadline: deadline.min(Self::WORK.deadline), output_limit_bytes: 1 << 20 }
    }
}

impl Tool {
    /// Where it may be, the first that is there counts. The image's own: a host's may be older
    /// than what made the filesystem, and none is looked for in a PATH (busybox has an e2fsck too).
    #[must_use]
    pub fn candidates(self) -> &'static [&'static str] {
        match self {
            Self::E2fsck => &["/usr/sbin/e2fsck", "/sbin/e2fsck"],
            Self::XfsRepair => &["/usr/sbin/xfs_repair", "/sbin/xfs_repair"],
            Self::Btrfs => &["/usr/bin/btrfs", "/usr/sbin/btrfs", "/sbin/btrfs"],
        }
    }

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::E2fsck => "e2fsck",
            Self::XfsRepair => "xfs_repair",
            Self::Btrfs => "btrfs check",
        }
    }
}

impl Command {
    pub(super) fn new(tool: Tool, options: &[&str], bounds: Bounds) -> Self {
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        Self { tool, options, bounds }
    }

    /// What is to be run.
    #[must_use]
    pub fn launch(&self) -> Launch {
        Launch {
            candidates: self.tool.candidates(),
            options: self.options.clone(),
            reports_progress: self.tool == Tool::E2fsck,
            deadline: self.bounds.deadline,
            output_limit_bytes: self.bounds.output_limit_bytes,
        }
    }
}
