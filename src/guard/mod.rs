//! ORDER: one call at a time for each volume, work that outlives its caller, and what an
//! unknown past forbids.
//!
//! This room decides *when*. What crosses to the plugin it sees only through [`Upstream`]; what
//! happens on the node only through [`crate::host::Host`].

pub mod activity;
pub mod answer;
mod earlier;
pub mod examine;
mod flights;
mod fly;
pub mod policy;
mod prove;
pub mod queue;
pub mod reason;
pub mod request;
mod sent;
mod stage;
#[cfg(test)]
mod tests;
mod unstage;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};
use tracing::{info, warn};

use self::answer::{Answer, Own};
use self::flights::{Boarding, Flights};
pub use self::flights::{ContentDigest, InFlight};
use self::policy::Policy;
use self::queue::Queue;
use self::request::Request;
use self::sent::Sent;
use self::stage::FailedMounts;
use crate::facts::call::{Effect, PluginRun};
use crate::host::Host;
use crate::telemetry::{Decision, Telemetry, Trouble};

/// The plugin, as the guard needs it. `proxy/` implements it.
pub trait Upstream: Send + Sync + 'static {
    /// A call as it came from kubelet, complete and unchanged.
    type Call: Send + 'static;
    /// An answer as it came from the plugin, complete and unchanged.
    type Reply: Clone + Send + Sync + 'static;

    /// Which run of the plugin would answer now; `None` if its socket cannot be looked at.
    fn plugin_run(&self) -> Option<PluginRun>;

    /// Waits for a plugin that is not there, but only until `give_up`; says which run of it would
    /// take a call. A
    /// socket that a dead plugin left behind is no plugin.
    fn reach(
        &self,
        give_up: Instant,
    ) -> impl Future<Output = Result<Option<PluginRun>, NoReply>> + Send;

    /// Sends `call` without a deadline and waits for the answer, however long it takes. Waits
    /// for a plugin that is not there too, but only until `give_up`.
    fn forward(
        &self,
        call: Self::Call,
        give_up: Instant,
    ) -> impl Future<Output = Result<Self::Reply, NoReply>> + Send;

    /// What the plugin said, in the guard's terms.
    fn outcome(reply: &Self::Reply) -> Outcome;

    /// A call that takes back what `request` has mounted, by the plugin's own means; `None` for a
    /// request that mounts nothing.
    fn undo(request: &Request) -> Option<(Request, Self::Call)>;
}

/// Why there is no answer from the plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoReply {
    /// The call never reached the plugin.
    NotSent { why: String },
    /// The call reached the plugin, and then the connection broke: its outcome is unknown.
    Lost { why: String },
}

/// What an answer of the plugin means to kubelet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// Kubelet will hold it for certain that nothing is mounted and nothing is in progress.
    FailedForGood {
        code: &'static str,
        text: String,
    },
    /// Kubelet will hold the outcome for uncertain and undo it one day.
    FailedForNow,
}

/// How long before the caller's own deadline it is answered.
///
/// Five seconds leave room for a loaded node to carry the answer back. At half, kubelet gives up
/// first now and then and reports a bare "context deadline exceeded" instead of our words; at
/// double, a check is interrupted that much more often for nothing.
const ANSWER_MARGIN: Duration = Duration::from_secs(5);

/// When a caller that gave no deadline is answered: kubelet's own limit of 120 s less a margin.
const ANSWER_WITHOUT_DEADLINE: Duration = Duration::from_secs(110);

/// How long a call waits for a plugin that is not there.
///
/// A container of the plugin is back within a few seconds; ten bridges an ordinary restart. At
/// half, restarts would show as errors; at double, a dead plugin is reported that much later.
pub const PLUGIN_WAIT: Duration = Duration::from_secs(10);

/// Stands in front of the plugin for the five volume calls.
pub struct Guard<U: Upstream, H: Host> {
    upstream: U,
    host: H,
    flights: Flights<U::Reply>,
    sent: Sent,
    policy: Policy,
    queue: Queue,
    failed_mounts: FailedMounts,
    telemetry: Arc<Telemetry>,
    leaving: watch::Sender<bool>,
}

/// One volume call, ready for the guard.
pub struct Call<C> {
    pub request: Request,
    /// Equal for two calls whose decoded content is equal.
    pub digest: ContentDigest,
    /// What goes to the plugin.
    pub wire: C,
    /// How long the caller will wait, from now.
    pub patience: Option<Duration>,
}

impl<U: Upstream, H: Host> Guard<U, H> {
    /// Takes up what an earlier run of the guard left behind.
    pub async fn new(upstream: U, host: H, policy: Policy, telemetry: Arc<Telemetry>) -> Arc<Self> {
        let sent = Sent::recall(&host, &telemetry).await;
        if let Err(error) = host.resume_checks().await
            && telemetry.troubled(Trouble::StateDirectory)
        {
            let error: &dyn std::error::Error = &error;
            warn!(error, "working without memory of volumes");
        }
        Arc::new(Self {
            upstream,
            host,
            flights: Flights::default(),
            sent,
            policy,
            queue: Queue::default(),
            failed_mounts: FailedMounts::default(),
            telemetry,
            leaving: watch::Sender::new(false),
        })
    }

    /// Brings devices that an earlier run left half written to their end, as far as they are there
    /// now. The others are finished when they are staged.
    pub async fn finish_what_was_cut_off(&self) {
        let pending = self.host.read_pending().await.unwrap_or_else(|why| {
            if self.telemetry.troubled(Trouble::StateDirectory) {
                warn!(why, "the records of repairs cannot be read");
            }
            Vec::new()
        });
        for volume in pending {
            self.finish(&volume).await;
        }
    }

    pub fn upstream(&self) -> &U {
        &self.upstream
    }

    /// The calls that are with the plugin now.
    pub fn in_flight(&self) -> Vec<InFlight> {
        self.flights.list()
    }

    /// Carries one call through: starts it, joins an equal one, or refuses it beside another.
    ///
    /// Dropping the future is what a caller does that goes away; the work goes on.
    pub async fn call(self: &Arc<Self>, call: Call<U::Call>) -> Answer<U::Reply> {
        let (volume, method) = (call.request.volume().clone(), call.request.method());
        let answer_at = Instant::now() + answer_after(call.patience);
        let mut landing = loop {
            match self.flights.board(&volume, method, call.digest) {
                Boarding::Kept(reply) => {
                    self.note(&call.request, Decision::Kept);
                    return Answer::Plugin(reply);
                }
                Boarding::Busy(other) => {
                    let (running, age, doing) = (other.running, other.age, other.activity.doing());
                    let gives_way =
                        method.effect() == Effect::Unmounts && other.activity.call_off();
                    if gives_way && timeout_at(answer_at, other.ended()).await.is_ok() {
                        self.telemetry.decided(running, Decision::CalledOff);
                        continue;
                    }
                    self.note(&call.request, Decision::Busy);
                    return Answer::Own(Own::Busy { volume, asked: method, running, age, doing });
                }
                Boarding::Joins(landing) => {
                    self.note(&call.request, Decision::Joined);
                    break landing;
                }
                Boarding::Starts(seat) => {
                    self.note(&call.request, Decision::Started);
                    let landing = seat.landing();
                    tokio::spawn(Arc::clone(self).take_off(seat, call.request, call.wire));
                    break landing;
                }
            }
        };
        let mut leaving = self.leaving.subscribe();
        tokio::select! {
            biased;
            answer = landing.answer() => answer,
            () = sleep_until(answer_at) => {
                self.telemetry.decided(method, Decision::StillRunning);
                let (age, doing) = (landing.age(), landing.doing());
                Answer::Own(Own::StillRunning { volume, method, age, doing })
            }
            _ = leaving.wait_for(|leaving| *leaving) => {
                Answer::Own(Own::Leaving { volume, method })
            }
        }
    }

    /// Waits until no call is with the plugin, but no longer than until `give_up`; whoever still
    /// waits then is told that the guard leaves. What the plugin works on is on record.
    pub async fn drain(&self, give_up: Instant) {
        if timeout_at(give_up, self.flights.none_left()).await.is_err() {
            let left: Vec<String> = self.in_flight().iter().map(InFlight::to_string).collect();
            warn!(?left, "leaving while the plugin works");
        }
        self.leaving.send_replace(true);
    }

    fn note(&self, request: &Request, decision: Decision) {
        let method = request.method();
        self.telemetry.decided(method, decision);
        info!(volume.id = %request.volume(), %method, ?decision, "call");
    }
}

/// When a caller is answered that will wait for `patience`. A caller in a hurry gets half of it.
fn answer_after(patience: Option<Duration>) -> Duration {
    match patience {
        None => ANSWER_WITHOUT_DEADLINE,
        Some(patience) => patience.saturating_sub(ANSWER_MARGIN).max(patience / 2),
    }
}
