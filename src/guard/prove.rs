//! The proof after the plugin's OK: the mount is there, it is the volume's, and it takes a write.

use super::activity::Doing;
use super::answer::Own;
use super::examine::Examination;
use super::fly::Flight;
use super::request::{Access, StageRequest};
use super::{Guard, Upstream, policy};
use crate::facts::call::Method;
use crate::facts::device::{DeviceFacts, Node};
use crate::facts::memory::Event;
use crate::facts::mounts::Mount;
use crate::host::{Host, MountAt, Written};
use crate::telemetry::Decision;
use crate::volume::DevNumber;

impl<U: Upstream, H: Host> Guard<U, H> {
    /// # Errors
    /// What to answer in place of the plugin's OK.
    pub(super) async fn prove_stage(
        &self,
        req: &StageRequest,
        flight: &Flight<'_>,
        before: Option<MountAt>,
        seen: &Examination,
    ) -> Result<(), Own> {
        let Some(facts) = seen.facts.as_deref() else { return Ok(()) };
        if req.capability.access == Access::Block || self.policy.dry_run {
            return Ok(());
        }
        flight.activity.begin(Doing::Proving);
        let now = self.read_mount(req).await;
        let Err(flaw) = self.find_flaw(req, facts, now.as_ref()).await else {
            return Ok(());
        };
        let (volume, method) = (req.volume.clone(), Method::Stage);
        self.telemetry.decided(method, Decision::NotProven);
        let why = if now.is_some() && now == before {
            // Pods may be on it: it is not this call's to take away.
            self.remember(&volume, &Event::Incident).await;
            format!(
                "but {flaw}; the mount is older than this call and stays: delete the pods on it"
            )
        } else if self.undo(flight).await {
            format!("but {flaw}; that was undone, and is tried again by itself")
        } else {
            format!("but {flaw}; undoing it failed, and is tried again when the pod goes")
        };
        tracing::warn!(volume.id = %volume, text = why, "the plugin's OK does not stand");
        Err(Own::NotProven { volume, method, why })
    }

    async fn find_flaw(
        &self,
        req: &StageRequest,
        facts: &DeviceFacts,
        now: Option<&MountAt>,
    ) -> Result<(), String> {
        let (staging, number) = (req.staging.as_path(), facts.number);
        let device = format!("device {} ({number})", facts.path.display());
        let Some(MountAt { mount, .. }) = now else {
            return Err(format!("{device} is not mounted: nothing is at {}", staging.display()));
        };
        if mount.fs_type.starts_with("nfs") {
            return Ok(());
        }
        if mount.number != number && !self.is_volumes(req, number, mount).await {
            return Err(format!(
                "{device} is not mounted: {} ({}) is at {}",
                mount.source.display(),
                mount.number,
                staging.display()
            ));
        }
        if req.capability.is_read_only() {
            return Ok(());
        }
        match self.host.probe_write(staging).await {
            Written::Yes | Written::Full | Written::NotSupported => Ok(()),
            Written::ReadOnly => Err(format!("{device} is mounted read-only and takes no writes")),
            Written::Failed { errno } => {
                Err(format!("{device} is mounted, and a write to it fails (errno {errno})"))
            }
            Written::Silent => {
                Err(format!("{device} is mounted, and a write to it does not come back"))
            }
        }
    }

    /// btrfs has a number of its own, and an encrypted volume is mounted by its plain side.
    async fn is_volumes(&self, req: &StageRequest, number: DevNumber, mount: &Mount) -> bool {
        let is_plain =
            req.settings.encrypted && policy::plain_paths(&req.volume).contains(&mount.source);
        let is_anonymous = mount.number.major == 0;
        if !is_plain && !is_anonymous {
            return false;
        }
        match self.host.read_device(&mount.source).await {
            Ok((Node::Device(facts), _)) if is_anonymous => is_plain || facts.number == number,
            Ok((Node::Device(facts), _)) => facts.number == mount.number,
            Ok((Node::Absent | Node::NotADevice, _)) | Err(_) => false,
        }
    }
}
