//! The order of things, against a plugin and a node that exist in memory only. The clock is
//! paused: waiting takes no time.

mod fake_plugin;
mod flights;
mod restarts;
mod stage;

use std::sync::Arc;
use std::time::Duration;

use self::fake_plugin::{FakeCall, FakePlugin, FakeReply};
use super::answer::{Answer, Own};
use super::policy::Policy;
use super::request::{Access, Capability, Request, Settings, StageRequest, UnstageRequest};
use super::{Call, ContentDigest, Guard, Outcome};
use crate::facts::call::Method;
use crate::host::fake::FakeHost;
use crate::telemetry::Telemetry;
use crate::volume::{StagingPath, VolumeId};

type TestGuard = Guard<FakePlugin, FakeHost>;

async fn guard(plugin: &FakePlugin, host: &FakeHost) -> Arc<TestGuard> {
    guard_with(plugin, host, Policy::default()).await
}

async fn guard_with(plugin: &FakePlugin, host: &FakeHost, policy: Policy) -> Arc<TestGuard> {
    Guard::new(plugin.clone(), host.clone(), policy, Arc::new(Telemetry::default())).await
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A Stage of volume `v`, or of the one named, that the plugin works on for `work`.
fn stage(volume: &str, work: Duration) -> Call<FakeCall> {
    let request = Request::Stage(StageRequest {
        volume: VolumeId::parse(volume).unwrap(),
        staging: StagingPath::parse("/staging").unwrap(),
        capability: Capability {
            access: Access::Mount { fs_type: None, flags: vec![] },
            reads_only: false,
            multi_node: false,
        },
        settings: Settings::default(),
    });
    call(request, work)
}

fn unstage(volume: &str, work: Duration) -> Call<FakeCall> {
    let request = Request::Unstage(UnstageRequest {
        volume: VolumeId::parse(volume).unwrap(),
        staging: StagingPath::parse("/staging").unwrap(),
    });
    call(request, work)
}

fn call(request: Request, work: Duration) -> Call<FakeCall> {
    let wire = FakeCall { method: request.method(), work, outcome: Outcome::Done };
    let patience = Some(seconds(120));
    Call { request, digest: ContentDigest([0; 32]), wire, patience }
}

trait Changed {
    fn patience(self, patience: Duration) -> Self;
    fn ends_in(self, outcome: Outcome) -> Self;
    fn other_content(self) -> Self;
}

impl Changed for Call<FakeCall> {
    fn patience(mut self, patience: Duration) -> Self {
        self.patience = Some(patience);
        self
    }

    fn ends_in(mut self, outcome: Outcome) -> Self {
        self.wire.outcome = outcome;
        self
    }

    fn other_content(mut self) -> Self {
        self.digest = ContentDigest([1; 32]);
        self
    }
}

fn refused_for_good() -> Outcome {
    Outcome::FailedForGood { code: "INTERNAL", text: "the plugin's words".into() }
}

#[track_caller]
fn assert_plugin_said(answer: &Answer<FakeReply>, outcome: &Outcome) {
    match answer {
        Answer::Plugin(reply) => assert_eq!(&reply.outcome, outcome),
        Answer::Own(own) => panic!("the guard's own answer: {own}"),
    }
}

#[track_caller]
fn assert_own(answer: &Answer<FakeReply>, fits: impl FnOnce(&Own) -> bool) {
    match answer {
        Answer::Own(own) if fits(own) => {
            let text = own.text();
            assert!(text.starts_with("mount-guard: ") && text.len() <= 900, "{text}");
        }
        other => panic!("unexpected: {other:?}"),
    }
}
