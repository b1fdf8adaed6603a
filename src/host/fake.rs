//! A node that exists in memory only.

mod trial;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

pub use self::trial::{CHECK_TAKES, FakeTrial};
use super::{Held, Host, HostError, MountAt, Room, Unapplied, Written};
use crate::facts::bytes::{ByteRange, DeviceBytes, Outcome, Read};
use crate::facts::call::{Effect, SentCall};
use crate::facts::device::{DeviceFacts, ExclusiveOpen, MountSighting, Node, Sightings};
use crate::facts::memory::{Event, Record, Remembered};
use crate::facts::mounts::Mount;
use crate::facts::process::Process;
use crate::facts::superblock::Uuid;
use crate::facts::tool::Outcome as Ended;
use crate::volume::{DevNumber, VolumeId};

/// What the node calls its boot: it never goes down.
const FAKE_BOOT: &str = "boot";

/// A process's hold on a node. A clone is the same process.
#[derive(Clone, Default)]
pub struct FakeHost {
    node: Arc<FakeNode>,
    killed: Arc<AtomicBool>,
}

/// What the node holds, whoever runs on it.
#[derive(Default)]
pub struct FakeNode {
    pub sent: Mutex<Vec<SentCall>>,
    /// What is remembered of each volume, broken records included.
    pub memory: Mutex<BTreeMap<VolumeId, Remembered>>,
    /// The state directory cannot be written.
    pub read_only: AtomicBool,
    /// What is at a device path; nothing, where there is none.
    pub devices: Mutex<HashMap<PathBuf, FakeDevice>>,
    /// How many exclusive holds on devices there are now.
    pub held: Arc<AtomicUsize>,
    /// How the next steps of checks end, in order.
    pub outcomes: Mutex<VecDeque<Ended>>,
    /// How long an apply takes, in seconds.
    pub apply_takes: std::sync::atomic::AtomicU64,
    /// Why the next apply does not succeed.
    pub unapplied: Mutex<Option<Unapplied>>,
    /// Volumes whose devices may be half written.
    pub pending: Mutex<Vec<VolumeId>>,
    /// What is mounted at a path.
    pub mounts: Mutex<HashMap<PathBuf, MountAt>>,
    /// How a write to a mount ends; it works, where nothing is set.
    pub written: Mutex<Option<Written>>,
    /// What was done, in order.
    deeds: Mutex<Vec<String>>,
}

/// A device with all that could be seen of it. The search for its users shows what
/// [`DeviceFacts::users`] holds; a look at the device itself does not.
#[derive(Clone)]
pub struct FakeDevice {
    pub facts: DeviceFacts,
    pub bytes: DeviceBytes,
}

/// A hold on a device of a [`FakeNode`].
pub struct FakeExclusive(Arc<AtomicUsize>);

impl Drop for FakeExclusive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl FakeNode {
    fn device(&self, fits: impl Fn(&DeviceFacts) -> bool) -> Option<FakeDevice> {
        self.devices.lock().unwrap().values().find(|device| fits(&device.facts)).cloned()
    }

    fn users<T>(
        &self,
        numbers: &[DevNumber],
        users: impl Fn(DeviceFacts) -> Option<Sightings<T>>,
    ) -> Sightings<T> {
        let device = self.device(|facts| numbers.contains(&facts.number));
        let found = device.and_then(|device| users(device.facts));
        found.unwrap_or(Sightings { seen: Vec::new(), unread_processes: 0 })
    }
}

impl FakeHost {
    pub fn node(&self) -> &FakeNode {
        &self.node
    }

    /// Kills the process, whose last wishes no longer reach the node, and starts the next.
    pub fn restart(&self) -> Self {
        self.killed.store(true, Ordering::Relaxed);
        Self { node: Arc::clone(&self.node), killed: Arc::default() }
    }

    fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Relaxed)
    }

    async fn reach_node(&self) -> Result<&FakeNode, HostError> {
        if self.is_killed() {
            std::future::pending::<()>().await;
        }
        if self.node.read_only.load(Ordering::Relaxed) {
            let source = std::io::ErrorKind::ReadOnlyFilesystem.into();
            return Err(HostError::Write { path: "state".into(), source });
        }
        Ok(&self.node)
    }
}

impl Host for FakeHost {
    type Exclusive = FakeExclusive;
    type Trial = FakeTrial;

    async fn read_device(&self, path: &Path) -> Result<(Node, Option<FakeExclusive>), HostError> {
        let Some(device) = self.node.device(|facts| facts.path == path) else {
            return Ok((Node::Absent, None));
        };
        let hold = (device.facts.exclusive_open == ExclusiveOpen::Granted).then(|| {
            self.node.held.fetch_add(1, Ordering::Relaxed);
            FakeExclusive(Arc::clone(&self.node.held))
        });
        let facts = DeviceFacts { users: Default::default(), ..device.facts };
        Ok((Node::Device(Box::new(facts)), hold))
    }

    async fn find_mounts(
        &self,
        numbers: &[DevNumber],
    ) -> Result<Sightings<MountSighting>, HostError> {
        Ok(self.node.users(numbers, |facts| facts.users.mounts))
    }

    async fn find_openers(&self, numbers: &[DevNumber]) -> Result<Sightings<Process>, HostError> {
        Ok(self.node.users(numbers, |facts| facts.users.openers))
    }

    async fn read_content(
        &self,
        path: &Path,
        number: DevNumber,
        ranges: &[ByteRange],
        bytes: &mut DeviceBytes,
    ) -> Result<(), HostError> {
        let device = self.node.device(|facts| facts.path == path);
        let device = device.expect("content is read of a device that was looked at");
        let now = device.facts.number;
        if now != number {
            return Err(HostError::Changed { path: path.into(), was: number, now });
        }
        for range in ranges {
            let len = usize::try_from(range.len_bytes).unwrap();
            bytes.put(
                *range,
                match device.bytes.at(range.offset_bytes, len) {
                    Read::Bytes(found) => Outcome::Bytes(found.to_vec()),
                    Read::Failed { failure, .. } => Outcome::Failed(failure),
                    // What a test did not set is zeros.
                    Read::NotRead | Read::PastEnd => Outcome::Bytes(vec![0; len]),
                },
            );
        }
        Ok(())
    }

    async fn begin_trial(
        &self,
        _: &VolumeId,
        device: Held<'_, FakeExclusive>,
        room: Room,
    ) -> Result<FakeTrial, Ended> {
        self.node.log(&format!("trial in {room:?}"));
        Ok(FakeTrial { node: Arc::clone(&self.node), _exclusive: device.exclusive })
    }

    async fn read_pending(&self) -> Result<Vec<VolumeId>, String> {
        Ok(self.node.pending.lock().unwrap().clone())
    }

    async fn redo(
        &self,
        volume: &VolumeId,
        _: Held<'_, FakeExclusive>,
        _: Option<Uuid>,
    ) -> Result<(), String> {
        self.node.log("redo");
        self.node.pending.lock().unwrap().retain(|other| other != volume);
        Ok(())
    }

    async fn read_mounts(&self) -> Result<Vec<Mount>, HostError> {
        Ok(self.node.mounts.lock().unwrap().values().map(|at| at.mount.clone()).collect())
    }

    async fn read_mount(&self, path: &Path) -> Result<Option<MountAt>, HostError> {
        Ok(self.node.mounts.lock().unwrap().get(path).cloned())
    }

    async fn probe_write(&self, _: &Path) -> Written {
        self.node.written.lock().unwrap().unwrap_or(Written::Yes)
    }

    async fn sync(&self, _: &Path) -> Result<(), HostError> {
        self.node.log("sync");
        Ok(())
    }

    async fn record_sent(&self, call: &SentCall) -> Result<(), HostError> {
        let node = self.reach_node().await?;
        self.erase_sent(call);
        node.sent.lock().unwrap().push(call.clone());
        Ok(())
    }

    fn erase_sent(&self, call: &SentCall) {
        if self.is_killed() || self.node.read_only.load(Ordering::Relaxed) {
            return;
        }
        let other = |kept: &SentCall| place(kept) != place(call);
        self.node.sent.lock().unwrap().retain(other);
    }

    async fn read_sent(&self) -> Result<Vec<SentCall>, HostError> {
        Ok(self.reach_node().await?.sent.lock().unwrap().clone())
    }

    async fn recall(&self, volume: &VolumeId) -> Result<Remembered, HostError> {
        let node = self.reach_node().await?;
        let memory = node.memory.lock().unwrap();
        Ok(memory.get(volume).cloned().unwrap_or(Remembered::Nothing))
    }

    async fn remember(&self, volume: &VolumeId, event: &Event) -> Result<(), HostError> {
        let node = self.reach_node().await?;
        let mut memory = node.memory.lock().unwrap();
        let before = memory.remove(volume).unwrap_or(Remembered::Nothing);
        memory.insert(volume.clone(), Remembered::Record(before.into_record().after(event)));
        Ok(())
    }

    async fn forget(&self, volume: &VolumeId) -> Result<bool, HostError> {
        let node = self.reach_node().await?;
        let given_up = Record::default().after(&Event::Forgotten);
        let mut memory = node.memory.lock().unwrap();
        Ok(memory.insert(volume.clone(), Remembered::Record(given_up)).is_some())
    }

    async fn resume_checks(&self) -> Result<(), HostError> {
        let node = self.reach_node().await?;
        for remembered in node.memory.lock().unwrap().values_mut() {
            if let Remembered::Record(record) = remembered {
                *record = record.clone().resumed(FAKE_BOOT);
            }
        }
        Ok(())
    }

    fn now_seconds(&self) -> u64 {
        1_800_000_000
    }

    async fn read_boot(&self) -> Result<String, HostError> {
        Ok(FAKE_BOOT.to_owned())
    }
}

fn place(call: &SentCall) -> (&VolumeId, &std::path::Path, Effect) {
    (&call.volume, &call.path, call.method.effect())
}
