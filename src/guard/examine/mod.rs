//! The look at a device before it is mounted: who holds it, what is on it, is that sound?
//!
//! One recipe for a Stage, for what a Publish stages again, and for `mount-guard check`.

mod check;
mod content;
mod device;
mod twin;

use std::path::PathBuf;

pub use self::check::CheckRun;
use super::activity::{Activity, Doing};
use super::policy::Policy;
use super::queue::Queue;
use super::reason::Reason;
use crate::claims::{self, Claim, Expected, Multipath, Ruling};
use crate::facts::bytes::DeviceBytes;
use crate::facts::device::DeviceFacts;
use crate::facts::memory::Record;
use crate::format::{self, Content};
use crate::fsck;
use crate::host::{Host, HostError};
use crate::telemetry::{Telemetry, Trouble};
use crate::volume::VolumeId;

/// What is to be looked at, and what for.
#[derive(Debug, Clone)]
pub struct Subject {
    pub volume: VolumeId,
    pub device: PathBuf,
    /// What may hold the device without being somebody else.
    pub expected: Expected,
    pub wanted: format::Wanted,
    pub reads_only: bool,
    /// What is on the device is the plain text of an encrypted volume.
    pub is_plain_text: bool,
    pub fsck: fsck::Mode,
    pub multipath: Multipath,
    /// A mount of it failed just now.
    pub mount_failed: bool,
    /// Whether anything may be written to the device.
    pub applies: bool,
}

/// All that was seen, and what follows.
#[derive(Debug)]
pub struct Examination {
    pub facts: Option<Box<DeviceFacts>>,
    pub claim: Option<Claim>,
    pub content: Option<Content>,
    pub checks: Vec<CheckRun>,
    /// What the operator should hear although the device is handed on.
    pub warnings: Vec<Reason>,
    pub verdict: Verdict,
}

/// May the device be mounted?
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Go(Go),
    /// A proof of danger.
    Refuse(Reason),
    /// The device does not answer, or not yet.
    Wait(Reason),
    /// Somebody wanted the volume more.
    CalledOff,
}

/// How far the look went before the device was handed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Go {
    /// There is no device to look at.
    NoDevice,
    /// In use already by what belongs to the volume.
    InUse,
    /// Handed on although it could not, or should not, be looked at closer.
    Unchecked,
    /// It holds what was asked for, and nothing speaks against that.
    Sound,
    /// Blank: whoever gets it will format it.
    ToFormat,
}

/// Who looks, with what it looks with.
pub struct Examiner<'a, H: Host> {
    pub host: &'a H,
    pub policy: &'a Policy,
    pub queue: &'a Queue,
    pub telemetry: &'a Telemetry,
    pub activity: &'a Activity,
    /// `None`: the directory of records could not be read.
    pub record: Option<Record>,
}

impl Examination {
    /// Nothing was seen: the device is handed on as if nobody had looked.
    #[must_use]
    pub fn unseen() -> Self {
        Self {
            facts: None,
            claim: None,
            content: None,
            checks: Vec::new(),
            warnings: Vec::new(),
            verdict: Verdict::Go(Go::NoDevice),
        }
    }

    /// Of a device that was looked at before.
    #[must_use]
    pub fn of(facts: &DeviceFacts) -> Self {
        Self { facts: Some(Box::new(facts.clone())), ..Self::unseen() }
    }

    /// Everything that is to be said, what decides first.
    pub fn reasons(&self) -> impl Iterator<Item = &Reason> {
        let decides = match &self.verdict {
            Verdict::Refuse(reason) | Verdict::Wait(reason) => Some(reason),
            Verdict::Go(_) | Verdict::CalledOff => None,
        };
        decides.into_iter().chain(&self.warnings)
    }
}

impl Verdict {
    /// Two words for log and metric: the verdict, and why.
    #[must_use]
    pub fn labels(&self) -> (&'static str, &'static str) {
        match self {
            Self::Go(go) => ("go", go.label()),
            Self::Refuse(reason) => ("refuse", reason.kind),
            Self::Wait(reason) => ("wait", reason.kind),
            Self::CalledOff => ("called_off", ""),
        }
    }
}

impl Go {
    /// One word for log, metric and `check`'s JSON.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::NoDevice => "no_device",
            Self::InUse => "in_use",
            Self::Unchecked => "unchecked",
            Self::Sound => "sound",
            Self::ToFormat => "to_format",
        }
    }
}

impl<H: Host> Examiner<'_, H> {
    /// Looks at the device. It is free again, and what had to be written is written, once this
    /// has returned.
    pub async fn examine(&self, subject: &Subject) -> Examination {
        self.activity.begin(Doing::Looking);
        let mut seen = Examination::unseen();
        seen.verdict = match self.look(subject, &mut seen).await {
            Ok(go) => Verdict::Go(go),
            Err(verdict) => verdict,
        };
        seen
    }

    /// The steps, each of which may be the last: `Err` holds what ends it early.
    async fn look(&self, subject: &Subject, seen: &mut Examination) -> Result<Go, Verdict> {
        let (read, pending) = tokio::join!(
            self.read_device(subject, &mut seen.warnings),
            self.is_pending(&subject.volume)
        );
        let Some((facts, hold)) = read? else { return Ok(Go::NoDevice) };
        let facts = &**seen.facts.insert(facts);
        let claim = seen.claim.insert(claims::judge(facts, &subject.expected));
        let ruling = claim.ruling(subject.multipath, subject.reads_only);
        let said = || {
            let (why, remedy) = claim.says(facts)?;
            Some(Reason::of(claim.label(), facts, &why, &remedy))
        };
        match ruling {
            Ruling::Examine | Ruling::LookOnly => {}
            Ruling::Forward { aloud } => {
                seen.warnings.extend(said().filter(|_| aloud));
                return Ok(if aloud { Go::Unchecked } else { Go::InUse });
            }
            Ruling::Refuse => return Err(said().map_or(Verdict::Go(Go::InUse), Verdict::Refuse)),
            Ruling::Wait => return Err(said().map_or(Verdict::Go(Go::InUse), Verdict::Wait)),
        }
        if ruling == Ruling::LookOnly && *claim != Claim::ReadOnlyDevice {
            seen.warnings.extend(said());
        }
        if subject.wanted == format::Wanted::Block {
            return Ok(Go::Sound);
        }
        let hold = if pending {
            let hold = self.finish(&subject.volume, subject.applies, facts, hold).await?;
            let why = "a repair of it that was cut off is finished now";
            seen.warnings.push(Reason::of("finished", facts, why, ""));
            hold
        } else {
            hold
        };
        let hold = if ruling == Ruling::Examine { hold } else { None };
        let read = self.read_content(subject, facts, &mut seen.warnings).await;
        seen.content.clone_from(&read.content);
        match read.decision? {
            content::Next::ToFormat => return Ok(Go::ToFormat),
            content::Next::Check => {}
        }
        let Some(content) = &seen.content else { return Ok(Go::Unchecked) };
        let found = check::Found { facts, content, bytes: &read.bytes };
        self.check(subject, found, hold, &mut seen.checks, &mut seen.warnings).await
    }

    /// What is on the device now, whoever uses it; `None` if that cannot be read.
    pub async fn read_again(&self, facts: &DeviceFacts) -> Option<Content> {
        let mut bytes = DeviceBytes::new(facts.size_bytes?);
        self.identify(facts, &mut bytes).await.ok()
    }

    /// Notes that the guard itself is in trouble, which stops nobody (DESIGN, promise 6).
    fn blind(&self, trouble: Trouble, error: &HostError) {
        if self.telemetry.troubled(trouble) {
            let error: &dyn std::error::Error = error;
            tracing::warn!(error, trouble = trouble.name(), "the guard cannot see");
        }
    }
}
