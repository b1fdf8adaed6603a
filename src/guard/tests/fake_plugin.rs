//! A plugin that holds what a plugin holds: its work, which goes on whoever listens, and mounts.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

use crate::facts::call::{Effect, Method, PluginRun};
use crate::guard::request::{Request, StageRequest, UnstageRequest};
use crate::guard::{NoReply, Outcome, Upstream};
use crate::host::MountAt;
use crate::host::fake::FakeHost;

#[derive(Clone, Default)]
pub(super) struct FakePlugin {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    run: u64,
    away: bool,
    panics: bool,
    /// Away, but its socket is still there.
    left_its_socket: bool,
    calls: Vec<Method>,
    /// Ends the work of this run when dropped.
    working: Vec<tokio::task::AbortHandle>,
    mounted: BTreeSet<&'static str>,
    /// The node it mounts on, and what its mounts are like.
    node: Option<(FakeHost, MountAt)>,
    /// It leaves a mount behind when it fails.
    is_careless: bool,
}

#[derive(Debug, Clone)]
pub(super) struct FakeCall {
    pub method: Method,
    pub work: Duration,
    pub outcome: Outcome,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct FakeReply {
    pub outcome: Outcome,
}

impl FakePlugin {
    /// The methods it was asked for, in order.
    pub(super) fn calls(&self) -> Vec<Method> {
        self.state.lock().unwrap().calls.clone()
    }

    pub(super) fn is_mounted(&self) -> bool {
        !self.state.lock().unwrap().mounted.is_empty()
    }

    /// Kills it in the middle of whatever it does, and starts it again.
    pub(super) fn restart(&self) {
        let mut state = self.state.lock().unwrap();
        state.run += 1;
        state.working.drain(..).for_each(|work| work.abort());
    }

    pub(super) fn go_away(&self) {
        self.restart();
        self.state.lock().unwrap().away = true;
    }

    /// From now on a Stage that is done shows as this mount on the node, until its Unstage.
    pub(super) fn mounts_on(&self, host: &FakeHost, mount: MountAt) {
        self.state.lock().unwrap().node = Some((host.clone(), mount));
    }

    /// From now on a Stage that fails leaves its mount behind.
    pub(super) fn mounts_even_if_it_fails(&self) {
        self.state.lock().unwrap().is_careless = true;
    }

    /// From now on what should send a call to it panics instead.
    pub(super) fn panic_when_called(&self) {
        self.state.lock().unwrap().panics = true;
    }

    /// Dies without a chance to remove its socket.
    pub(super) fn be_killed(&self) {
        let mut state = self.state.lock().unwrap();
        state.working.drain(..).for_each(|work| work.abort());
        (state.away, state.left_its_socket) = (true, true);
    }

    /// Starts as another run.
    pub(super) fn come_back(&self) {
        let mut state = self.state.lock().unwrap();
        state.run += 1;
        (state.away, state.left_its_socket) = (false, false);
    }
}

impl State {
    fn show(&self, method: Method) {
        let Some((host, mount)) = &self.node else { return };
        let mut mounts = host.node().mounts.lock().unwrap();
        match method.effect() {
            Effect::Mounts => drop(mounts.insert("/staging".into(), mount.clone())),
            Effect::Unmounts => drop(mounts.remove(std::path::Path::new("/staging"))),
            Effect::Neither => {}
        }
    }
}

impl Upstream for FakePlugin {
    type Call = FakeCall;
    type Reply = FakeReply;

    fn plugin_run(&self) -> Option<PluginRun> {
        let state = self.state.lock().unwrap();
        let run = PluginRun { device: 0, inode: state.run, changed_ns: 0 };
        (!state.away || state.left_its_socket).then_some(run)
    }

    async fn reach(&self, give_up: Instant) -> Result<Option<PluginRun>, NoReply> {
        while self.state.lock().unwrap().away {
            if Instant::now() >= give_up {
                return Err(NoReply::NotSent { why: "no such file".into() });
            }
            sleep(Duration::from_millis(50)).await;
        }
        Ok(self.plugin_run())
    }

    async fn forward(&self, call: FakeCall, give_up: Instant) -> Result<FakeReply, NoReply> {
        self.reach(give_up).await?;
        let panics = std::mem::take(&mut self.state.lock().unwrap().panics);
        assert!(!panics, "on command");
        let (answer, answered) = oneshot::channel();
        let shared = Arc::clone(&self.state);
        let FakeCall { method, work, outcome } = call;
        let work = tokio::spawn(async move {
            sleep(work).await;
            let is_careless = shared.lock().unwrap().is_careless;
            if outcome == Outcome::Done || is_careless {
                shared.lock().unwrap().show(method);
            }
            if outcome == Outcome::Done {
                let mut state = shared.lock().unwrap();
                match method.effect() {
                    Effect::Mounts => state.mounted.insert("/staging"),
                    Effect::Unmounts => state.mounted.remove("/staging"),
                    Effect::Neither => false,
                };
            }
            let _ = answer.send(FakeReply { outcome });
        });
        {
            let mut state = self.state.lock().unwrap();
            state.calls.push(method);
            state.working.push(work.abort_handle());
        }
        answered.await.map_err(|_| NoReply::Lost { why: "broken pipe".into() })
    }

    fn outcome(reply: &FakeReply) -> Outcome {
        reply.outcome.clone()
    }

    fn undo(request: &Request) -> Option<(Request, FakeCall)> {
        let Request::Stage(StageRequest { volume, staging, .. }) = request else { return None };
        let (volume, staging) = (volume.clone(), staging.clone());
        let call =
            FakeCall { method: Method::Unstage, work: Duration::ZERO, outcome: Outcome::Done };
        Some((Request::Unstage(UnstageRequest { volume, staging }), call))
    }
}
