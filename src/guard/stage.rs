//! NodeStageVolume: observe, judge, act.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Mutex;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::Instant;
use tracing::{info, warn};

use super::activity::{Activity, Doing};
use super::answer::{Answer, Own};
use super::examine::{Examination, Examiner, Go, Subject, Verdict};
use super::fly::Flight;
use super::reason::Reason;
use super::request::{Access, StageRequest};
use super::{Guard, Outcome, PLUGIN_WAIT, Upstream, policy};
use crate::claims::Expected;
use crate::facts::call::Method;
use crate::facts::device::Node;
use crate::facts::memory::{Event, Held, Record};
use crate::format::{Content, Wanted};
use crate::fsck;
use crate::host::{Host, HostError, MountAt};
use crate::telemetry::{Decision, Trouble};
use crate::volume::VolumeId;

/// How long the look after a failed mount is not repeated.
///
/// It checks the whole filesystem. Ten minutes are five retries of kubelet: at half, a damaged
/// volume keeps a core busy; at double, news come late.
const LOOK_AGAIN: Duration = Duration::from_secs(600);

/// How long a repair that was cut off may keep the start of the guard waiting.
///
/// Ten seconds write a gigabyte. At half, a slow volume is left to its Stage; at double, a dead one
/// keeps all volumes of the node from being mounted that much longer.
const FINISH: Duration = Duration::from_secs(10);

/// When a mount failed last and its device was looked at, by volume.
#[derive(Debug, Default)]
pub(super) struct FailedMounts(Mutex<HashMap<VolumeId, Instant>>);

impl FailedMounts {
    /// Whether this failure is the first for a while, and takes note of it.
    fn is_news(&self, volume: &VolumeId) -> bool {
        let now = Instant::now();
        let mut seen = self.0.lock().expect("nothing panics under this lock");
        seen.retain(|_, at| now.duration_since(*at) < LOOK_AGAIN);
        seen.insert(volume.clone(), now).is_none()
    }

    fn forget(&self, volume: &VolumeId) {
        self.0.lock().expect("nothing panics under this lock").remove(volume);
    }
}

impl<U: Upstream, H: Host> Guard<U, H> {
    pub(super) async fn stage(
        &self,
        req: &StageRequest,
        mut flight: Flight<'_>,
        wire: U::Call,
    ) -> Answer<U::Reply> {
        if is_served_by_nfs(req) {
            // Its device is the share-manager's, wherever that runs: a hold of ours would be in
            // the way of its mount.
            info!(volume.id = %req.volume, "shared volume: checked by its share-manager, not here");
            return self.send(&flight, wire).await;
        }
        let (before, record) = tokio::join!(self.read_mount(req), self.recall(&req.volume));
        let seen = self.look(req, &flight, record.clone()).await;
        // Also of a volume that is refused: what it holds now it must not be formatted for later.
        self.note_content(req, record.as_ref(), &seen).await;
        if let Err(own) = self.rule(req, &seen) {
            return Answer::Own(own);
        }
        if flight.activity.called_off().is_raised() {
            // While a result was written, which nothing cuts off, or a moment ago.
            let (volume, method) = (req.volume.clone(), Method::Stage);
            return Answer::Own(Own::CalledOff { volume, method });
        }
        flight.run = match self.upstream.reach(Instant::now() + PLUGIN_WAIT).await {
            Ok(run) => run,
            Err(no_reply) => return Answer::Own(Own::no_reply(flight.request, no_reply)),
        };
        let answer = self.send(&flight, wire).await;
        match &answer {
            Answer::Own(_) => answer,
            Answer::Plugin(reply) => match U::outcome(reply) {
                Outcome::Done => match self.prove_stage(req, &flight, before, &seen).await {
                    Ok(()) => {
                        self.failed_mounts.forget(&req.volume);
                        self.note_new_filesystem(req, record, &seen).await;
                        answer
                    }
                    Err(own) => Answer::Own(own),
                },
                Outcome::FailedForGood { .. } => {
                    self.after_failure(req, &flight, before, &seen).await;
                    answer
                }
                Outcome::FailedForNow => answer,
            },
        }
    }

    /// Looks at the device. A panic in a judgement stops nobody.
    async fn look(
        &self,
        req: &StageRequest,
        flight: &Flight<'_>,
        record: Option<Record>,
    ) -> Examination {
        let subject = self.subject(req);
        let examiner = self.examiner(flight.activity, record);
        let outer = match AssertUnwindSafe(examiner.examine(&subject)).catch_unwind().await {
            Ok(seen) => seen,
            Err(_) => {
                self.telemetry.troubled(Trouble::Judgement);
                return Examination::unseen();
            }
        };
        if !req.settings.encrypted || !matches!(outer.verdict, Verdict::Go(Go::InUse)) {
            return outer;
        }
        // The plugin has opened it already: its plain side can be looked at.
        for device in policy::plain_paths(&req.volume) {
            let wanted = wanted(req);
            let plain = Subject { device, wanted, is_plain_text: true, ..subject.clone() };
            let inner = examiner.examine(&plain).await;
            if inner.facts.is_some() {
                return inner;
            }
        }
        outer
    }

    fn examiner<'a>(&'a self, activity: &'a Activity, record: Option<Record>) -> Examiner<'a, H> {
        Examiner {
            host: &self.host,
            policy: &self.policy,
            queue: &self.queue,
            telemetry: &self.telemetry,
            activity,
            record,
        }
    }

    /// Finishes a repair of the volume's device that was cut off, if the device is there and free.
    pub(super) async fn finish(&self, volume: &VolumeId) {
        let activity = Activity::new(Doing::Applying);
        let examiner = self.examiner(&activity, None);
        let device = self.policy.device_path.of(volume);
        match self.host.read_device(&device).await {
            Ok((Node::Device(facts), hold)) => {
                let applies = !self.policy.dry_run;
                let finish = examiner.finish(volume, applies, &facts, hold);
                match tokio::time::timeout(FINISH, finish).await {
                    Ok(Ok(_)) => {}
                    Ok(Err(verdict)) => warn!(volume.id = %volume, ?verdict, "not finished yet"),
                    Err(_) => warn!(volume.id = %volume, "not finished yet: no answer"),
                }
            }
            Ok((Node::Absent | Node::NotADevice, _)) | Err(_) => {
                info!(volume.id = %volume, "a repair was cut off; its device is not here now");
            }
        }
    }

    fn subject(&self, req: &StageRequest) -> Subject {
        let volume = req.volume.clone();
        let paths = vec![req.staging.as_path().to_owned()];
        let expected = Expected { paths, ..Expected::unused(volume.clone()) };
        let wanted = match req.settings.encrypted && req.capability.access != Access::Block {
            true => Wanted::Luks,
            false => wanted(req),
        };
        Subject {
            device: self.policy.device_path.of(&volume),
            volume,
            expected,
            wanted,
            reads_only: req.capability.is_read_only(),
            is_plain_text: false,
            fsck: self.fsck_mode(req),
            multipath: self.policy.multipath,
            mount_failed: false,
            applies: !self.policy.dry_run,
        }
    }

    fn fsck_mode(&self, req: &StageRequest) -> fsck::Mode {
        let Some(word) = &req.settings.fsck else { return self.policy.fsck };
        fsck::Mode::parse(word).unwrap_or_else(|| {
            warn!(volume.id = %req.volume, "mount-guard/fsck is none of off, check, preen, repair");
            self.policy.fsck
        })
    }

    /// Turns a verdict into the answer that ends the call, if it is one.
    fn rule(&self, req: &StageRequest, seen: &Examination) -> Result<(), Own> {
        let (volume, method) = (&req.volume, Method::Stage);
        for reason in &seen.warnings {
            let (reason, text) = (reason.kind, reason.to_string());
            warn!(volume.id = %volume, reason, text, "device handed on with a warning");
        }
        let (verdict, reason) = seen.verdict.labels();
        self.telemetry.examined(verdict, reason);
        info!(volume.id = %volume, verdict, reason, "device examined");
        let volume = volume.clone();
        let own = match &seen.verdict {
            Verdict::Go(_) => return Ok(()),
            // Whoever called it off wants the volume, also in a dry run.
            Verdict::CalledOff => return Err(Own::CalledOff { volume, method }),
            Verdict::Refuse(reason) => Own::Refused { volume, method, reason: reason.clone() },
            Verdict::Wait(reason) => Own::DeviceSilent { volume, method, reason: reason.clone() },
        };
        warn!(volume.id = %req.volume, text = own.text(), dry_run = self.policy.dry_run, "refused");
        if self.policy.dry_run {
            return Ok(());
        }
        self.telemetry.decided(method, Decision::Refused);
        Err(own)
    }

    /// Remembers what was seen, before anything is handed on. Written only where it is news.
    async fn note_content(&self, req: &StageRequest, record: Option<&Record>, seen: &Examination) {
        if seen.verdict == Verdict::Go(Go::ToFormat) {
            let at_seconds = self.host.now_seconds();
            return self.remember(&req.volume, &Event::FormatForwarded { at_seconds }).await;
        }
        let held = match &seen.content {
            Some(Content::Filesystem(fs)) => Held { name: fs.name().to_owned(), uuid: fs.uuid() },
            Some(Content::Luks(header)) => Held { name: "LUKS".to_owned(), uuid: header.uuid },
            _ => return,
        };
        // An encrypted volume is known by its header: what is inside is nobody's business.
        let is_inside = req.settings.encrypted && held.name != "LUKS";
        let is_known = record.is_some_and(|record| record.held.as_ref() == Some(&held));
        if !is_inside && !is_known {
            self.remember(&req.volume, &Event::Seen(held)).await;
        }
    }

    /// After a blank device was handed on and mounted: what did the plugin make of it?
    async fn note_new_filesystem(
        &self,
        req: &StageRequest,
        record: Option<Record>,
        seen: &Examination,
    ) {
        let Some(facts) =
            seen.facts.as_deref().filter(|_| seen.verdict == Verdict::Go(Go::ToFormat))
        else {
            return;
        };
        let activity = Activity::new(Doing::Proving);
        let content = self.examiner(&activity, None).read_again(facts).await;
        let made =
            Examination { content, verdict: Verdict::Go(Go::Sound), ..Examination::of(facts) };
        self.note_content(req, record.as_ref(), &made).await;
    }

    /// The plugin refused for good, and kubelet will believe that nothing is mounted: see to it
    /// that this is true, and find out why it failed.
    async fn after_failure(
        &self,
        req: &StageRequest,
        flight: &Flight<'_>,
        before: Option<MountAt>,
        seen: &Examination,
    ) {
        let now = self.read_mount(req).await;
        if let Some(mount) = now.filter(|now| Some(now) != before.as_ref()) {
            let undone = self.undo(flight).await;
            let mount = mount.mount.source.display().to_string();
            warn!(volume.id = %req.volume, mount, undone, "a failed call had left a mount");
        }
        if seen.facts.is_none() || !self.failed_mounts.is_news(&req.volume) {
            return;
        }
        let subject = Subject { mount_failed: true, ..self.subject(req) };
        let record = self.recall(&req.volume).await;
        let again = self.examiner(flight.activity, record).examine(&subject).await;
        let (verdict, reason) = again.verdict.labels();
        self.telemetry.examined(verdict, reason);
        let texts: Vec<String> = again.reasons().map(Reason::to_string).collect();
        warn!(volume.id = %req.volume, verdict, reason, ?texts, "looked at after a failed mount");
    }

    pub(super) async fn read_mount(&self, req: &StageRequest) -> Option<MountAt> {
        match self.host.read_mount(req.staging.as_path()).await {
            Ok(mount) => mount,
            Err(error) => {
                self.blind(Trouble::Node, &error);
                None
            }
        }
    }

    async fn recall(&self, volume: &VolumeId) -> Option<Record> {
        match self.host.recall(volume).await {
            Ok(remembered) => Some(remembered.into_record()),
            Err(error) => {
                self.blind(Trouble::StateDirectory, &error);
                None
            }
        }
    }

    pub(super) async fn remember(&self, volume: &VolumeId, event: &Event) {
        match self.host.remember(volume, event).await {
            Ok(()) => {
                self.telemetry.cleared(Trouble::StateDirectory);
            }
            Err(error) => self.blind(Trouble::StateDirectory, &error),
        }
    }

    /// The guard's own trouble stops nobody, and is said once.
    pub(super) fn blind(&self, trouble: Trouble, error: &HostError) {
        if self.telemetry.troubled(trouble) {
            let error: &dyn std::error::Error = error;
            warn!(error, trouble = trouble.name(), "the guard cannot see");
        }
    }
}

fn wanted(req: &StageRequest) -> Wanted {
    match &req.capability.access {
        Access::Block => Wanted::Block,
        Access::Mount { fs_type, .. } => Wanted::Filesystem(fs_type.clone()),
    }
}

/// A volume of several nodes that is no block device is mounted from its share-manager
/// (longhorn-manager `csi/node_server.go`).
fn is_served_by_nfs(req: &StageRequest) -> bool {
    let capability = &req.capability;
    capability.multi_node && !req.settings.migratable && capability.access != Access::Block
}
