//! ext2, ext3 and ext4: whether to check, and the ladder of e2fsck.
//!
//! ```text
//! preen ── clean, replayed ──────────────────────────▶ apply
//!   ├───── repaired ──▶ proof ── clean ──────────────▶ apply
//!   └── gave up ◀──────── not clean
//!         ▼ mode repair, in a new trial
//!       repair ──▶ proof ── clean ───────────────────▶ apply
//!         ▲──────────┘ not clean, up to three times
//! ```
//!
//! What preen writes before it gives up can destroy what the repair would have saved, hence the
//! new trial.

use super::ext_exit;
use super::meaning::{Death, Meaning};
use super::refusal::Cure;
use super::{
    Bounds, Command, Findings, Forward, Keep, MAX_KILLS, Mode, Next, NoCheck, Plan, Question,
    Refusal, Report, Step, Tool, Verdict, Wait, Which,
};
use crate::facts::memory::Stage;
use crate::facts::superblock::ext::health::Health;
use crate::facts::tool::{Outcome, Ran, Trouble};

/// How often `e2fsck -f -y` may run over one trial.
///
/// Three: one pass may uncover what only the next can mend; what is left after three does not
/// converge.
const MAX_PASSES: u32 = 3;

/// Inodes that a filesystem without a single file has in use: ten that are reserved
/// (`EXT2_GOOD_OLD_FIRST_INO`), and `lost+found`.
const OWN_INODES: u64 = 11;

/// A repair may be clean because nothing is left: with a wrong inode table in a descriptor, `-f -y`
/// takes every file for gone, and from a copy of the superblock all would be saved (1.47.0).
const NOTHING_LEFT: &str =
    "its repair would leave no file; from a copy of the superblock (e2fsck -b) it may save more";

/// What is known of the filesystem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts<'a> {
    pub superblock: Superblock<'a>,
    pub fs_bytes: u64,
    pub size_bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Superblock<'a> {
    Intact(&'a Health),
    Lost(Option<Copy>),
}

/// A copy of the superblock, as `e2fsck -b -B` takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copy {
    pub block: u64,
    pub block_bytes: u32,
}

/// A moment in a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ladder {
    question: Question,
    rung: Rung,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Rung {
    Preen { forced: bool },
    ProvePreen { found: Findings },
    Repair { pass: u32, found: Findings, copy: Option<Copy> },
    ProveRepair { pass: u32, found: Findings },
}

/// Whether to check before a mount.
#[must_use]
pub fn plan(facts: &Facts<'_>, question: &Question) -> Plan {
    if let Some(why) = question.spared() {
        return Plan::NoCheck(why);
    }
    if facts.fs_bytes > facts.size_bytes {
        let (fs_bytes, size_bytes) = (Some(facts.fs_bytes), Some(facts.size_bytes));
        return Plan::Refuse(Refusal::DeviceTooSmall { fs_bytes, size_bytes });
    }
    match facts.superblock {
        Superblock::Intact(health) => plan_intact(health, question),
        Superblock::Lost(copy) => plan_lost(copy, question),
    }
}

fn plan_intact(health: &Health, question: &Question) -> Plan {
    if health.is_clean() && !question.marks.any() {
        return Plan::NoCheck(NoCheck::Clean);
    }
    if health.external_journal {
        return Plan::Forward(Forward::ExternalJournal);
    }
    if health.multiple_mount_protection {
        return Plan::Forward(Forward::MultipleMountProtection);
    }
    let kills = question.kills.check;
    if kills >= MAX_KILLS && !question.marks.recheck {
        return Plan::Forward(Forward::Killed { kills });
    }
    // After an abort the superblock often says just "clean" (facts/kernel.md 5), and e2fsck does
    // not look at its error count.
    let forced = question.marks.any() || health.error_count > 0;
    Plan::Trial(super::Ladder::Ext(Ladder { question: *question, rung: Rung::Preen { forced } }))
}

fn plan_lost(copy: Option<Copy>, question: &Question) -> Plan {
    let found = Findings::of(["the superblock is lost"]);
    match (copy, question.against_repair()) {
        (Some(_), None) => {
            let rung = Rung::Repair { pass: 1, found, copy };
            Plan::Trial(super::Ladder::Ext(Ladder { question: *question, rung }))
        }
        (Some(_), Some(Cure::Repair)) => Plan::Refuse(Refusal::SuperblockLost { repairable: true }),
        (Some(_), Some(cure)) => Plan::Refuse(Refusal::Damaged { tool: Tool::E2fsck, found, cure }),
        (None, _) => Plan::Refuse(Refusal::SuperblockLost { repairable: false }),
    }
}

impl Ladder {
    pub(super) fn first(&self) -> Step {
        step(&self.rung, Bounds::WORK)
    }

    pub(super) fn repairs(&self) -> bool {
        match self.rung {
            Rung::Preen { .. } | Rung::ProvePreen { .. } => false,
            Rung::Repair { .. } | Rung::ProveRepair { .. } => true,
        }
    }

    pub(super) fn next(self, outcome: &Outcome) -> Next<Self> {
        let ran = match outcome {
            Outcome::Ran(ran) => ran,
            Outcome::Cancelled => return Next::Done(Verdict::Cancelled),
            Outcome::Spoiled(Trouble::BeyondEnd { .. }) => return self.beyond_end(),
            Outcome::Spoiled(trouble) => return Next::Done(self.spoiled(*trouble)),
            Outcome::NoTrial => return Next::Done(self.cannot(Forward::NoTrial)),
            Outcome::NoTool => return Next::Done(self.cannot(Forward::NoTool(Tool::E2fsck))),
            // No step of this ladder is a replay.
            Outcome::Replayed | Outcome::ReplayRefused { .. } | Outcome::ReplayHung => {
                return Next::Done(self.cannot(Forward::NoReplay));
            }
        };
        let meaning = ext_exit::read(ran);
        match self.rung.clone() {
            Rung::Preen { .. } => self.preened(meaning, ran),
            Rung::ProvePreen { found } => self.preen_proved(meaning, found),
            Rung::Repair { pass, found, .. } => self.repaired(meaning, ran, pass, found),
            Rung::ProveRepair { pass, found } => self.repair_proved(meaning, ran, pass, found),
        }
    }

    fn preened(self, meaning: Meaning, ran: &Ran) -> Next<Self> {
        match meaning {
            Meaning::Clean => self.sound(Keep::Nothing, Report::Clean),
            Meaning::Replayed => self.sound(Keep::Nothing, Report::Replayed),
            Meaning::Repaired(found) => {
                self.go(Which::Same, Rung::ProvePreen { found }, Bounds::proof(ran.took))
            }
            Meaning::Damaged(found) | Meaning::NoSuperblock(found) | Meaning::Flood(found) => {
                self.damaged(found)
            }
            other => self.otherwise(other),
        }
    }

    fn preen_proved(self, meaning: Meaning, found: Findings) -> Next<Self> {
        match proof(meaning) {
            Proof::Clean => self.sound(Keep::Nothing, Report::Repaired(found)),
            Proof::NotClean(left) => self.damaged(if left.is_empty() { found } else { left }),
            Proof::No(other) => self.otherwise(other),
        }
    }

    fn repaired(self, meaning: Meaning, ran: &Ran, pass: u32, found: Findings) -> Next<Self> {
        match meaning {
            Meaning::Clean | Meaning::Replayed | Meaning::Repaired(_) => {
                let rung = Rung::ProveRepair { pass, found };
                self.go(Which::Same, rung, Bounds::proof(ran.took))
            }
            Meaning::Damaged(left) => self.again(pass, found, left),
            Meaning::Flood(left) | Meaning::NoSuperblock(left) => not_repaired(found, left),
            other => self.otherwise(other),
        }
    }

    fn repair_proved(self, meaning: Meaning, ran: &Ran, pass: u32, found: Findings) -> Next<Self> {
        match proof(meaning) {
            Proof::Clean if ext_exit::files_in_use(ran).is_some_and(|used| used <= OWN_INODES) => {
                not_repaired(found, Findings::of([NOTHING_LEFT]))
            }
            Proof::Clean => {
                let keep = self.question.keep();
                self.sound(keep, Report::Repaired(found))
            }
            Proof::NotClean(left) => self.again(pass, found, left),
            Proof::No(other) => self.otherwise(other),
        }
    }

    fn again(self, pass: u32, found: Findings, left: Findings) -> Next<Self> {
        if pass >= MAX_PASSES {
            return not_repaired(found, left);
        }
        // The first pass wrote the primary superblock anew, if that was lost.
        let rung = Rung::Repair { pass: pass + 1, found, copy: None };
        self.go(Which::Same, rung, Bounds::WORK)
    }

    /// Preen gave up, or cannot be shown to have made it whole.
    fn damaged(self, found: Findings) -> Next<Self> {
        match self.question.against_repair() {
            Some(cure) => {
                Next::Done(Verdict::Refuse(Refusal::Damaged { tool: Tool::E2fsck, found, cure }))
            }
            None => {
                let rung = Rung::Repair { pass: 1, found, copy: None };
                self.go(Which::New, rung, Bounds::WORK)
            }
        }
    }

    fn sound(&self, keep: Keep, report: Report) -> Next<Self> {
        Next::Done(match (self.question.mode, report) {
            (Mode::Check, Report::Repaired(found)) => Verdict::Sound(Report::WouldRepair(found)),
            (Mode::Check, report) => Verdict::Sound(report),
            (Mode::Off | Mode::Preen | Mode::Repair, report) => Verdict::Apply { keep, report },
        })
    }

    /// The ends that mean the same on every rung.
    fn otherwise(&self, meaning: Meaning) -> Next<Self> {
        let tool = Tool::E2fsck;
        Next::Done(match meaning {
            Meaning::TooOld { said } => self.cannot(Forward::TooOld { tool, features: said }),
            Meaning::Unusable { exit, said } => self.cannot(Forward::Unusable { tool, exit, said }),
            Meaning::NoRoom => self.no_room(),
            Meaning::DeviceTooSmall(_) => {
                Verdict::Refuse(Refusal::DeviceTooSmall { fs_bytes: None, size_bytes: None })
            }
            Meaning::DeviceRead(_) => Verdict::Wait(Wait::DeviceRead { errno: None }),
            Meaning::InUse => Verdict::Wait(Wait::InUse),
            Meaning::Stuck => Verdict::Wait(Wait::Stuck),
            Meaning::Died(death) => Verdict::Died { death, stage: self.stage() },
            Meaning::Cancelled => Verdict::Cancelled,
            Meaning::Unexplained { exit, said } => {
                Verdict::Wait(Wait::Unexplained { tool, exit, said })
            }
            Meaning::Clean | Meaning::Replayed | Meaning::DirtyLog => {
                let said = Findings::default();
                Verdict::Wait(Wait::Unexplained { tool, exit: 0, said })
            }
            Meaning::Repaired(said)
            | Meaning::Damaged(said)
            | Meaning::NoSuperblock(said)
            | Meaning::Flood(said) => {
                let cure = Cure::ByHand;
                Verdict::Refuse(Refusal::Damaged { tool, found: said, cure })
            }
        })
    }

    /// The plan has seen that the device is as large as its filesystem: a checker that writes behind
    /// it follows a damaged block number (a garbled resize inode, 1.47.0).
    fn beyond_end(self) -> Next<Self> {
        let wrote = Findings::of(["the checker would write beyond the end of the device"]);
        match self.rung.clone() {
            Rung::Preen { .. } | Rung::ProvePreen { .. } => self.damaged(wrote),
            Rung::Repair { found, .. } | Rung::ProveRepair { found, .. } => {
                not_repaired(found, wrote)
            }
        }
    }

    fn spoiled(&self, trouble: Trouble) -> Verdict {
        match trouble {
            Trouble::NoRoom => self.no_room(),
            Trouble::DeviceRead { errno, .. } => {
                Verdict::Wait(Wait::DeviceRead { errno: Some(errno) })
            }
            Trouble::DeviceChanged { offset_bytes } => {
                Verdict::Wait(Wait::DeviceChanged { offset_bytes })
            }
            Trouble::BeyondEnd { .. } => {
                Verdict::Refuse(Refusal::DeviceTooSmall { fs_bytes: None, size_bytes: None })
            }
        }
    }

    /// The guard's own trouble: it stops nobody, unless damage is proven already.
    fn cannot(&self, why: Forward) -> Verdict {
        match &self.rung {
            Rung::Preen { .. } | Rung::ProvePreen { .. } => Verdict::Forward(why),
            Rung::Repair { found, .. } | Rung::ProveRepair { found, .. } => {
                let (found, cure) = (found.clone(), Cure::ByHand);
                Verdict::Refuse(Refusal::Damaged { tool: Tool::E2fsck, found, cure })
            }
        }
    }

    fn no_room(&self) -> Verdict {
        match &self.rung {
            Rung::Preen { .. } | Rung::ProvePreen { .. } => Verdict::Forward(Forward::NoRoom),
            Rung::Repair { found, .. } | Rung::ProveRepair { found, .. } => {
                let found = found.clone();
                Verdict::Refuse(Refusal::RepairTooLarge { tool: Tool::E2fsck, found })
            }
        }
    }

    fn stage(&self) -> Stage {
        if self.repairs() { Stage::Repair } else { Stage::Check }
    }

    fn go(self, trial: Which, rung: Rung, bounds: Bounds) -> Next<Self> {
        let step = step(&rung, bounds);
        Next::Go { ladder: Self { rung, ..self }, trial, step }
    }
}

/// What the second, forced, read-only pass showed.
enum Proof {
    Clean,
    NotClean(Findings),
    /// It showed nothing.
    No(Meaning),
}

/// Only a pass that ran through and printed nothing else proves anything: one that took a backup
/// superblock or skipped the journal says so, and one that ran out of its bounds found something.
fn proof(meaning: Meaning) -> Proof {
    match meaning {
        Meaning::Clean => Proof::Clean,
        Meaning::Repaired(left)
        | Meaning::Damaged(left)
        | Meaning::NoSuperblock(left)
        | Meaning::Flood(left) => Proof::NotClean(left),
        Meaning::Replayed => Proof::NotClean(Findings::of(["the journal is not empty"])),
        Meaning::Died(Death::Deadline) => Proof::NotClean(Findings::of(["it did not end in time"])),
        other => Proof::No(other),
    }
}

fn not_repaired(found: Findings, left: Findings) -> Next<Ladder> {
    Next::Done(Verdict::Refuse(Refusal::NotRepaired { tool: Tool::E2fsck, found, left }))
}

fn step(rung: &Rung, bounds: Bounds) -> Step {
    let run = |options: &[&str]| Step::Run(Command::new(Tool::E2fsck, options, bounds));
    match rung {
        Rung::Preen { forced: false } => run(&["-p"]),
        Rung::Preen { forced: true } => run(&["-f", "-p"]),
        Rung::ProvePreen { .. } | Rung::ProveRepair { .. } => run(&["-f", "-n"]),
        Rung::Repair { copy: None, .. } => run(&["-f", "-y"]),
        Rung::Repair { copy: Some(copy), .. } => {
            let (block, size) = (copy.block.to_string(), copy.block_bytes.to_string());
            run(&["-f", "-y", "-b", &block, "-B", &size])
        }
    }
}
