//! Calls: what kubelet asks, and what it may forget.

use std::time::Duration;

use tonic::Status;

use super::{Stage, text};
use crate::support::plugin::{Act, Method};
use crate::support::run;
use crate::support::scene::POD;

pub(super) fn a_whole_life() -> Result<String, String> {
    let stage = &Stage::set();
    let kubelet = &stage.scene.kubelet;
    stage.stage().map_err(text)?;
    for mount in stage.scene.staged() {
        println!("    mounted {} {} on the staging path", mount.source, mount.fs_type);
    }
    stage.say("NodePublishVolume", run(kubelet.set_up(POD, &stage.scene.volume))).map_err(text)?;
    let stats = run(kubelet.volume_stats(POD, &stage.scene.volume)).map_err(text)?;
    let bytes = stats.usage.first().map_or(0, |usage| usage.total);
    println!("  NodeGetVolumeStats: {} MiB in all", bytes >> 20);
    std::fs::write(stage.scene.target(POD).join("data"), "written by the pod")
        .map_err(|error| error.to_string())?;
    println!("  the pod writes");
    stage.end()?;
    Ok("staged, published, unpublished, unstaged through the guard".into())
}

pub(super) fn ten_calls_at_once() -> Result<String, String> {
    let stage = &Stage::set();
    let slow = Act::slow_before(Duration::from_secs(1));
    stage.scene.plugin.script().once(Method::Stage, None, slow);
    let calls = (0..10).map(|_| stage.scene.kubelet.mount_device(&stage.scene.volume));
    let results = run(futures_util::future::join_all(calls));
    let good = results.iter().filter(|result| result.is_ok()).count();
    println!("  10 times NodeStageVolume: {good} OK");
    stage.end()?;
    match (good, stage.asked(Method::Stage)) {
        (10, 1) => Ok("10 answers, one call of the plugin".into()),
        (good, calls) => Err(format!("{good} good answers, {calls} calls of the plugin")),
    }
}

pub(super) fn kubelet_gives_up_first() -> Result<String, String> {
    let stage = &Stage::set();
    println!("  (kubelet waits 8 s, the plugin works for 10 s)");
    let slow = Act::slow_before(Duration::from_secs(10));
    stage.scene.plugin.script().once(Method::Stage, None, slow);
    stage.stage_with_retries().map_err(text)?;
    stage.end()?;
    match stage.asked(Method::Stage) {
        1 => Ok("the retry joined: one call of the plugin".into()),
        calls => Err(format!("{calls} calls of the plugin")),
    }
}

pub(super) fn the_guard_is_killed() -> Result<String, String> {
    let stage = &Stage::set();
    println!("  (the plugin works for 2 s, the guard is killed meanwhile)");
    let slow = Act::slow_before(Duration::from_secs(2));
    stage.scene.plugin.script().once(Method::Stage, None, slow);
    let cut_off = run(async {
        let (result, ()) =
            tokio::join!(stage.scene.kubelet.mount_device(&stage.scene.volume), async {
                while stage.asked(Method::Stage) < 1 {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                stage.guard.borrow_mut().restart();
            });
        result
    });
    let _ = stage.say("NodeStageVolume", cut_off);
    // The retry collides with what the plugin is still at, which the real one refuses for good.
    let collision = Act::fail(Status::internal("/dev/longhorn/pvc is apparently in use"));
    stage.scene.plugin.script().once(Method::Stage, None, collision);
    stage.stage_with_retries().map_err(text)?;
    run(async { tokio::time::sleep(Duration::from_secs(2)).await });
    stage.end()?;
    Ok("kubelet forgot no mount".into())
}
