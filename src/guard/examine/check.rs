//! Is the filesystem sound? Plans a check, and climbs its ladder on a trial of the device.

mod apply;
mod climb;

use super::{Doing, Examiner, Go, Reason, Subject, Verdict};
use crate::facts::bytes::DeviceBytes;
use crate::facts::device::DeviceFacts;
use crate::facts::memory::{Event, Stage};
use crate::facts::superblock::ext::{self as ext4, health::Health};
use crate::facts::superblock::{Family, Uuid};
use crate::format::{Content, Filesystem, Lost};
use crate::fsck::{self, NoCheck, Plan, ext, xfs};
use crate::host::Host;
use crate::telemetry::Trouble;

/// A tool that ran, for `mount-guard check` and the log.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckRun {
    pub tool: &'static str,
    pub arguments: Vec<String>,
    /// `None` if it did not end by itself.
    pub exit: Option<i32>,
    pub seconds: f64,
    /// What this and the runs before it changed, in bytes; known of the last one only.
    pub changed_bytes: Option<u64>,
    pub applied: bool,
}

/// A device whose content may be handed on.
pub(super) struct Found<'a> {
    pub facts: &'a DeviceFacts,
    pub content: &'a Content,
    pub bytes: &'a DeviceBytes,
}

/// What a filesystem is known by before and after a repair.
#[derive(Debug, Clone, Copy)]
struct Subjected {
    family: Family,
    uuid: Option<Uuid>,
    /// Nothing on it asked for a check: whoever did, did so from outside.
    was_clean: bool,
}

impl Subjected {
    fn of(family: Family, uuid: Option<Uuid>) -> Self {
        Self { family, uuid, was_clean: false }
    }
}

impl<H: Host> Examiner<'_, H> {
    /// Checks, and writes what a check mended, as far as the subject's mode goes.
    pub(super) async fn check(
        &self,
        subject: &Subject,
        found: Found<'_>,
        hold: Option<H::Exclusive>,
        runs: &mut Vec<CheckRun>,
        warnings: &mut Vec<Reason>,
    ) -> Result<Go, Verdict> {
        let question = self.question(subject);
        let twin = self.find_twin(subject, found.facts, found.content).await;
        let (plan, subjected) = self.plan(subject, &found, &question, twin.as_deref());
        let facts = found.facts;
        let ladder = match plan {
            Plan::NoCheck(why) => return Ok(unchecked(why)),
            Plan::Forward(why) => {
                let remedy = why.remedy(&subject.volume);
                warnings.push(Reason::of("not_checked", facts, &why.to_string(), &remedy));
                return Ok(Go::Unchecked);
            }
            Plan::Refuse(refusal) => return Err(Verdict::Refuse(refused(&refusal, facts))),
            Plan::Trial(ladder) => ladder,
        };
        let Some(hold) = hold else {
            let why = "not checked: whether anybody holds it is not known";
            warnings.push(Reason::of("not_checked", facts, why, ""));
            return Ok(Go::Unchecked);
        };
        let turn = self.take_turn().await?;
        let climbed = self.climb(subject, &found, ladder, hold, runs).await;
        let verdict = self.conclude(subject, &found, subjected, climbed, runs, warnings).await;
        drop(turn);
        if let (Ok(Go::Sound), true) = (&verdict, subject.applies) {
            self.telemetry.cleared(Trouble::Checker);
        }
        verdict
    }

    fn question(&self, subject: &Subject) -> fsck::Question {
        let record = self.record.clone().unwrap_or_default();
        let wanted = match subject.reads_only {
            true => fsck::Wanted::ReadOnly,
            false => fsck::Wanted::ReadWrite,
        };
        fsck::Question {
            wanted,
            mode: subject.fsck,
            backup: self.policy.repair_backup,
            encrypted: subject.is_plain_text,
            marks: record.marks,
            kills: record.kills,
        }
    }

    fn plan(
        &self,
        subject: &Subject,
        found: &Found<'_>,
        question: &fsck::Question,
        twin: Option<&str>,
    ) -> (Plan, Subjected) {
        let size_bytes = found.facts.size_bytes.unwrap_or_default();
        match found.content {
            Content::Filesystem(Filesystem::Ext(superblock)) => {
                let flaw = ext4::groups::find_flaw(superblock, found.bytes);
                let health = Health::of(superblock, self.host.now_seconds()).with_descriptors(flaw);
                let superblock_facts = ext::Superblock::Intact(&health);
                let fs_bytes = superblock.fs_bytes();
                let facts = ext::Facts { superblock: superblock_facts, fs_bytes, size_bytes };
                let (uuid, was_clean) = (Some(superblock.uuid), health.is_clean());
                let subjected = Subjected { family: Family::Ext, uuid, was_clean };
                (ext::plan(&facts, question), subjected)
            }
            Content::Filesystem(Filesystem::Xfs { superblock, log }) => {
                let moment = match subject.mount_failed {
                    true => xfs::Moment::AfterFailedMount { twin },
                    false => xfs::Moment::BeforeMount,
                };
                let facts = xfs::Facts { superblock, log: *log, size_bytes, moment };
                let subjected = Subjected::of(Family::Xfs, Some(superblock.uuid));
                (xfs::plan(&facts, question), subjected)
            }
            Content::Filesystem(Filesystem::Btrfs(superblock)) => {
                let subjected = Subjected::of(Family::Btrfs, Some(superblock.uuid));
                (fsck::btrfs::plan(subject.mount_failed, question), subjected)
            }
            Content::PrimaryLost(lost) => {
                let backup = lost.backup.as_ref();
                let uuid = backup.and_then(|backup| backup.uuid);
                match lost.lost {
                    Lost::Superblock(Family::Ext) => {
                        let copy = backup.and_then(|backup| backup.ext_block);
                        let copy =
                            copy.map(|(block, block_bytes)| ext::Copy { block, block_bytes });
                        let superblock = ext::Superblock::Lost(copy);
                        let facts = ext::Facts { superblock, fs_bytes: 0, size_bytes };
                        let subjected = Subjected::of(Family::Ext, uuid);
                        (ext::plan(&facts, question), subjected)
                    }
                    Lost::Superblock(family) => {
                        (xfs::plan_lost(question), Subjected::of(family, uuid))
                    }
                    Lost::LuksHeader => none(),
                }
            }
            Content::Filesystem(Filesystem::Other(_))
            | Content::Unfinished { .. }
            | Content::Luks(_)
            | Content::Blank { .. }
            | Content::Signature(_)
            | Content::Unknown { .. }
            | Content::PartitionTable(_)
            | Content::Conflict { .. }
            | Content::Unreadable { .. } => none(),
        }
    }

    async fn take_turn(&self) -> Result<super::super::queue::Turn<'_>, Verdict> {
        let mut called_off = self.activity.called_off();
        let turn = self.queue.turn(|place| self.activity.begin(Doing::Queued { place }));
        tokio::select! {
            biased;
            () = called_off.raised() => Err(Verdict::CalledOff),
            turn = turn => Ok(turn),
        }
    }

    /// Remembers what happened; without a directory to write to, says so once.
    pub(super) async fn remember(&self, subject: &Subject, event: &Event) {
        match self.host.remember(&subject.volume, event).await {
            Ok(()) => {
                self.telemetry.cleared(Trouble::StateDirectory);
            }
            Err(error) => self.blind(Trouble::StateDirectory, &error),
        }
    }

    async fn began(&self, subject: &Subject, stage: Stage) {
        match self.host.read_boot().await {
            Ok(boot) => {
                let running = crate::facts::memory::Running { boot, stage };
                self.remember(subject, &Event::CheckBegan(running)).await;
            }
            Err(error) => self.blind(Trouble::StateDirectory, &error),
        }
    }
}

/// Nothing that is checked: what it is, is not ours to judge.
fn none() -> (Plan, Subjected) {
    let subjected = Subjected::of(Family::Ext, None);
    (Plan::NoCheck(NoCheck::OnlyAfterFailedMount), subjected)
}

fn unchecked(why: NoCheck) -> Go {
    match why {
        NoCheck::Clean | NoCheck::MountReplays | NoCheck::OnlyAfterFailedMount => Go::Sound,
        NoCheck::Block | NoCheck::ReadOnly | NoCheck::Off => Go::Unchecked,
    }
}

fn refused(refusal: &fsck::Refusal, facts: &DeviceFacts) -> Reason {
    let remedy = refusal.remedy(&facts.path);
    Reason::of(refusal.label(), facts, &refusal.to_string(), &remedy)
}
