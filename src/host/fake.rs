//! A node that exists in memory only.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::{Host, HostError};
use crate::facts::call::{Effect, SentCall};
use crate::volume::VolumeId;

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
        let other = |kept: &SentCall| place(kept) != place(call);
        self.node.sent.lock().unwrap().retain(other);
    }

    async fn read_sent(&self) -> Result<Vec<SentCall>, HostError> {
        Ok(self.reach_node().await?.sent.lock().unwrap().clone())
    }
}

fn place(call: &SentCall) -> (&VolumeId, &std::path::Path, Effect) {
    (&call.volume, &call.path, call.method.effect())
}
