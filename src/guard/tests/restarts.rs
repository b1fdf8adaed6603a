//! What a restart forgets, and why kubelet leaks no mount over it.

use std::sync::atomic::Ordering;

use tokio::time::{sleep, timeout};

use super::*;

/// A guard that was killed while the plugin worked on a Stage for `work`, and the next one.
async fn restarted_during_stage(plugin: &FakePlugin, work: Duration) -> Arc<TestGuard> {
    let host = FakeHost::default();
    let first = guard(plugin, &host).await;
    assert!(timeout(seconds(1), first.call(stage("v", work))).await.is_err());
    guard(plugin, &host.restart()).await
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_a_final_refusal_is_withheld_until_the_plugin_says_ok() {
    let plugin = FakePlugin::default();
    let guard = restarted_during_stage(&plugin, seconds(30)).await;
    let collides = || stage("v", seconds(1)).ends_in(refused_for_good());
    for _ in 0..3 {
        assert_own(
            &guard.call(collides()).await,
            |own| matches!(own, Own::Withheld { code: "INTERNAL", text, .. } if text.contains("words")),
        );
    }
    sleep(seconds(60)).await;
    assert!(plugin.is_mounted(), "the call of the first guard has ended");
    assert_own(&guard.call(collides()).await, |own| matches!(own, Own::Withheld { .. }));
    assert_plugin_said(&guard.call(stage("v", seconds(1))).await, &Outcome::Done);
    assert_plugin_said(&guard.call(collides()).await, &refused_for_good());
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_an_unstage_is_not_done_while_the_stage_may_run() {
    let plugin = FakePlugin::default();
    let guard = restarted_during_stage(&plugin, seconds(30)).await;
    let answer = guard.call(unstage("v", seconds(1))).await;
    assert_own(&answer, |own| {
        matches!(own, Own::MayStillRun { earlier: Method::Stage, method: Method::Unstage, .. })
    });
    sleep(seconds(60)).await;
    assert!(plugin.is_mounted(), "the mount appeared after the Unstage");
    assert_own(&guard.call(unstage("v", seconds(1))).await, |own| {
        matches!(own, Own::MayStillRun { .. })
    });
    assert!(!plugin.is_mounted(), "each try undoes what there is");
    sleep(seconds(300)).await;
    assert_plugin_said(&guard.call(unstage("v", seconds(1))).await, &Outcome::Done);
    assert!(!plugin.is_mounted());
}

#[tokio::test(start_paused = true)]
async fn a_second_restart_forgets_the_stage_as_little_as_the_first() {
    let (plugin, host) = (FakePlugin::default(), FakeHost::default());
    let first = guard(&plugin, &host).await;
    assert!(timeout(seconds(1), first.call(stage("v", seconds(60)))).await.is_err());
    // The Unstage after it is answered, and its own record must not be all that is left.
    let host = host.restart();
    let second = guard(&plugin, &host).await;
    let undone = second.call(unstage("v", seconds(1))).await;
    assert_own(&undone, |own| matches!(own, Own::MayStillRun { earlier: Method::Stage, .. }));
    // The next one is cut off as well.
    assert!(timeout(seconds(1), second.call(unstage("v", seconds(2)))).await.is_err());
    let third = guard(&plugin, &host.restart()).await;
    sleep(seconds(5)).await;
    let undone = third.call(unstage("v", seconds(1))).await;
    assert_own(&undone, |own| matches!(own, Own::MayStillRun { earlier: Method::Stage, .. }));
    sleep(seconds(60)).await;
    assert!(plugin.is_mounted(), "kubelet would have forgotten this mount");
    plugin.restart();
    assert_plugin_said(&third.call(unstage("v", seconds(1))).await, &Outcome::Done);
    assert!(!plugin.is_mounted());
}

#[tokio::test(start_paused = true)]
async fn a_plugin_restart_ends_the_doubt_about_its_work() {
    let plugin = FakePlugin::default();
    let guard = restarted_during_stage(&plugin, seconds(30)).await;
    plugin.restart();
    assert_plugin_said(&guard.call(unstage("v", seconds(1))).await, &Outcome::Done);
    sleep(seconds(60)).await;
    assert!(!plugin.is_mounted());
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_dies_in_a_call_is_not_final_and_neither_is_the_next_refusal() {
    let plugin = FakePlugin::default();
    let guard = guard(&plugin, &FakeHost::default()).await;
    let (answer, ()) = tokio::join!(guard.call(stage("v", seconds(30))), async {
        sleep(seconds(3)).await;
        plugin.restart();
    });
    assert_own(&answer, |own| matches!(own, Own::PluginLost { .. }));
    let refused = guard.call(stage("v", seconds(1)).ends_in(refused_for_good())).await;
    assert_own(&refused, |own| matches!(own, Own::Withheld { .. }));
    assert_plugin_said(&guard.call(stage("v", seconds(1))).await, &Outcome::Done);
}

#[tokio::test(start_paused = true)]
async fn a_stage_waits_while_an_unseen_unstage_may_run() {
    let plugin = FakePlugin::default();
    let host = FakeHost::default();
    let first = guard(&plugin, &host).await;
    first.call(stage("v", seconds(1))).await;
    assert!(timeout(seconds(1), first.call(unstage("v", seconds(40)))).await.is_err());
    let next = guard(&plugin, &host.restart()).await;
    let calls_before = plugin.calls().len();
    assert_own(&next.call(stage("v", seconds(1))).await, |own| {
        matches!(own, Own::MayStillRun { earlier: Method::Unstage, .. })
    });
    assert_eq!(plugin.calls().len(), calls_before, "it was not even sent");
    sleep(seconds(60)).await;
    assert_plugin_said(&next.call(stage("v", seconds(1))).await, &Outcome::Done);
    assert!(plugin.is_mounted(), "no late Unstage took it away");
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_is_away_is_waited_for_but_not_for_ever() {
    let plugin = FakePlugin::default();
    let host = FakeHost::default();
    let guard = guard(&plugin, &host).await;
    plugin.go_away();
    let answer = timeout(seconds(11), guard.call(stage("v", seconds(1)))).await.unwrap();
    assert_own(&answer, |own| matches!(own, Own::PluginAway { .. }));
    assert!(host.node().sent.lock().unwrap().is_empty(), "what was not sent leaves no record");

    let (answer, ()) = tokio::join!(guard.call(stage("v", seconds(1))), async {
        sleep(seconds(5)).await;
        plugin.come_back();
    });
    assert_plugin_said(&answer, &Outcome::Done);
}

#[tokio::test(start_paused = true)]
async fn a_record_names_the_plugin_that_took_the_call_not_the_dead_one_before_it() {
    let (plugin, host) = (FakePlugin::default(), FakeHost::default());
    let first = guard(&plugin, &host).await;
    plugin.be_killed();
    tokio::join!(timeout(seconds(8), first.call(stage("v", seconds(30)))), async {
        sleep(seconds(5)).await;
        plugin.come_back();
    })
    .0
    .expect_err("the guard is killed while the new plugin works");
    let next = guard(&plugin, &host.restart()).await;
    assert_own(&next.call(unstage("v", seconds(1))).await, |own| {
        matches!(own, Own::MayStillRun { earlier: Method::Stage, .. })
    });
    sleep(seconds(60)).await;
    assert!(plugin.is_mounted(), "kubelet would have forgotten this mount");
}

#[tokio::test(start_paused = true)]
async fn answered_calls_leave_no_record() {
    let (plugin, host) = (FakePlugin::default(), FakeHost::default());
    let guard = guard(&plugin, &host).await;
    guard.call(stage("v", seconds(1))).await;
    guard.call(stage("w", seconds(1)).ends_in(refused_for_good())).await;
    guard.call(unstage("v", seconds(1))).await;
    assert!(host.node().sent.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn without_a_state_directory_calls_still_cross() {
    let (plugin, host) = (FakePlugin::default(), FakeHost::default());
    host.node().read_only.store(true, Ordering::Relaxed);
    let telemetry = Arc::new(Telemetry::default());
    let guard =
        Guard::new(plugin.clone(), host.clone(), Policy::default(), Arc::clone(&telemetry)).await;
    assert_plugin_said(&guard.call(stage("v", seconds(1))).await, &Outcome::Done);
    let trouble = crate::telemetry::Trouble::StateDirectory;
    assert!(telemetry.troubles().contains(&trouble));
    host.node().read_only.store(false, Ordering::Relaxed);
    guard.call(stage("w", seconds(1))).await;
    assert!(!telemetry.troubles().contains(&trouble));
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_the_guard_is_a_call_whose_outcome_is_unknown() {
    let plugin = FakePlugin::default();
    let guard = guard(&plugin, &FakeHost::default()).await;
    plugin.panic_when_called();
    let (one, two) =
        tokio::join!(guard.call(stage("v", seconds(1))), guard.call(stage("v", seconds(1))));
    for answer in [one, two] {
        assert_own(&answer, |own| matches!(own, Own::Broken { .. }));
    }
    let refused = guard.call(stage("v", seconds(1)).ends_in(refused_for_good())).await;
    assert_own(&refused, |own| matches!(own, Own::Withheld { .. }));
    assert_plugin_said(&guard.call(stage("v", seconds(1))).await, &Outcome::Done);
}
