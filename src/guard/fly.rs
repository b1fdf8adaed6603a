//! The way of one call, from the first look to the last.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use tokio::time::Instant;

use super::activity::{Activity, Doing};
use super::answer::{Answer, Own};
use super::flights::Seat;
use super::request::Request;
use super::{Guard, NoReply, PLUGIN_WAIT, Upstream};
use crate::facts::call::PluginRun;
use crate::host::Host;

/// A call under way.
pub(super) struct Flight<'a> {
    pub request: &'a Request,
    /// The run of the plugin that would take it now.
    pub run: Option<PluginRun>,
    pub activity: &'a Activity,
}

impl<U: Upstream, H: Host> Guard<U, H> {
    /// Flies, and lands whatever happens: a panic on the way is a call whose outcome is unknown.
    pub(super) async fn take_off(
        self: Arc<Self>,
        seat: Seat<U::Reply>,
        request: Request,
        wire: U::Call,
    ) {
        let give_up = Instant::now() + PLUGIN_WAIT;
        // Asked before anything is written down: a record that named the plugin before this one
        // would make the next run of the guard think that the work had died with it.
        let run = match self.upstream.reach(give_up).await {
            Ok(run) => run,
            Err(no_reply) => return seat.land(Answer::Own(Own::no_reply(&request, no_reply))),
        };
        let activity = seat.activity();
        let flight = Flight { request: &request, run: run.clone(), activity: &activity };
        match AssertUnwindSafe(self.fly(flight, wire)).catch_unwind().await {
            Ok(answer) => seat.land(answer),
            Err(_) => {
                let lost = NoReply::Lost { why: "panic".into() };
                self.sent.unanswered(&self.host, &request, run.as_ref(), &lost);
                drop(seat);
            }
        }
    }

    async fn fly(&self, flight: Flight<'_>, wire: U::Call) -> Answer<U::Reply> {
        if let Some(refusal) = self.sent.forbids(flight.request, flight.run.as_ref()) {
            return Answer::Own(refusal);
        }
        match flight.request {
            Request::Stage(req) => self.stage(req, flight, wire).await,
            Request::Unstage(req) => self.unstage(req, flight, wire).await,
            Request::Publish(_) | Request::Unpublish(_) | Request::Expand(_) => {
                self.send(&flight, wire).await
            }
        }
    }

    /// Sends the call, on record, and takes its answer in.
    pub(super) async fn send(&self, flight: &Flight<'_>, wire: U::Call) -> Answer<U::Reply> {
        let (request, run) = (flight.request, flight.run.as_ref());
        flight.activity.begin(Doing::Plugin);
        self.sent.record(&self.host, request, run).await;
        match self.upstream.forward(wire, Instant::now() + PLUGIN_WAIT).await {
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

    /// Takes back what `request` mounted, by the plugin's own means; says whether that worked.
    pub(super) async fn undo(&self, flight: &Flight<'_>) -> bool {
        let Some((request, wire)) = U::undo(flight.request) else { return false };
        let run = self.upstream.plugin_run();
        let undo = Flight { request: &request, run, activity: flight.activity };
        match self.send(&undo, wire).await {
            Answer::Plugin(reply) => U::outcome(&reply) == super::Outcome::Done,
            Answer::Own(_) => false,
        }
    }
}
