//! Words of a checker without the names it found: they are the plain text of an encrypted volume,
//! and go into no log and no message (DESIGN, promise 7).

use super::{Findings, Forward, Refusal, Report, Verdict, Wait};

impl Verdict {
    /// The same, and of what was found only how much.
    #[must_use]
    pub fn redacted(self) -> Self {
        match self {
            Self::Apply { keep, report } => Self::Apply { keep, report: report.redacted() },
            Self::Sound(report) => Self::Sound(report.redacted()),
            Self::Forward(Forward::Unusable { tool, exit, said }) => {
                Self::Forward(Forward::Unusable { tool, exit, said: said.redacted() })
            }
            Self::Forward(why) => Self::Forward(why),
            Self::Refuse(refusal) => Self::Refuse(refusal.redacted()),
            Self::Wait(Wait::Unexplained { tool, exit, said }) => {
                Self::Wait(Wait::Unexplained { tool, exit, said: said.redacted() })
            }
            Self::Wait(wait) => Self::Wait(wait),
            Self::Died { death, stage } => Self::Died { death, stage },
            Self::Cancelled => Self::Cancelled,
        }
    }
}

impl Report {
    fn redacted(self) -> Self {
        match self {
            Self::Clean | Self::Replayed => self,
            Self::Repaired(found) => Self::Repaired(found.redacted()),
            Self::WouldRepair(found) => Self::WouldRepair(found.redacted()),
        }
    }
}

impl Refusal {
    fn redacted(self) -> Self {
        match self {
            Self::Damaged { tool, found, cure } => {
                Self::Damaged { tool, found: found.redacted(), cure }
            }
            Self::NotRepaired { tool, found, left } => {
                Self::NotRepaired { tool, found: found.redacted(), left: left.redacted() }
            }
            Self::RepairTooLarge { tool, found } => {
                Self::RepairTooLarge { tool, found: found.redacted() }
            }
            Self::SuperblockLost { .. }
            | Self::DeviceTooSmall { .. }
            | Self::LogUnreplayable { .. }
            | Self::DuplicateUuid { .. }
            | Self::KernelTooOld { .. } => self,
        }
    }
}

impl Findings {
    fn redacted(self) -> Self {
        let said = format!("{} findings, not shown as the volume is encrypted", self.count());
        Self::of([said.as_str()])
    }
}

#[cfg(test)]
mod tests {
    use super::super::refusal::Cure;
    use super::super::{Keep, Tool};
    use super::*;

    #[test]
    fn no_name_that_a_checker_found_is_left() {
        let found = || Findings::of(["Entry 'sentinel' in / (2) has deleted inode 12", "and more"]);
        let tool = Tool::E2fsck;
        for verdict in [
            Verdict::Apply { keep: Keep::Nothing, report: Report::Repaired(found()) },
            Verdict::Sound(Report::WouldRepair(found())),
            Verdict::Forward(Forward::Unusable { tool, exit: 1, said: found() }),
            Verdict::Refuse(Refusal::Damaged { tool, found: found(), cure: Cure::Repair }),
            Verdict::Refuse(Refusal::NotRepaired { tool, found: found(), left: found() }),
            Verdict::Refuse(Refusal::RepairTooLarge { tool, found: found() }),
            Verdict::Wait(Wait::Unexplained { tool, exit: 1, said: found() }),
        ] {
            let redacted = format!("{:?}", verdict.redacted());
            assert!(!redacted.contains("sentinel"), "{redacted}");
            assert!(redacted.contains("2 findings"), "{redacted}");
        }
    }
}
