//! One call at a time for each volume; equal calls share an answer.

use tokio::time::{Instant, sleep, timeout};

use super::*;

#[tokio::test(start_paused = true)]
async fn ten_equal_calls_are_one_call_of_the_plugin() {
    let plugin = FakePlugin::default();
    let guard = guard(&plugin, &FakeHost::default()).await;
    let calls = (0..10).map(|_| {
        let guard = Arc::clone(&guard);
        tokio::spawn(async move { guard.call(stage("v", seconds(30))).await })
    });
    let calls: Vec<_> = calls.collect();
    for call in calls {
        assert_plugin_said(&call.await.unwrap(), &Outcome::Done);
    }
    assert_eq!(plugin.calls(), [Method::Stage]);
}

#[tokio::test(start_paused = true)]
async fn a_different_call_is_told_what_runs_and_for_how_long() {
    let plugin = FakePlugin::default();
    let guard = guard(&plugin, &FakeHost::default()).await;
    for (first, second) in [
        (stage("v", seconds(30)), unstage("v", seconds(1))),
        (unstage("v", seconds(30)), stage("v", seconds(1))),
        (stage("v", seconds(30)), stage("v", seconds(1)).other_content()),
    ] {
        let running = first.request.method();
        let first = tokio::spawn({
            let guard = Arc::clone(&guard);
            async move { guard.call(first).await }
        });
        sleep(seconds(7)).await;
        let answer = guard.call(second).await;
        assert_own(&answer, |own| {
            matches!(own, Own::Busy { running: named, age, .. }
                if *named == running && age.as_secs() == 7)
        });
        assert_plugin_said(&first.await.unwrap(), &Outcome::Done);
    }
}

#[tokio::test(start_paused = true)]
async fn volumes_do_not_wait_for_each_other() {
    let plugin = FakePlugin::default();
    let guard = guard(&plugin, &FakeHost::default()).await;
    let slow = tokio::spawn({
        let guard = Arc::clone(&guard);
        async move { guard.call(stage("slow", seconds(60))).await }
    });
    let quick = timeout(seconds(2), guard.call(stage("quick", seconds(1)))).await;
    assert_plugin_said(&quick.unwrap(), &Outcome::Done);
    assert_plugin_said(&slow.await.unwrap(), &Outcome::Done);
}

#[tokio::test(start_paused = true)]
async fn what_a_caller_left_behind_answers_the_next_equal_call_once() {
    let plugin = FakePlugin::default();
    let guard = guard(&plugin, &FakeHost::default()).await;
    let gone = timeout(seconds(1), guard.call(stage("v", seconds(30)))).await;
    assert!(gone.is_err());
    sleep(seconds(60)).await;
    assert_plugin_said(&guard.call(stage("v", seconds(30))).await, &Outcome::Done);
    assert_eq!(plugin.calls().len(), 1, "the kept result was the answer");
    assert_plugin_said(&guard.call(stage("v", seconds(30))).await, &Outcome::Done);
    assert_eq!(plugin.calls().len(), 2, "and it was so only once");
}

#[tokio::test(start_paused = true)]
async fn a_kept_result_is_worth_nothing_after_five_minutes_or_another_call() {
    let plugin = FakePlugin::default();
    let guard = guard(&plugin, &FakeHost::default()).await;
    assert!(timeout(seconds(1), guard.call(stage("v", seconds(2)))).await.is_err());
    sleep(seconds(302)).await;
    guard.call(stage("v", seconds(2))).await;
    assert_eq!(plugin.calls().len(), 2);

    assert!(timeout(seconds(1), guard.call(stage("v", seconds(2)))).await.is_err());
    sleep(seconds(2)).await;
    guard.call(unstage("v", seconds(1))).await;
    guard.call(stage("v", seconds(2))).await;
    assert_eq!(plugin.calls().len(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_caller_is_answered_five_seconds_before_its_deadline_and_the_retry_joins() {
    for (patience, answered_after) in
        [(Some(10), 5), (Some(120), 115), (None, 110), (Some(4), 2), (Some(7), 3)]
    {
        let plugin = FakePlugin::default();
        let guard = guard(&plugin, &FakeHost::default()).await;
        let work = seconds(130);
        let start = Instant::now();
        let mut first = stage("v", work);
        first.patience = patience.map(seconds);
        let answer = guard.call(first).await;
        assert_eq!(start.elapsed().as_secs(), answered_after, "{patience:?}");
        assert_own(&answer, |own| matches!(own, Own::StillRunning { .. }));
        let answer = guard.call(stage("v", work).patience(seconds(1000))).await;
        assert_plugin_said(&answer, &Outcome::Done);
        assert_eq!(start.elapsed(), work);
        assert_eq!(plugin.calls().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_plugin_refuses_is_passed_on_to_all_who_wait() {
    let plugin = FakePlugin::default();
    let guard = guard(&plugin, &FakeHost::default()).await;
    let refused = || stage("v", seconds(3)).ends_in(refused_for_good());
    let (one, two) = tokio::join!(guard.call(refused()), guard.call(refused()));
    assert_plugin_said(&one, &refused_for_good());
    assert_plugin_said(&two, &refused_for_good());
    assert_eq!(plugin.calls().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_guard_that_leaves_waits_for_calls_and_then_says_so() {
    let plugin = FakePlugin::default();
    let guard = guard(&plugin, &FakeHost::default()).await;
    let start = Instant::now();
    guard.drain(start + seconds(24)).await;
    assert_eq!(start.elapsed(), seconds(0), "nothing to wait for");

    let answer = guard.call(stage("late", seconds(3))).await;
    assert_own(&answer, |own| matches!(own, Own::Leaving { .. }));
}

#[tokio::test(start_paused = true)]
async fn a_drain_lets_short_calls_end_and_answers_long_ones() {
    let plugin = FakePlugin::default();
    let guard = guard(&plugin, &FakeHost::default()).await;
    let start = Instant::now();
    let (short, long, ()) = tokio::join!(
        guard.call(stage("short", seconds(3))),
        guard.call(stage("long", seconds(60))),
        async {
            sleep(seconds(1)).await;
            guard.drain(start + seconds(24)).await;
        },
    );
    assert_plugin_said(&short, &Outcome::Done);
    assert_own(&long, |own| matches!(own, Own::Leaving { .. }));
    assert_eq!(start.elapsed(), seconds(24));
}
