//! What is on the device, and whether that may be handed on.

use super::{Doing, Examiner, Reason, Subject, Verdict};
use crate::facts::bytes::DeviceBytes;
use crate::facts::device::DeviceFacts;
use crate::format::{self, Content, Decision, Memory, Note, Question, Step};
use crate::fsck;
use crate::host::{Host, HostError};

/// What was read of a device, and what follows.
pub(super) struct Read {
    pub content: Option<Content>,
    pub bytes: DeviceBytes,
    pub decision: Result<Next, Verdict>,
}

/// What comes after the format guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Check,
    ToFormat,
}

impl<H: Host> Examiner<'_, H> {
    /// Reads until the format guard has decided; watches a blank device as long as it must.
    pub(super) async fn read_content(
        &self,
        subject: &Subject,
        facts: &DeviceFacts,
        warnings: &mut Vec<Reason>,
    ) -> Read {
        let size_bytes = facts.size_bytes.unwrap_or_default();
        let memory = self.memory();
        let mut settled = false;
        loop {
            let mut bytes = DeviceBytes::new(size_bytes);
            let content = match self.identify(facts, &mut bytes).await {
                Ok(content) => content,
                Err(error) => {
                    let why = format!("it could not be read ({error})");
                    let reason = Reason::of("silent", facts, &why, "waiting for its engine");
                    return Read { content: None, bytes, decision: Err(Verdict::Wait(reason)) };
                }
            };
            let question = Question {
                wanted: &subject.wanted,
                memory: &memory,
                size_bytes,
                mode: self.policy.format_guard,
                may_repair: subject.fsck == fsck::Mode::Repair,
                format_allowed: self.record.as_ref().is_some_and(|record| record.format_allowed),
                blank_settled: settled,
                written_bytes: None,
            };
            let decision = match format::judge(&content, &question) {
                Decision::LookAgain { doubtful } => match self.settle(doubtful).await {
                    Ok(()) => {
                        settled = true;
                        continue;
                    }
                    Err(verdict) => Err(verdict),
                },
                decision => decide(decision, subject, facts, warnings),
            };
            return Read { content: Some(content), bytes, decision };
        }
    }

    /// # Errors
    /// Another device is behind the path by now, or no thread could be had.
    pub(super) async fn identify(
        &self,
        facts: &DeviceFacts,
        bytes: &mut DeviceBytes,
    ) -> Result<Content, HostError> {
        loop {
            match format::identify(bytes) {
                Step::Is(content) => return Ok(content),
                Step::Needs(plan) => {
                    let ranges = plan.ranges();
                    self.host.read_content(&facts.path, facts.number, ranges, bytes).await?;
                }
            }
        }
    }

    async fn settle(&self, doubtful: bool) -> Result<(), Verdict> {
        self.activity.begin(Doing::Settling);
        let watch = self.policy.format_settle * if doubtful { 2 } else { 1 };
        let mut called_off = self.activity.called_off();
        tokio::select! {
            () = tokio::time::sleep(watch) => Ok(()),
            () = called_off.raised() => Err(Verdict::CalledOff),
        }
    }

    /// Without a directory of records nothing is known of any volume.
    fn memory(&self) -> Memory {
        let Some(record) = &self.record else { return Memory::Nothing };
        match (&record.held, record.format_forwarded_seconds) {
            (Some(held), _) => {
                Memory::Held(format::Remembered { name: held.name.clone(), uuid: held.uuid })
            }
            (None, Some(at_seconds)) => Memory::FormatForwarded { at_seconds },
            (None, None) => Memory::Nothing,
        }
    }
}

fn decide(
    decision: Decision,
    subject: &Subject,
    facts: &DeviceFacts,
    warnings: &mut Vec<Reason>,
) -> Result<Next, Verdict> {
    match decision {
        Decision::HandOn { notes } => {
            warnings.extend(notes.iter().map(|note| noted(note, subject, facts)));
            Ok(Next::Check)
        }
        Decision::HandOnToFormat => Ok(Next::ToFormat),
        // It is not judged before it was looked at again.
        Decision::LookAgain { .. } => {
            let reason = Reason::of("blank", facts, "it reads blank", "it is looked at again");
            Err(Verdict::Wait(reason))
        }
        Decision::RepairFirst(_) => Ok(Next::Check),
        Decision::Wait { missing } => {
            let why = format!("it is blank, and {missing} cannot be read");
            Err(Verdict::Wait(Reason::of("blank", facts, &why, "it is tried again by itself")))
        }
        Decision::Refuse(refusal @ format::Refusal::Unreadable { .. }) => {
            Err(Verdict::Wait(refused(&refusal, subject, facts)))
        }
        Decision::Refuse(refusal) => Err(Verdict::Refuse(refused(&refusal, subject, facts))),
    }
}

fn refused(refusal: &format::Refusal, subject: &Subject, facts: &DeviceFacts) -> Reason {
    let remedy = refusal.remedy(&subject.volume, &facts.path);
    Reason::of(refusal.label(), facts, &refusal.to_string(), &remedy)
}

fn noted(note: &Note, subject: &Subject, facts: &DeviceFacts) -> Reason {
    match note {
        Note::WouldRefuse(refusal) => refused(refusal, subject, facts),
        Note::WouldWait { missing } => {
            let why = format!("it is blank, and {missing} cannot be read");
            Reason::of("blank", facts, &why, "")
        }
        Note::Changed { was, now } => {
            let why = format!("it held {was} when it was seen last, and holds {now} now");
            Reason::of("changed", facts, &why, "see that this is the right volume")
        }
    }
}
