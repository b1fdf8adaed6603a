//! btrfs: looked at after a mount that failed, and never repaired.

use super::meaning::{Meaning, exit_of, says, says_device_error};
use super::refusal::Cure;
use super::{
    Bounds, Command, Findings, Forward, MAX_KILLS, NoCheck, Plan, Question, Refusal, Report, Step,
    Tool, Verdict, Wait,
};
use crate::facts::memory::Stage;
use crate::facts::tool::{Outcome, Ran, Trouble};

/// A check of one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ladder(());

/// Whether to check.
#[must_use]
pub fn plan(mount_failed: bool, question: &Question) -> Plan {
    if let Some(why) = question.spared() {
        return Plan::NoCheck(why);
    }
    if !mount_failed && !question.marks.recheck {
        return Plan::NoCheck(NoCheck::OnlyAfterFailedMount);
    }
    let kills = question.kills.check;
    if kills >= MAX_KILLS && !question.marks.recheck {
        return Plan::Forward(Forward::Killed { kills });
    }
    Plan::Trial(super::Ladder::Btrfs(Ladder(())))
}

pub(super) fn first() -> Step {
    Step::Run(Command::new(Tool::Btrfs, &["check", "--readonly"], Bounds::WORK))
}

/// Reads the end of a `btrfs check --readonly`: 0, or 1 for everything else (btrfs-check(8)).
#[must_use]
pub fn read(ran: &Ran) -> Meaning {
    let exit = match exit_of(ran, || findings(ran)) {
        Ok(exit) => exit,
        Err(meaning) => return meaning,
    };
    match exit {
        _ if says_device_error(ran) => Meaning::DeviceRead(findings(ran)),
        0 => Meaning::Clean,
        1 if says(ran, "unsupported") => Meaning::TooOld { said: "btrfs".to_owned() },
        1 if says(ran, "is currently mounted") => Meaning::InUse,
        1 => Meaning::Damaged(findings(ran)),
        exit => Meaning::Unexplained { exit, said: findings(ran) },
    }
}

fn findings(ran: &Ran) -> Findings {
    let lines = ran.stderr.lines().map(str::trim);
    Findings::of(lines.filter(|line| !line.is_empty() && !line.starts_with('[')))
}

impl Ladder {
    pub(super) fn end(self, outcome: &Outcome) -> Verdict {
        let tool = Tool::Btrfs;
        match outcome {
            Outcome::Ran(ran) => judge(read(ran)),
            Outcome::Cancelled => Verdict::Cancelled,
            Outcome::NoTrial => Verdict::Forward(Forward::NoTrial),
            Outcome::NoTool => Verdict::Forward(Forward::NoTool(tool)),
            Outcome::Spoiled(Trouble::NoRoom) => Verdict::Forward(Forward::NoRoom),
            Outcome::Spoiled(Trouble::DeviceRead { errno, .. }) => {
                Verdict::Wait(Wait::DeviceRead { errno: Some(*errno) })
            }
            Outcome::Spoiled(Trouble::DeviceChanged { offset_bytes }) => {
                Verdict::Wait(Wait::DeviceChanged { offset_bytes: *offset_bytes })
            }
            // It was told to write nothing, and it replays nothing.
            Outcome::Spoiled(Trouble::BeyondEnd { .. })
            | Outcome::Replayed
            | Outcome::ReplayRefused { .. }
            | Outcome::ReplayHung => {
                let said = Findings::default();
                Verdict::Wait(Wait::Unexplained { tool, exit: 0, said })
            }
        }
    }
}

fn judge(meaning: Meaning) -> Verdict {
    let tool = Tool::Btrfs;
    match meaning {
        Meaning::Clean => Verdict::Sound(Report::Clean),
        Meaning::Damaged(found) | Meaning::Flood(found) | Meaning::NoSuperblock(found) => {
            Verdict::Refuse(Refusal::Damaged { tool, found, cure: Cure::ByHand })
        }
        Meaning::TooOld { said } => Verdict::Forward(Forward::TooOld { tool, features: said }),
        Meaning::Unusable { exit, said } => {
            Verdict::Forward(Forward::Unusable { tool, exit, said })
        }
        Meaning::NoRoom => Verdict::Forward(Forward::NoRoom),
        Meaning::DeviceRead(_) => Verdict::Wait(Wait::DeviceRead { errno: None }),
        Meaning::InUse => Verdict::Wait(Wait::InUse),
        Meaning::Stuck => Verdict::Wait(Wait::Stuck),
        Meaning::Died(death) => Verdict::Died { death, stage: Stage::Check },
        Meaning::Cancelled => Verdict::Cancelled,
        Meaning::Unexplained { exit, said } => {
            Verdict::Wait(Wait::Unexplained { tool, exit, said })
        }
        Meaning::Replayed
        | Meaning::Repaired(_)
        | Meaning::DirtyLog
        | Meaning::DeviceTooSmall(_) => {
            let said = Findings::default();
            Verdict::Wait(Wait::Unexplained { tool, exit: 0, said })
        }
    }
}
