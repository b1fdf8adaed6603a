//! A node that exists in memory only.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::{Host, HostError};
use crate::facts::call::SentCall;
use crate::facts::memory::{Event, Remembered};
use crate::volume::VolumeId;

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
        let other = |kept: &SentCall| (&kept.volume, &kept.path) != (&call.volume, &call.path);
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
        Ok(self.reach_node().await?.memory.lock().unwrap().remove(volume).is_some())
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

    async fn read_boot(&self) -> Result<String, HostError> {
        Ok(FAKE_BOOT.to_owned())
    }
}
