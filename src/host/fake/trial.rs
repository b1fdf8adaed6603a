//! A trial that ends as a test has written down.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::watch;

use super::{FakeExclusive, FakeNode};
use crate::facts::tool::{Launch, Outcome, Progress};
use crate::host::{Applied, CalledOff, Orders, Trial, Unapplied};
use crate::volume::FsType;

/// How long a fake checker takes, so that there is a moment to call it off.
pub const CHECK_TAKES: Duration = Duration::from_secs(10);

pub struct FakeTrial {
    pub(super) node: Arc<FakeNode>,
    pub(super) _exclusive: FakeExclusive,
}

impl FakeTrial {
    async fn step(&self, words: String, called_off: &mut CalledOff) -> Outcome {
        self.node.log(&words);
        tokio::select! {
            () = tokio::time::sleep(CHECK_TAKES) => {}
            () = called_off.raised() => return Outcome::Cancelled,
        }
        self.node.outcomes.lock().unwrap().pop_front().unwrap_or(Outcome::NoTrial)
    }
}

impl Trial for FakeTrial {
    async fn run(
        &mut self,
        launch: &Launch,
        called_off: &mut CalledOff,
        progress: &watch::Sender<Option<Progress>>,
    ) -> Outcome {
        progress.send_replace(Some(Progress { pass: 2, percent: 50 }));
        let tool = launch.candidates[0].rsplit('/').next().unwrap();
        self.step(format!("{tool} {}", launch.options.join(" ")), called_off).await
    }

    async fn replay(&mut self, fs: &FsType, _: Duration, called_off: &mut CalledOff) -> Outcome {
        self.step(format!("replay {}", fs.as_str()), called_off).await
    }

    async fn renew(&mut self) -> Result<(), Outcome> {
        self.node.log("renew");
        Ok(())
    }

    async fn read(&mut self, _: u64, _: usize) -> Option<Vec<u8>> {
        None
    }

    async fn discard(self) {
        self.node.log("discard");
    }

    async fn apply(self, orders: &Orders) -> Result<Applied, Unapplied> {
        self.node.log(if orders.keep_undo { "apply, keep undo" } else { "apply" });
        let takes = Duration::from_secs(self.node.apply_takes.load(Ordering::Relaxed));
        tokio::time::sleep(takes).await;
        match self.node.unapplied.lock().unwrap().take() {
            Some(unapplied) => Err(unapplied),
            None => Ok(Applied { changed_bytes: 4096, undo: None }),
        }
    }
}

impl FakeNode {
    /// What was done to the node, in order.
    pub fn deeds(&self) -> Vec<String> {
        self.deeds.lock().unwrap().clone()
    }

    pub(super) fn log(&self, deed: &str) {
        self.deeds.lock().unwrap().push(deed.to_owned());
    }

    /// Exclusive holds on devices that are not given back.
    pub fn holds(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }
}
