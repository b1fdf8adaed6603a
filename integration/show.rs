//! The word `demo`: the guard at work, told line by line. `integration/demo` runs it.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use tonic::Status;

use crate::support::disk::LoopDisk;
use crate::support::guard::Guard;
use crate::support::kubelet::Kubelet;
use crate::support::plugin::{Act, Method};
use crate::support::run;
use crate::support::scene::{POD, Scene};

/// One scene: how it ended, in words.
type Play = fn(&Stage) -> Result<String, String>;

/// Runs every scene; fails if one does not end as it should.
pub fn demo() -> ExitCode {
    println!("kubelet -> mount-guard -> longhorn-csi-plugin (a stand-in, on a loop device)\n");
    let scenes: [(&str, Play); 4] = [
        ("a new volume", a_whole_life),
        ("ten calls at once", ten_calls_at_once),
        ("kubelet gives up first", kubelet_gives_up_first),
        ("the guard is killed", the_guard_is_killed),
    ];
    let mut failed = false;
    let mut summary = Vec::new();
    for (name, scene) in scenes {
        println!("{name}");
        let start = Instant::now();
        let end = scene(&Stage::set());
        let took = start.elapsed().as_secs_f64();
        failed |= end.is_err();
        let (verdict, text) = match end {
            Ok(text) => ("ok", text),
            Err(text) => ("WRONG", text),
        };
        println!("  {verdict}: {text}\n");
        summary.push(format!("{name:<24} {verdict:<6} {took:>5.1} s  {text}"));
    }
    println!("{}", summary.join("\n"));
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// A node in small, with the guard in front of its plugin.
struct Stage {
    guard: std::cell::RefCell<Guard>,
    scene: Scene,
}

impl Stage {
    fn set() -> Self {
        let mut scene = Scene::new(LoopDisk::new(64 << 20), "ext4");
        let guard = Guard::before(&scene.plugin);
        let kubelet = Kubelet::new(&scene.dir().join("kubelet"), &guard.socket());
        scene.kubelet = kubelet.with_deadline(Duration::from_secs(8)).with_pace(0.5);
        Self { guard: guard.into(), scene }
    }

    fn asked(&self, method: Method) -> usize {
        self.scene.plugin.counts().asked(method)
    }

    fn stage(&self) -> Result<(), Status> {
        self.say("NodeStageVolume", run(self.scene.kubelet.mount_device(&self.scene.volume)))
    }

    /// Tries as kubelet does until it works.
    fn stage_with_retries(&self) -> Result<(), Status> {
        let tries = self.scene.kubelet.retry(6, async || {
            let result = self.scene.kubelet.mount_device(&self.scene.volume).await;
            self.say("NodeStageVolume", result)
        });
        run(tries)
    }

    /// Takes the volume from the node, and looks for what kubelet has forgotten.
    fn end(&self) -> Result<(), String> {
        let delete = self.scene.kubelet.retry(6, async || {
            let result = self.scene.kubelet.delete_pod(POD, &self.scene.volume).await;
            self.say("pod deleted", result)
        });
        run(delete).map_err(|status| status.message().to_owned())?;
        match self.scene.staged().is_empty() && self.scene.kubelet.would_leak().is_empty() {
            true => Ok(()),
            false => Err("something is left mounted".into()),
        }
    }

    fn say<T>(&self, what: &str, result: Result<T, Status>) -> Result<T, Status> {
        match &result {
            Ok(_) => println!("  {what}: OK"),
            Err(status) => println!("  {what}: {:?} {}", status.code(), status.message()),
        }
        result
    }
}

fn text(status: Status) -> String {
    status.message().to_owned()
}

fn a_whole_life(stage: &Stage) -> Result<String, String> {
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

fn ten_calls_at_once(stage: &Stage) -> Result<String, String> {
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

fn kubelet_gives_up_first(stage: &Stage) -> Result<String, String> {
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

fn the_guard_is_killed(stage: &Stage) -> Result<String, String> {
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
