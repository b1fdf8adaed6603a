//! NodeUnstageVolume: write what is in memory, let the plugin unmount, and see that it is gone.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use super::activity::Doing;
use super::answer::Answer;
use super::fly::Flight;
use super::request::UnstageRequest;
use super::{Guard, Outcome, Upstream};
use crate::claims::{self, Expected};
use crate::facts::device::{ExclusiveOpen, Node};
use crate::host::Host;

/// How long the superblock may take to go after the last unmount.
///
/// What it still writes takes milliseconds; a process that ends a moment later lets go of it too.
/// Half is not enough for a pod's last threads, and double is felt by every pod that moves.
const GOING: Duration = Duration::from_secs(3);

/// Between two looks.
const LOOK: Duration = Duration::from_millis(50);

impl<U: Upstream, H: Host> Guard<U, H> {
    pub(super) async fn unstage(
        &self,
        req: &UnstageRequest,
        flight: Flight<'_>,
        wire: U::Call,
    ) -> Answer<U::Reply> {
        let staging = req.staging.as_path();
        let mount = self.host.read_mount(staging).await.ok().flatten();
        let is_local = mount.is_some_and(|at| !at.mount.fs_type.starts_with("nfs"));
        if is_local && let Err(error) = self.host.sync(staging).await {
            // A dead filesystem says so; the unmount is what counts.
            let error: &dyn std::error::Error = &error;
            warn!(volume.id = %req.volume, error, "not everything could be written");
        }
        let answer = self.send(&flight, wire).await;
        if let Answer::Plugin(reply) = &answer
            && U::outcome(reply) == Outcome::Done
            && is_local
        {
            flight.activity.begin(Doing::Proving);
            self.see_it_go(req).await;
        }
        answer
    }

    /// The plugin's OK stands whatever is seen: what pins a filesystem is said.
    async fn see_it_go(&self, req: &UnstageRequest) {
        let device = self.policy.device_path.of(&req.volume);
        let until = Instant::now() + GOING;
        loop {
            let Ok((Node::Device(mut facts), hold)) = self.host.read_device(&device).await else {
                return;
            };
            drop(hold);
            if facts.exclusive_open != ExclusiveOpen::Busy {
                return;
            }
            if Instant::now() < until {
                sleep(LOOK).await;
                continue;
            }
            let numbers = facts.numbers();
            facts.users.mounts = self.host.find_mounts(&numbers).await.ok();
            facts.users.openers = self.host.find_openers(&numbers).await.ok();
            let claim = claims::judge(&facts, &Expected::unused(req.volume.clone()));
            match claim.text(&facts) {
                Some(text) => warn!(volume.id = %req.volume, text, "unstaged, and still in use"),
                None => info!(volume.id = %req.volume, "unstaged, and still held by its own map"),
            }
            return;
        }
    }
}
