//! The calls that were sent to the plugin and lost sight of, and the record of those under way.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::time::Instant;
use tracing::{info, warn};

use super::answer::Own;
use super::earlier::{self, Earlier, Ruling};
use super::request::Request;
use super::{NoReply, Outcome};
use crate::facts::call::{Effect, Method, PluginRun, SentCall};
use crate::host::{Host, HostError};
use crate::telemetry::{Decision, Telemetry, Trouble};
use crate::volume::VolumeId;

/// Lost calls by place; empty on almost every node at almost any time.
pub(super) struct Sent {
    lost: Mutex<HashMap<Place, Lost>>,
    telemetry: Arc<Telemetry>,
}

/// Where a call mounts or unmounts, and which of the two: a lost Stage is still in doubt when the
/// Unstage after it is lost as well.
type Place = (VolumeId, PathBuf, Effect);

struct Lost {
    call: SentCall,
    since: Instant,
}

impl Lost {
    fn seen_by(&self, run: Option<&PluginRun>) -> Earlier {
        Earlier {
            method: self.call.method,
            // Another socket: the plugin that took the call was stopped. Not known which one
            // took it, or which one is there now: it may be the same.
            same_plugin: match (&self.call.plugin, run) {
                (Some(then), Some(now)) => then == now,
                (None, _) | (_, None) => true,
            },
            age: self.since.elapsed(),
        }
    }
}

impl Sent {
    /// Reads what an earlier run of the guard was sending when it ended.
    pub(super) async fn recall(host: &impl Host, telemetry: &Arc<Telemetry>) -> Self {
        let since = Instant::now();
        let records = host.read_sent().await.unwrap_or_else(|error| {
            Self::report(telemetry, &error);
            Vec::new()
        });
        let lost = records.into_iter().map(|call| {
            info!(volume.id = %call.volume, method = %call.method, "call of an earlier run is unsettled");
            (place(&call), Lost { call, since })
        });
        Self { lost: Mutex::new(lost.collect()), telemetry: Arc::clone(telemetry) }
    }

    /// Why `request` must not be sent now, if so.
    pub(super) fn forbids(&self, request: &Request, run: Option<&PluginRun>) -> Option<Own> {
        let method = request.method();
        let earlier = self.earlier(request, || run.cloned());
        let running = earlier.into_iter().find(|earlier| !earlier::may_send(*earlier, method))?;
        self.telemetry.decided(method, Decision::MayStillRun);
        Some(may_still_run(request, running.method))
    }

    /// Puts `request` on record before it is sent, if its loss could matter.
    pub(super) async fn record(
        &self,
        host: &impl Host,
        request: &Request,
        plugin: Option<&PluginRun>,
    ) {
        if request.method().effect() == Effect::Neither {
            return;
        }
        match host.record_sent(&sent_call(request, plugin)).await {
            Ok(()) => {
                self.telemetry.cleared(Trouble::StateDirectory);
            }
            Err(error) => Self::report(&self.telemetry, &error),
        }
    }

    /// Takes in the plugin's answer; says what to answer instead, where it must not be passed on.
    pub(super) fn answered(
        &self,
        host: &impl Host,
        request: &Request,
        run: impl Fn() -> Option<PluginRun>,
        outcome: &Outcome,
    ) -> Option<Own> {
        let method = request.method();
        let judged = self.earlier(request, run).into_iter().map(|earlier| {
            let ruling = earlier::judge(earlier, method, outcome);
            (ruling, earlier.method)
        });
        let Some((ruling, earlier)) = judged.max_by_key(|(ruling, _)| *ruling) else {
            self.erase(host, request);
            return None;
        };
        info!(volume.id = %request.volume(), %method, ?ruling, "answer after an unsettled call");
        match (ruling, outcome) {
            (Ruling::PassAndSettle, _) => {
                self.settle(host, request);
                self.erase(host, request);
                None
            }
            (Ruling::Pass, _) => {
                self.erase_unless_lost(host, request);
                None
            }
            (Ruling::Withhold, Outcome::FailedForGood { code, text }) => {
                self.erase_unless_lost(host, request);
                self.telemetry.decided(method, Decision::Withheld);
                let (volume, text) = (request.volume().clone(), text.clone());
                Some(Own::Withheld { volume, method, code, text })
            }
            (Ruling::Withhold | Ruling::WithholdUntilOver, _) => {
                self.erase_unless_lost(host, request);
                self.telemetry.decided(method, Decision::MayStillRun);
                Some(may_still_run(request, earlier))
            }
        }
    }

    /// Takes in that there is no answer from the plugin that ran as `run`.
    pub(super) fn unanswered(
        &self,
        host: &impl Host,
        request: &Request,
        run: Option<&PluginRun>,
        no_reply: &NoReply,
    ) {
        match no_reply {
            NoReply::NotSent { .. } => self.erase_unless_lost(host, request),
            NoReply::Lost { .. } => {
                let call = sent_call(request, run);
                self.lost().insert(place(&call), Lost { call, since: Instant::now() });
            }
        }
    }

    /// The lost calls to the path of `request`.
    fn earlier(&self, request: &Request, run: impl Fn() -> Option<PluginRun>) -> Vec<Earlier> {
        let lost = self.lost();
        let there = places(request).into_iter().filter_map(|place| lost.get(&place));
        there.map(|lost| lost.seen_by(run().as_ref())).collect()
    }

    /// Forgets what was lost at the path of `request`.
    fn settle(&self, host: &impl Host, request: &Request) {
        for place in places(request) {
            if let Some(Lost { call, .. }) = self.lost().remove(&place) {
                host.erase_sent(&call);
            }
        }
    }

    /// Takes `request` off the record, but not a lost call of its kind.
    fn erase_unless_lost(&self, host: &impl Host, request: &Request) {
        if !self.lost().contains_key(&place(&sent_call(request, None))) {
            self.erase(host, request);
        }
    }

    fn lost(&self) -> MutexGuard<'_, HashMap<Place, Lost>> {
        self.lost.lock().expect("nothing panics under this lock")
    }

    fn erase(&self, host: &impl Host, request: &Request) {
        if request.method().effect() != Effect::Neither {
            host.erase_sent(&sent_call(request, None));
        }
    }

    /// Said once, not with every call.
    fn report(telemetry: &Telemetry, error: &HostError) {
        if telemetry.troubled(Trouble::StateDirectory) {
            let error: &dyn std::error::Error = error;
            warn!(error, "working without a record of calls under way");
        }
    }
}

fn place(call: &SentCall) -> Place {
    (call.volume.clone(), call.path.clone(), call.method.effect())
}

fn places(request: &Request) -> [Place; 2] {
    [Effect::Mounts, Effect::Unmounts]
        .map(|effect| (request.volume().clone(), request.path().to_owned(), effect))
}

fn sent_call(request: &Request, plugin: Option<&PluginRun>) -> SentCall {
    let (volume, path) = (request.volume().clone(), request.path().to_owned());
    SentCall { volume, method: request.method(), path, plugin: plugin.cloned() }
}

fn may_still_run(request: &Request, earlier: Method) -> Own {
    Own::MayStillRun { volume: request.volume().clone(), method: request.method(), earlier }
}
