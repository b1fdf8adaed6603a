//! The node as Linux shows it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::timeout;

use super::{Host, HostError, sent};
use crate::facts::call::SentCall;

/// How long the state directory may take for one verb.
///
/// A second is a thousand times what a healthy disk needs. At half, a busy disk would make the
/// guard forgetful; at double, a hung one would be felt in every call.
const STATE_DEADLINE: Duration = Duration::from_secs(1);

/// This node.
pub struct LinuxHost {
    sent: PathBuf,
}

impl LinuxHost {
    /// Keeps its records under `state_dir`, which is created when first needed.
    #[must_use]
    pub fn new(state_dir: &Path) -> Self {
        Self { sent: state_dir.join("sent") }
    }

    /// Runs `work` where it may block, and stops waiting for it after [`STATE_DEADLINE`].
    async fn bounded<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Path) -> Result<T, HostError> + Send + 'static,
    ) -> Result<T, HostError> {
        let dir = self.sent.clone();
        let work = tokio::task::spawn_blocking(move || work(&dir));
        match timeout(STATE_DEADLINE, work).await {
            Ok(Ok(done)) => done,
            Ok(Err(join)) => std::panic::resume_unwind(join.into_panic()),
            Err(_) => Err(HostError::Deadline {
                path: self.sent.clone(),
                after_ms: STATE_DEADLINE.as_millis(),
            }),
        }
    }
}

impl Host for LinuxHost {
    async fn record_sent(&self, call: &SentCall) -> Result<(), HostError> {
        let call = call.clone();
        self.bounded(move |dir| sent::record(dir, &call)).await
    }

    async fn erase_sent(&self, call: &SentCall) -> Result<(), HostError> {
        let call = call.clone();
        self.bounded(move |dir| sent::erase(dir, &call)).await
    }

    async fn read_sent(&self) -> Result<Vec<SentCall>, HostError> {
        self.bounded(sent::read_all).await
    }
}
