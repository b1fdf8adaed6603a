//! A kubelet-like client: kubelet 1.36's calls, retries, paths and bookkeeping.
//!
//! It makes a fresh connection per call, asks for the capabilities where kubelet does, shares one
//! deadline among the calls of an operation, and remembers what it believes to be mounted. That
//! memory is the point: [`Kubelet::would_leak`] names the mounts kubelet has forgotten.

#![allow(dead_code, reason = "part of the kit: not every test asks for everything")]

mod beliefs;
mod calls;
mod claimed;
mod paths;
mod wire;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mount_guard::csi;
use tonic::Status;

use crate::support::mounts;
use beliefs::Beliefs;
pub use beliefs::{Belief, is_final};
pub use claimed::Claimed;
pub use paths::Paths;

/// When kubelet tries a failed operation again, after its first failure (measured; its backoff
/// starts at 500 ms and doubles).
pub const RETRIES_AT_MS: [u64; 5] = [600, 1700, 3800, 7800, 15900];

/// `csiTimeout`: what all calls of one operation share.
const OPERATION_DEADLINE: Duration = Duration::from_secs(120);

/// The kubelet of one node.
#[derive(Debug)]
pub struct Kubelet {
    paths: Paths,
    socket: PathBuf,
    deadline: Duration,
    pace: f64,
    beliefs: Mutex<Beliefs>,
    /// Counts requests: map entries are turned by it, as Go's maps change their order.
    turn: AtomicUsize,
}

impl Kubelet {
    /// With its root directory and the driver's socket, as the registrar tells it.
    pub fn new(root: &Path, socket: &Path) -> Self {
        Self {
            paths: Paths::under(root),
            socket: socket.to_owned(),
            deadline: OPERATION_DEADLINE,
            pace: 1.0,
            beliefs: Mutex::default(),
            turn: AtomicUsize::new(0),
        }
    }

    #[must_use]
    pub fn with_deadline(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }

    /// Scales the waits between retries: 0.1 is ten times as fast as the real one.
    #[must_use]
    pub fn with_pace(self, pace: f64) -> Self {
        Self { pace, ..self }
    }

    pub fn paths(&self) -> &Paths {
        &self.paths
    }

    /// One attempt of MountDevice: three questions for capabilities and a Stage.
    ///
    /// # Errors
    /// What the driver answered.
    pub async fn mount_device(&self, volume: &Claimed) -> Result<(), Status> {
        let staging = self.paths.staging(volume);
        self.paths.make_staging(volume);
        let until = self.until();
        let result = async {
            self.ask_capabilities(3, until).await?;
            self.call_stage(volume, self.next_turn(), until).await
        };
        let result = result.await;
        let ended = result.as_ref().map(drop).map_err(Status::code);
        self.believe(|beliefs| beliefs.mount_ended(&staging, ended));
        if result.as_ref().is_err_and(|status| is_final(status.code())) {
            self.paths.remove_if_not_mounted(&staging);
        }
        result
    }

    /// One attempt of SetUpAt: three questions for capabilities and a Publish.
    ///
    /// # Errors
    /// What the driver answered.
    pub async fn set_up(&self, pod: &str, volume: &Claimed) -> Result<(), Status> {
        let target = self.paths.target(pod, volume);
        self.paths.make_target_parent(pod, volume);
        let until = self.until();
        let result = async {
            self.ask_capabilities(3, until).await?;
            self.call_publish(pod, volume, self.next_turn(), until).await
        };
        let result = result.await;
        let ended = result.as_ref().map(drop).map_err(Status::code);
        self.believe(|beliefs| beliefs.mount_ended(&target, ended));
        if result.as_ref().is_err_and(|status| is_final(status.code())) {
            self.paths.remove_if_not_mounted(&target);
        }
        result
    }

    /// Brings a volume into a pod: both operations, each tried up to `attempts` times.
    ///
    /// # Errors
    /// The last answer.
    pub async fn start_pod(
        &self,
        pod: &str,
        volume: &Claimed,
        attempts: usize,
    ) -> Result<(), Status> {
        if self.belief(&self.paths.staging(volume)) != Belief::Mounted {
            self.retry(attempts, async || self.mount_device(volume).await).await?;
        }
        self.retry(attempts, async || self.set_up(pod, volume).await).await
    }

    /// Takes the volume from the pod and, as its last user goes, from the node. What kubelet takes
    /// for unmounted it does not touch.
    ///
    /// # Errors
    /// The first failure; kubelet would try again for ever.
    pub async fn delete_pod(&self, pod: &str, volume: &Claimed) -> Result<(), Status> {
        let target = self.paths.target(pod, volume);
        if self.belief(&target) != Belief::Unmounted {
            let result = self.call_unpublish(pod, volume, self.until()).await;
            self.believe(|beliefs| beliefs.unmount_ended(&target, result.is_ok()));
            result?;
        }
        let staging = self.paths.staging(volume);
        let in_use = self.believe(|beliefs| beliefs.has_user(&self.paths.targets_of(volume)));
        if in_use || self.belief(&staging) == Belief::Unmounted {
            return Ok(());
        }
        self.unmount_device(volume).await
    }

    /// One question for capabilities and an Unstage.
    ///
    /// # Errors
    /// What the driver answered.
    pub async fn unmount_device(&self, volume: &Claimed) -> Result<(), Status> {
        let (staging, until) = (self.paths.staging(volume), self.until());
        let result = async {
            self.ask_capabilities(1, until).await?;
            self.call_unstage(volume, until).await
        };
        let result = result.await;
        self.believe(|beliefs| beliefs.unmount_ended(&staging, result.is_ok()));
        if result.is_ok() {
            self.paths.remove_if_not_mounted(&staging);
        }
        result
    }

    /// What follows a larger claim: one question for capabilities and an Expand.
    ///
    /// # Errors
    /// What the driver answered.
    pub async fn expand(
        &self,
        pod: &str,
        volume: &Claimed,
        required_bytes: i64,
    ) -> Result<(), Status> {
        let until = self.until();
        self.ask_capabilities(1, until).await?;
        self.call_expand(pod, volume, required_bytes, until).await
    }

    /// What the statistics loop asks once a minute.
    ///
    /// # Errors
    /// What the driver answered.
    pub async fn volume_stats(
        &self,
        pod: &str,
        volume: &Claimed,
    ) -> Result<csi::NodeGetVolumeStatsResponse, Status> {
        let until = self.until();
        self.ask_capabilities(1, until).await?;
        self.call_volume_stats(pod, volume, until).await
    }

    pub fn belief(&self, path: &Path) -> Belief {
        self.believe(|beliefs| beliefs.of(path))
    }

    /// Mounts at paths that kubelet takes for unmounted, without a doubt: nobody will ever
    /// unmount them.
    pub fn would_leak(&self) -> Vec<PathBuf> {
        let forgotten = self.believe(|beliefs| beliefs.unmounted());
        let is_busy = |path: &PathBuf| {
            mounts::all().iter().any(|mount| mount.path == *path || mount.path.starts_with(path))
        };
        forgotten.into_iter().filter(is_busy).collect()
    }

    /// Repeats an operation as kubelet does, up to `attempts` times in all.
    ///
    /// # Errors
    /// The last answer.
    pub async fn retry<T>(
        &self,
        attempts: usize,
        operation: impl AsyncFn() -> Result<T, Status>,
    ) -> Result<T, Status> {
        let mut result = operation().await;
        let failed_at = tokio::time::Instant::now();
        for at_ms in RETRIES_AT_MS.into_iter().take(attempts.saturating_sub(1)) {
            if result.is_ok() {
                break;
            }
            let pause = Duration::from_millis(at_ms).mul_f64(self.pace);
            tokio::time::sleep_until(failed_at + pause).await;
            result = operation().await;
        }
        result
    }

    fn believe<T>(&self, work: impl FnOnce(&mut Beliefs) -> T) -> T {
        work(&mut self.beliefs.lock().expect("beliefs"))
    }

    fn until(&self) -> tokio::time::Instant {
        tokio::time::Instant::now() + self.deadline
    }

    fn next_turn(&self) -> usize {
        self.turn.fetch_add(1, Ordering::Relaxed)
    }
}
