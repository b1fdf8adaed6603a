//! xfs: a dirty log is healthy, and only a mount replays it. So nothing is checked before a mount,
//! except where the operator asked; after one that failed, a trial tells damage from the rest.
//! `xfs_repair -L` is never run.

use super::meaning::Meaning;
use super::refusal::Cure;
use super::xfs_exit;
use super::{
    Bounds, Command, Findings, Forward, MAX_KILLS, Next, NoCheck, Plan, Question, Refusal, Report,
    Step, Tool, Verdict, Wait, Which,
};
use crate::facts::memory::Stage;
use crate::facts::superblock::xfs::Superblock;
use crate::facts::superblock::xfs::log::LogState;
use crate::facts::tool::{Outcome, Trouble};

/// `mount(2)`: the kernel has no such filesystem.
const ENODEV: i32 = 19;

/// "Structure needs cleaning": what a mount of a damaged xfs says.
const EUCLEAN: i32 = 117;

/// How often xfs_repair may run over one trial.
///
/// Three, as for ext4: what the first one puts into `lost+found` needs a second one to count its
/// links (6.1.0, a directory block of zeros); what is left after three does not converge.
const MAX_PASSES: u32 = 3;

/// What is known of the filesystem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts<'a> {
    pub superblock: &'a Superblock,
    pub log: LogState,
    pub size_bytes: u64,
    pub moment: Moment<'a>,
}

/// When the question is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment<'a> {
    BeforeMount,
    /// The plugin's mount failed. `twin`: a device of this node that is mounted and has the UUID.
    AfterFailedMount {
        twin: Option<&'a str>,
    },
}

/// A moment in a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ladder {
    question: Question,
    log: LogState,
    /// With what the kernel refused to mount the trial.
    refused: Option<i32>,
    rung: Rung,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Rung {
    Replay,
    Look,
    Repair { pass: u32, found: Findings },
    ProveRepair { pass: u32, found: Findings },
}

/// Whether to check.
#[must_use]
pub fn plan(facts: &Facts<'_>, question: &Question) -> Plan {
    if let Some(why) = question.spared() {
        return Plan::NoCheck(why);
    }
    let twin = match facts.moment {
        Moment::BeforeMount if !question.marks.recheck => {
            return Plan::NoCheck(match facts.log {
                LogState::Clean => NoCheck::OnlyAfterFailedMount,
                LogState::Dirty { .. } | LogState::External | LogState::Unknown { .. } => {
                    NoCheck::MountReplays
                }
            });
        }
        Moment::BeforeMount => None,
        Moment::AfterFailedMount { twin } => twin,
    };
    if let Some(device) = twin {
        let (uuid, device) = (facts.superblock.uuid, device.to_owned());
        return Plan::Refuse(Refusal::DuplicateUuid { uuid, device });
    }
    if facts.superblock.fs_bytes() > facts.size_bytes {
        let fs_bytes = Some(facts.superblock.fs_bytes());
        return Plan::Refuse(Refusal::DeviceTooSmall {
            fs_bytes,
            size_bytes: Some(facts.size_bytes),
        });
    }
    if facts.log == LogState::External {
        return Plan::Forward(Forward::ExternalJournal);
    }
    let unknown = facts.superblock.features.unknown();
    if !unknown.is_empty() {
        let features = format!(
            "compat {:#x}, ro_compat {:#x}, incompat {:#x}, log_incompat {:#x}",
            unknown.compat, unknown.ro_compat, unknown.incompat, unknown.log_incompat
        );
        return match facts.moment {
            Moment::AfterFailedMount { .. } => Plan::Refuse(Refusal::KernelTooOld { features }),
            Moment::BeforeMount => {
                Plan::Forward(Forward::TooOld { tool: Tool::XfsRepair, features })
            }
        };
    }
    let kills = question.kills.check;
    if kills >= MAX_KILLS && !question.marks.recheck {
        return Plan::Forward(Forward::Killed { kills });
    }
    let ladder = Ladder { question: *question, log: facts.log, refused: None, rung: Rung::Replay };
    Plan::Trial(super::Ladder::Xfs(ladder))
}

/// Whether to rebuild a primary superblock from a copy. Without it nothing is mounted, and so no
/// log is replayed: xfs_repair refuses then if the log holds changes.
#[must_use]
pub fn plan_lost(question: &Question) -> Plan {
    if let Some(why) = question.spared() {
        return Plan::NoCheck(why);
    }
    let found = Findings::of(["the superblock is lost"]);
    match question.against_repair() {
        None => {
            let (log, rung) = (LogState::Clean, Rung::Repair { pass: 1, found });
            Plan::Trial(super::Ladder::Xfs(Ladder {
                question: *question,
                log,
                refused: None,
                rung,
            }))
        }
        Some(Cure::Repair) => Plan::Refuse(Refusal::SuperblockLost { repairable: true }),
        Some(cure) => Plan::Refuse(Refusal::Damaged { tool: Tool::XfsRepair, found, cure }),
    }
}

impl Ladder {
    pub(super) fn first(&self) -> Step {
        step(&self.rung, Bounds::WORK)
    }

    pub(super) fn repairs(&self) -> bool {
        match self.rung {
            Rung::Replay | Rung::Look => false,
            Rung::Repair { .. } | Rung::ProveRepair { .. } => true,
        }
    }

    pub(super) fn next(self, outcome: &Outcome) -> Next<Self> {
        let tool = Tool::XfsRepair;
        let ran = match outcome {
            Outcome::Ran(ran) => ran,
            Outcome::Cancelled => return Next::Done(Verdict::Cancelled),
            Outcome::Spoiled(trouble) => return Next::Done(self.spoiled(*trouble)),
            Outcome::NoTrial => return Next::Done(self.cannot(Forward::NoTrial)),
            Outcome::NoTool => return Next::Done(self.cannot(Forward::NoTool(tool))),
            Outcome::Replayed => return self.go(Rung::Look, Bounds::WORK),
            Outcome::ReplayRefused { errno: ENODEV } => {
                return Next::Done(self.cannot(Forward::NoReplay));
            }
            // A mount may fail after it has replayed the log: the checker sees whether that is so.
            Outcome::ReplayRefused { errno } => {
                return Self { refused: Some(*errno), ..self }.go(Rung::Look, Bounds::WORK);
            }
            Outcome::ReplayHung => return Next::Done(Verdict::Wait(Wait::Stuck)),
        };
        match self.rung.clone() {
            // A replay does not run a tool: whatever this was, it proves nothing.
            Rung::Replay => Next::Done(self.cannot(Forward::NoReplay)),
            Rung::Look => match xfs_exit::read(ran, true) {
                Meaning::Clean => Next::Done(self.looked_clean()),
                Meaning::Damaged(found) | Meaning::Flood(found) => self.damaged(found),
                other => Next::Done(self.otherwise(other)),
            },
            Rung::Repair { pass, found } => match xfs_exit::read(ran, false) {
                Meaning::Clean | Meaning::Repaired(_) => {
                    self.go(Rung::ProveRepair { pass, found }, Bounds::proof(ran.took))
                }
                Meaning::DirtyLog => {
                    let errno = EUCLEAN;
                    Next::Done(Verdict::Refuse(Refusal::LogUnreplayable { errno }))
                }
                other => Next::Done(self.otherwise(other)),
            },
            Rung::ProveRepair { pass, found } => match xfs_exit::read(ran, true) {
                Meaning::Clean => {
                    let keep = self.question.keep();
                    Next::Done(Verdict::Apply { keep, report: Report::Repaired(found) })
                }
                Meaning::Damaged(_) if pass < MAX_PASSES => {
                    self.go(Rung::Repair { pass: pass + 1, found }, Bounds::WORK)
                }
                Meaning::Damaged(left) | Meaning::Flood(left) => {
                    Next::Done(Verdict::Refuse(Refusal::NotRepaired { tool, found, left }))
                }
                other => Next::Done(self.otherwise(other)),
            },
        }
    }

    /// A log that held changes when the kernel refused it is no clean one, whatever the checker
    /// says.
    fn looked_clean(&self) -> Verdict {
        match (self.log, self.refused) {
            (LogState::Clean, _) => Verdict::Sound(Report::Clean),
            (_, None) => Verdict::Sound(Report::Replayed),
            (_, Some(errno)) => Verdict::Refuse(Refusal::LogUnreplayable { errno }),
        }
    }

    /// The trial holds the replayed log and nothing else, so the repair goes on in it.
    fn damaged(self, found: Findings) -> Next<Self> {
        match self.question.against_repair() {
            Some(cure) => {
                let tool = Tool::XfsRepair;
                Next::Done(Verdict::Refuse(Refusal::Damaged { tool, found, cure }))
            }
            None => self.go(Rung::Repair { pass: 1, found }, Bounds::WORK),
        }
    }

    fn otherwise(&self, meaning: Meaning) -> Verdict {
        let tool = Tool::XfsRepair;
        match meaning {
            Meaning::TooOld { said } => self.cannot(Forward::TooOld { tool, features: said }),
            Meaning::Unusable { exit, said } => self.cannot(Forward::Unusable { tool, exit, said }),
            Meaning::NoRoom => self.spoiled(Trouble::NoRoom),
            Meaning::DeviceTooSmall(_) => {
                Verdict::Refuse(Refusal::DeviceTooSmall { fs_bytes: None, size_bytes: None })
            }
            Meaning::DeviceRead(_) => Verdict::Wait(Wait::DeviceRead { errno: None }),
            Meaning::InUse => Verdict::Wait(Wait::InUse),
            Meaning::Stuck => Verdict::Wait(Wait::Stuck),
            Meaning::Died(death) => {
                let stage = if self.repairs() { Stage::Repair } else { Stage::Check };
                Verdict::Died { death, stage }
            }
            Meaning::Cancelled => Verdict::Cancelled,
            Meaning::DirtyLog if self.refused.is_some() => {
                let errno = self.refused.unwrap_or_default();
                Verdict::Refuse(Refusal::LogUnreplayable { errno })
            }
            Meaning::DirtyLog | Meaning::Clean | Meaning::Replayed => {
                let said = Findings::of(["its log is not empty"]);
                Verdict::Wait(Wait::Unexplained { tool, exit: 2, said })
            }
            Meaning::Unexplained { exit, said } => {
                Verdict::Wait(Wait::Unexplained { tool, exit, said })
            }
            Meaning::Repaired(found)
            | Meaning::Damaged(found)
            | Meaning::NoSuperblock(found)
            | Meaning::Flood(found) => {
                Verdict::Refuse(Refusal::Damaged { tool, found, cure: Cure::ByHand })
            }
        }
    }

    fn spoiled(&self, trouble: Trouble) -> Verdict {
        match (trouble, &self.rung) {
            (Trouble::NoRoom, Rung::Repair { found, .. } | Rung::ProveRepair { found, .. }) => {
                let (tool, found) = (Tool::XfsRepair, found.clone());
                Verdict::Refuse(Refusal::RepairTooLarge { tool, found })
            }
            (Trouble::NoRoom, Rung::Replay | Rung::Look) => Verdict::Forward(Forward::NoRoom),
            (Trouble::DeviceRead { errno, .. }, _) => {
                Verdict::Wait(Wait::DeviceRead { errno: Some(errno) })
            }
            (Trouble::DeviceChanged { offset_bytes }, _) => {
                Verdict::Wait(Wait::DeviceChanged { offset_bytes })
            }
            (Trouble::BeyondEnd { .. }, _) => {
                Verdict::Refuse(Refusal::DeviceTooSmall { fs_bytes: None, size_bytes: None })
            }
        }
    }

    fn cannot(&self, why: Forward) -> Verdict {
        match &self.rung {
            Rung::Replay | Rung::Look => Verdict::Forward(why),
            Rung::Repair { found, .. } | Rung::ProveRepair { found, .. } => {
                let (tool, found) = (Tool::XfsRepair, found.clone());
                Verdict::Refuse(Refusal::Damaged { tool, found, cure: Cure::ByHand })
            }
        }
    }

    fn go(self, rung: Rung, bounds: Bounds) -> Next<Self> {
        let step = step(&rung, bounds);
        Next::Go { ladder: Self { rung, ..self }, trial: Which::Same, step }
    }
}

/// `-f`: the trial is a file. `-e`: say by the exit code whether anything was repaired.
fn step(rung: &Rung, bounds: Bounds) -> Step {
    let run = |options: &[&str]| Step::Run(Command::new(Tool::XfsRepair, options, bounds));
    match rung {
        Rung::Replay => Step::Replay { fs: "xfs" },
        Rung::Look | Rung::ProveRepair { .. } => run(&["-f", "-n"]),
        Rung::Repair { .. } => run(&["-f", "-e"]),
    }
}
