//! From the end of a ladder to the device: what is written, what is remembered, what is said.

use super::super::{Doing, Examiner, Go, Reason, Subject, Verdict};
use super::climb::{Climbed, died_at};
use super::{CheckRun, Found, Subjected, refused};
use crate::facts::device::DeviceFacts;
use crate::facts::memory::{Event, Stage};
use crate::facts::superblock::{Family, ext};
use crate::facts::tool::Trouble as Spoiled;
use crate::fsck::{self, Forward, Keep, Report, Wait};
use crate::host::{Applied, Host, Mark, Orders, Trial, Unapplied};
use crate::telemetry::Trouble;

impl<H: Host> Examiner<'_, H> {
    pub(super) async fn conclude(
        &self,
        subject: &Subject,
        found: &Found<'_>,
        subjected: Subjected,
        climbed: Climbed<H::Trial>,
        runs: &mut [CheckRun],
        warnings: &mut Vec<Reason>,
    ) -> Result<Go, Verdict> {
        let Climbed { verdict, trial, stage } = climbed;
        let facts = found.facts;
        let verdict = if subject.is_plain_text { verdict.redacted() } else { verdict };
        self.telemetry.checked(verdict.label());
        match (&verdict, trial) {
            // Found clean what was clean: times and counters are not worth a write, and the undo
            // record of a repair is good only as long as nothing was written.
            (fsck::Verdict::Apply { report: Report::Clean, .. }, Some(trial))
                if subjected.was_clean =>
            {
                trial.discard().await;
            }
            (fsck::Verdict::Apply { keep, report }, Some(trial)) if subject.applies => {
                let result = (*keep, report, stage);
                return self.apply(subject, found, subjected, trial, result, runs, warnings).await;
            }
            (_, Some(trial)) => trial.discard().await,
            (_, None) => {}
        }
        let event = match died_at(&verdict) {
            Some(stage) => Event::CheckerKilled(stage),
            None if is_answer(&verdict, subjected.was_clean) => {
                Event::Checked { at_seconds: self.host.now_seconds() }
            }
            None => Event::CheckLeft,
        };
        self.remember(subject, &event).await;
        match verdict {
            fsck::Verdict::Apply { report, .. } | fsck::Verdict::Sound(report) => {
                warnings.extend(would(&report, facts));
                Ok(Go::Sound)
            }
            fsck::Verdict::Forward(why) => {
                if matches!(why, Forward::NoTrial | Forward::NoTool(_) | Forward::Unusable { .. }) {
                    self.telemetry.troubled(Trouble::Checker);
                }
                let remedy = why.remedy(&subject.volume);
                warnings.push(Reason::of("not_checked", facts, &why.to_string(), &remedy));
                Ok(Go::Unchecked)
            }
            fsck::Verdict::Refuse(refusal) => Err(Verdict::Refuse(refused(&refusal, facts))),
            fsck::Verdict::Wait(wait) => Err(waits(&wait, facts)),
            fsck::Verdict::Died { death, .. } => {
                let why = format!("its checker died ({death})");
                let reason = Reason::of("checker_died", facts, &why, "it is tried again by itself");
                Err(Verdict::Wait(reason))
            }
            fsck::Verdict::Cancelled => Err(Verdict::CalledOff),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "each is a part of one moment")]
    async fn apply(
        &self,
        subject: &Subject,
        found: &Found<'_>,
        subjected: Subjected,
        trial: H::Trial,
        (keep, report, stage): (Keep, &Report, Stage),
        runs: &mut [CheckRun],
        warnings: &mut Vec<Reason>,
    ) -> Result<Go, Verdict> {
        let facts = found.facts;
        if keep == Keep::SnapshotFirst {
            trial.discard().await;
            self.remember(subject, &Event::CheckLeft).await;
            let why = "its filesystem is damaged and can be repaired, but no snapshot can be taken \
                       before: the guard does not reach the cluster";
            let remedy =
                "take a snapshot in Longhorn, then set `--repair-backup` to `undo` or `none`";
            return Err(Verdict::Refuse(Reason::of("no_snapshot", facts, why, remedy)));
        }
        self.activity.begin(Doing::Applying);
        let applied = trial.apply(&orders(found, subjected, keep)).await;
        match applied {
            Ok(Applied { changed_bytes, undo }) => {
                if let Some(last) = runs.last_mut() {
                    (last.changed_bytes, last.applied) = (Some(changed_bytes), true);
                }
                let at_seconds = self.host.now_seconds();
                self.remember(subject, &Event::Checked { at_seconds }).await;
                tracing::info!(volume.id = %subject.volume, changed_bytes, ?undo, "check applied");
                let elsewhere = self.policy.device_path.of(&subject.volume) != subject.device;
                warnings.extend(repaired(report, undo.as_deref(), elsewhere, facts));
                Ok(Go::Sound)
            }
            Err(unapplied) => {
                let event = match &unapplied {
                    Unapplied::HalfWritten { redoable: false, .. } => Event::Interrupted,
                    _ => Event::CheckLeft,
                };
                self.remember(subject, &event).await;
                not_applied(&unapplied, stage, subject, facts, warnings)
            }
        }
    }
}

fn not_applied(
    unapplied: &Unapplied,
    stage: Stage,
    subject: &Subject,
    facts: &DeviceFacts,
    warnings: &mut Vec<Reason>,
) -> Result<Go, Verdict> {
    match unapplied {
        Unapplied::Spoiled(Spoiled::NoRoom) => match stage {
            // What a replay or preen does, the plugin's own check does too.
            Stage::Check => {
                let (why, remedy) = (Forward::NoRoom, Forward::NoRoom.remedy(&subject.volume));
                warnings.push(Reason::of("not_checked", facts, &why.to_string(), &remedy));
                Ok(Go::Unchecked)
            }
            // The plugin's own check would destroy what this repair saves.
            Stage::Repair => {
                let why = "its filesystem is damaged, and the repair does not fit in the state \
                           directory or its quota";
                let remedy =
                    "make room there, remove old undo records, or set `--repair-backup none`";
                Err(Verdict::Refuse(Reason::of("no_room", facts, why, remedy)))
            }
        },
        Unapplied::Spoiled(Spoiled::DeviceRead { errno, .. }) => {
            Err(waits(&Wait::DeviceRead { errno: Some(*errno) }, facts))
        }
        Unapplied::Spoiled(Spoiled::DeviceChanged { offset_bytes }) => {
            Err(waits(&Wait::DeviceChanged { offset_bytes: *offset_bytes }, facts))
        }
        Unapplied::Spoiled(Spoiled::BeyondEnd { .. }) | Unapplied::StillOpen => {
            let why = "the result of its check could not be taken over";
            let reason = Reason::of("not_applied", facts, why, "it is tried again by itself");
            Err(Verdict::Wait(reason))
        }
        Unapplied::ReadOnly => {
            let why = "its check wants to write, and the kernel takes no writes to it";
            let remedy = "wait for the engine, or run `blockdev --setrw` on it";
            Err(Verdict::Wait(Reason::of("read_only_device", facts, why, remedy)))
        }
        Unapplied::HalfWritten { why, .. } => {
            let why = format!("a repair could not be written to its end ({why})");
            let remedy = "it is finished as soon as the device takes writes again";
            Err(Verdict::Wait(Reason::of("half_written", facts, &why, remedy)))
        }
    }
}

/// A check that ended by itself, and found nothing that stays.
fn is_answer(verdict: &fsck::Verdict, was_clean: bool) -> bool {
    match verdict {
        fsck::Verdict::Sound(Report::Clean | Report::Replayed) => true,
        fsck::Verdict::Apply { report: Report::Clean, .. } => was_clean,
        _ => false,
    }
}

fn orders(found: &Found<'_>, subjected: Subjected, keep: Keep) -> Orders {
    let (mark, last) = match subjected.family {
        Family::Ext => {
            let at = ext::PRIMARY_OFFSET_BYTES;
            let there = found.bytes.bytes(at, ext::LEN_BYTES);
            let marked = there.and_then(ext::mark::needing_check);
            (marked.map(|bytes| Mark { offset: at, bytes }), at)
        }
        // Nothing in it makes every kernel and every checker look.
        Family::Xfs | Family::Btrfs => (None, 0),
    };
    Orders { fs_uuid: subjected.uuid, mark, last: vec![last], keep_undo: keep == Keep::Undo }
}

fn waits(wait: &Wait, facts: &DeviceFacts) -> Verdict {
    Verdict::Wait(Reason::of("wait", facts, &wait.to_string(), &wait.remedy(&facts.path)))
}

fn would(report: &Report, facts: &DeviceFacts) -> Option<Reason> {
    match report {
        Report::Clean | Report::Replayed => None,
        Report::Repaired(found) | Report::WouldRepair(found) => {
            let why = format!("a check would mend it, and is not to write: {found}");
            Some(Reason::of("would_repair", facts, &why, ""))
        }
    }
}

fn repaired(
    report: &Report,
    undo: Option<&std::path::Path>,
    elsewhere: bool,
    facts: &DeviceFacts,
) -> Option<Reason> {
    let Report::Repaired(found) = report else { return None };
    let remedy = match undo {
        Some(record) => {
            let device = match elsewhere {
                true => format!(" --device {}", facts.path.display()),
                false => String::new(),
            };
            format!("`mount-guard undo {}{device}` takes it back", record.display())
        }
        None => String::new(),
    };
    Some(Reason::of("repaired", facts, &format!("its filesystem was repaired: {found}"), &remedy))
}
