//! The device itself: what the node shows of it, and the end of an apply that was cut off.

use super::{Examiner, Reason, Subject, Verdict};
use crate::facts::bytes::DeviceBytes;
use crate::facts::device::{DeviceFacts, Node};
use crate::format::{self, Content};
use crate::host::{Held, Host, HostError};
use crate::telemetry::Trouble;
use crate::volume::VolumeId;

/// A device as the node shows it, and the hold on it where nobody else has one.
type Seen<E> = (Box<DeviceFacts>, Option<E>);

impl<H: Host> Examiner<'_, H> {
    /// What is at the device's path; `None`: nothing that could be examined.
    pub(super) async fn read_device(
        &self,
        subject: &Subject,
        warnings: &mut Vec<Reason>,
    ) -> Result<Option<Seen<H::Exclusive>>, Verdict> {
        let (mut facts, hold) = match self.host.read_device(&subject.device).await {
            Ok((Node::Device(facts), hold)) => (facts, hold),
            // The plugin says so in its own words.
            Ok((Node::Absent, _)) => return Ok(None),
            Ok((Node::NotADevice, _)) => {
                let path = subject.device.display();
                let why = format!("{path} is no block device, and is not examined");
                warnings.push(Reason::without_device("no_device", why));
                return Ok(None);
            }
            Err(error @ (HostError::Deadline { .. } | HostError::Changed { .. })) => {
                let why = format!("{error}; waiting for the Longhorn engine");
                return Err(Verdict::Wait(Reason::without_device("silent", why)));
            }
            Err(error) => {
                self.blind(Trouble::Node, &error);
                return Ok(None);
            }
        };
        self.telemetry.cleared(Trouble::Node);
        if facts.wants_users() {
            self.read_users(&mut facts).await;
        }
        Ok(Some((facts, hold)))
    }

    async fn read_users(&self, facts: &mut DeviceFacts) {
        let numbers = facts.numbers();
        match self.host.find_mounts(&numbers).await {
            Ok(mounts) => facts.users.mounts = Some(mounts),
            Err(error) => self.blind(Trouble::Node, &error),
        }
        let is_mounted = facts.users.mounts.as_ref().is_some_and(|mounts| !mounts.seen.is_empty());
        if is_mounted {
            return;
        }
        match self.host.find_openers(&numbers).await {
            Ok(openers) => facts.users.openers = Some(openers),
            Err(error) => self.blind(Trouble::Node, &error),
        }
    }

    /// Whether an apply to the volume's device was cut off. Without a directory of records nobody
    /// can have begun one.
    pub(super) async fn is_pending(&self, volume: &VolumeId) -> bool {
        self.host.read_pending().await.is_ok_and(|pending| pending.contains(volume))
    }

    /// Brings a device that an earlier run of the guard may have left half written to its end.
    pub(in crate::guard) async fn finish(
        &self,
        volume: &VolumeId,
        applies: bool,
        facts: &DeviceFacts,
        hold: Option<H::Exclusive>,
    ) -> Result<Option<H::Exclusive>, Verdict> {
        let half = |why: &str| {
            let why = format!("a repair of it was cut off, and may be half written: {why}");
            let remedy = "it is finished as soon as the device is free and answers";
            Verdict::Wait(Reason::of("half_written", facts, &why, remedy))
        };
        if !applies {
            return Err(half("nothing is to be written now"));
        }
        let exclusive = hold.ok_or_else(|| half("somebody holds it"))?;
        let fs_uuid = self.read_uuid(facts).await;
        let held = Held { path: &facts.path, number: facts.number, exclusive };
        self.host.redo(volume, held, fs_uuid).await.map_err(|why| half(&why))?;
        tracing::info!(volume.id = %volume, "a repair that was cut off is finished");
        // The hold went with the redo; what took the device meanwhile shows now.
        match self.host.read_device(&facts.path).await {
            Ok((Node::Device(now), Some(hold))) if now.number == facts.number => Ok(Some(hold)),
            _ => Err(half("somebody took it")),
        }
    }

    async fn read_uuid(&self, facts: &DeviceFacts) -> Option<crate::facts::superblock::Uuid> {
        let mut bytes = DeviceBytes::new(facts.size_bytes?);
        match self.identify(facts, &mut bytes).await.ok()? {
            Content::Filesystem(fs) => fs.uuid(),
            Content::PrimaryLost(format::PrimaryLost { backup: Some(backup), .. }) => backup.uuid,
            _ => None,
        }
    }
}
