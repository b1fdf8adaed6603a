//! ORDER: one call at a time for each volume, work that outlives its caller, and what an
//! unknown past forbids.
//!
//! This room decides *when*. What crosses to the plugin it sees only through [`Upstream`]; what
//! happens on the node only through [`crate::host::Host`].

pub mod answer;
mod earlier;
mod flights;
pub mod request;
mod sent;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};
use tracing::{info, warn};

use self::answer::{Answer, Own};
use self::flights::{Boarding, Flights, Seat};
pub use self::flights::{ContentDigest, InFlight};
use self::request::Request;
use self::sent::Sent;
use crate::facts::call::PluginRun;
use crate::host::Host;
use crate::telemetry::{Decision, Telemetry};

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
    pub async fn new(upstream: U, host: H, telemetry: Arc<Telemetry>) -> Arc<Self> {
        let sent = Sent::recall(&host, &telemetry).await;
        let flights = Flights::default();
        let leaving = watch::Sender::new(false);
        Arc::new(Self { upstream, host, flights, sent, telemetry, leaving })
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
        let boarding = self.flights.board(&volume, method, call.digest);
        let mut landing = match boarding {
            Boarding::Kept(reply) => {
                self.note(&call.request, Decision::Kept);
                return Answer::Plugin(reply);
            }
            Boarding::Busy { running, age } => {
                self.note(&call.request, Decision::Busy);
                return Answer::Own(Own::Busy { volume, asked: method, running, age });
            }
            Boarding::Joins(landing) => {
                self.note(&call.request, Decision::Joined);
                landing
            }
            Boarding::Starts(seat) => {
                self.note(&call.request, Decision::Started);
                let landing = seat.landing();
                tokio::spawn(Arc::clone(self).take_off(seat, call.request, call.wire));
                landing
            }
        };
        let mut leaving = self.leaving.subscribe();
        tokio::select! {
            biased;
            answer = landing.answer() => answer,
            () = sleep_until(answer_at) => {
                self.telemetry.decided(method, Decision::StillRunning);
                Answer::Own(Own::StillRunning { volume, method, age: landing.age() })
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

    /// Flies, and lands whatever happens: a panic on the way is a call whose outcome is unknown.
    async fn take_off(self: Arc<Self>, seat: Seat<U::Reply>, request: Request, wire: U::Call) {
        let give_up = Instant::now() + PLUGIN_WAIT;
        // Asked before anything is written down: a record that named the plugin before this one
        // would make the next run of the guard think that the work had died with it.
        let run = match self.upstream.reach(give_up).await {
            Ok(run) => run,
            Err(no_reply) => return seat.land(Answer::Own(Own::no_reply(&request, no_reply))),
        };
        let flight = self.fly(&request, wire, run.as_ref(), give_up);
        match AssertUnwindSafe(flight).catch_unwind().await {
            Ok(answer) => seat.land(answer),
            Err(_) => {
                let lost = NoReply::Lost { why: "panic".into() };
                self.sent.unanswered(&self.host, &request, run.as_ref(), &lost);
                drop(seat);
            }
        }
    }

    /// The way of one call, from the first look to the last.
    async fn fly(
        &self,
        request: &Request,
        wire: U::Call,
        run: Option<&PluginRun>,
        give_up: Instant,
    ) -> Answer<U::Reply> {
        if let Some(refusal) = self.sent.forbids(request, run) {
            return Answer::Own(refusal);
        }
        self.sent.record(&self.host, request, run).await;
        match self.upstream.forward(wire, give_up).await {
            Ok(reply) => {
                let run = || self.upstream.plugin_run();
                match self.sent.answered(&self.host, request, run, &U::outcome(&reply)) {
                    Some(own) => Answer::Own(own),
                    None => Answer::Plugin(reply),
                }
            }
            Err(no_reply) => {
                self.sent.unanswered(&self.host, request, run, &no_reply);
                Answer::Own(Own::no_reply(request, no_reply))
            }
        }
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
