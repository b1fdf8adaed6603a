//! DECIDE: which checker to run on a trial of a device, and what did its end mean?
//!
//! A plan ([`ext::plan`], [`xfs::plan`], [`btrfs::plan`]) says whether there is anything to check.
//! If so it comes with a [`Ladder`]: whoever climbs it runs the step it is told, hands the
//! [`Outcome`] to [`Ladder::next`], and gets the next step or the [`Verdict`]. Nothing here runs,
//! waits or writes.

pub mod btrfs;
pub mod ext;
pub mod ext_exit;
pub mod findings;
pub mod meaning;
mod redact;
pub mod refusal;
pub mod step;
pub mod verdict;
pub mod xfs;
pub mod xfs_exit;

pub use findings::Findings;
pub use meaning::Meaning;
pub use refusal::Refusal;
pub use step::{Bounds, Command, Step, Tool, Which};
pub use verdict::{Forward, Keep, NoCheck, Report, Verdict, Wait};

use crate::facts::memory::{Kills, Marks};
use crate::facts::tool::Outcome;

#[cfg(test)]
mod tests;

/// `--fsck`, or a volume's own `mount-guard/fsck`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Off,
    /// Look, and never write: what preen would mend is handed on, proven damage is refused.
    Check,
    /// What a boot does.
    Preen,
    /// As [`Mode::Preen`], and more where that gives up.
    Repair,
}

/// `--repair-backup`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backup {
    Undo,
    Snapshot,
    None,
}

/// What the caller wants of the filesystem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// The device as it is.
    Block,
    ReadOnly,
    ReadWrite,
}

/// What every plan has to know beside the filesystem itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Question {
    pub wanted: Wanted,
    pub mode: Mode,
    pub backup: Backup,
    pub encrypted: bool,
    pub marks: Marks,
    pub kills: Kills,
}

/// What comes before a mount, or after one that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Plan {
    /// There is nothing to look at.
    NoCheck(NoCheck),
    /// There is, and it cannot be done: hand the device on, and say so.
    Forward(Forward),
    Refuse(Refusal),
    /// Begin a trial with [`Ladder::first`].
    Trial(Ladder),
}

/// The steps of one check. A value for each moment of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ladder {
    Ext(ext::Ladder),
    Xfs(xfs::Ladder),
    Btrfs(btrfs::Ladder),
}

/// What follows from the end of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next<L> {
    /// Where `trial` is [`Which::New`], the one so far is discarded first.
    Go {
        ladder: L,
        trial: Which,
        step: Step,
    },
    Done(Verdict),
}

/// Checkers of one volume that died in a row before no more are started.
///
/// Three: the first may be the node's fault, the second bad luck. A filesystem whose check takes
/// all memory takes the guard with it each time, and every volume of the node waits.
pub const MAX_KILLS: u32 = 3;

impl Mode {
    /// Reads the value of a flag or a parameter.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "off" => Self::Off,
            "check" => Self::Check,
            "preen" => Self::Preen,
            "repair" => Self::Repair,
            _ => return None,
        })
    }
}

impl Backup {
    /// Reads the value of the flag.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "undo" => Self::Undo,
            "snapshot" => Self::Snapshot,
            "none" => Self::None,
            _ => return None,
        })
    }
}

impl Question {
    /// Why nothing is checked, whatever is on the device.
    fn spared(&self) -> Option<NoCheck> {
        match (self.wanted, self.mode) {
            (Wanted::Block, _) => Some(NoCheck::Block),
            (Wanted::ReadOnly, _) => Some(NoCheck::ReadOnly),
            (Wanted::ReadWrite, Mode::Off) => Some(NoCheck::Off),
            (Wanted::ReadWrite, Mode::Check | Mode::Preen | Mode::Repair) => None,
        }
    }

    /// What stands against the repair of a filesystem that is damaged, `None` if nothing does.
    fn against_repair(&self) -> Option<refusal::Cure> {
        if self.mode != Mode::Repair {
            return Some(refusal::Cure::Repair);
        }
        if self.encrypted && self.backup == Backup::Undo {
            return Some(refusal::Cure::BackupOfEncrypted);
        }
        (self.kills.repair >= MAX_KILLS)
            .then_some(refusal::Cure::ByHandAfterKills { kills: self.kills.repair })
    }

    fn keep(&self) -> Keep {
        match self.backup {
            Backup::Undo => Keep::Undo,
            Backup::Snapshot => Keep::SnapshotFirst,
            Backup::None => Keep::Nothing,
        }
    }
}

impl Ladder {
    /// The step a new trial begins with.
    #[must_use]
    pub fn first(&self) -> Step {
        match self {
            Self::Ext(ladder) => ladder.first(),
            Self::Xfs(ladder) => ladder.first(),
            Self::Btrfs(_) => btrfs::first(),
        }
    }

    /// What a checker that dies now was about.
    #[must_use]
    pub fn stage(&self) -> crate::facts::memory::Stage {
        use crate::facts::memory::Stage;
        let repairs = match self {
            Self::Ext(ladder) => ladder.repairs(),
            Self::Xfs(ladder) => ladder.repairs(),
            Self::Btrfs(_) => false,
        };
        if repairs { Stage::Repair } else { Stage::Check }
    }

    /// What to do now that a step has ended.
    #[must_use]
    pub fn next(self, outcome: &Outcome) -> Next<Self> {
        match self {
            Self::Ext(ladder) => ladder.next(outcome).map(Self::Ext),
            Self::Xfs(ladder) => ladder.next(outcome).map(Self::Xfs),
            Self::Btrfs(ladder) => Next::Done(ladder.end(outcome)),
        }
    }
}

impl<L> Next<L> {
    fn map<M>(self, wrap: impl FnOnce(L) -> M) -> Next<M> {
        match self {
            Self::Go { ladder, trial, step } => Next::Go { ladder: wrap(ladder), trial, step },
            Self::Done(verdict) => Next::Done(verdict),
        }
    }
}
