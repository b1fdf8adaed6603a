//! The word `demo`: the guard at work, told line by line. `integration/demo` runs it.

mod calls;
mod damage;
mod trouble;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use tonic::Status;

use crate::support::disk::LoopDisk;
use crate::support::guard::Guard;
use crate::support::kubelet::Kubelet;
use crate::support::plugin::Method;
use crate::support::run;
use crate::support::scene::{POD, Scene};

/// One scene: how it ended, in words.
type Play = fn() -> Result<String, String>;

/// Runs every scene; fails if one does not end as it should.
pub fn demo() -> ExitCode {
    println!("kubelet -> mount-guard -> longhorn-csi-plugin (a stand-in, on a loop device)\n");
    let scenes: [(&str, Play); 14] = [
        ("a new volume", calls::a_whole_life),
        ("ten calls at once", calls::ten_calls_at_once),
        ("kubelet gives up first", calls::kubelet_gives_up_first),
        ("the guard is killed", calls::the_guard_is_killed),
        ("a dirty journal", damage::a_dirty_journal),
        ("damage preen can mend", damage::damage_that_preen_mends),
        ("descriptors gone, no guard", damage::descriptors_gone_without_the_guard),
        ("descriptors gone, preen", damage::descriptors_gone_in_mode_preen),
        ("descriptors gone, repair", damage::descriptors_gone_in_mode_repair),
        ("primary superblock gone", damage::the_primary_superblock_is_gone),
        ("zeros for three seconds", trouble::zeros_for_three_seconds),
        ("reads fail, writes land", trouble::reads_fail_while_writes_land),
        ("a busy device", trouble::a_busy_device),
        ("the wrong type", trouble::the_wrong_type),
    ];
    let mut failed = false;
    let mut summary = Vec::new();
    for (name, scene) in scenes {
        println!("{name}");
        let start = Instant::now();
        let end = scene();
        let took = start.elapsed().as_secs_f64();
        failed |= end.is_err();
        let (verdict, text) = match end {
            Ok(text) => ("ok", text),
            Err(text) => ("WRONG", text),
        };
        println!("  {verdict}: {text}\n");
        summary.push(format!("{name:<27} {verdict:<6} {took:>5.1} s  {text}"));
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
    /// With an empty disk.
    fn set() -> Self {
        Self::with(LoopDisk::new(64 << 20), "ext4", &[])
    }

    /// With the volume on `disk`; `flags` are the guard's.
    fn with(disk: LoopDisk, fs_type: &str, flags: &[&str]) -> Self {
        let mut scene = Scene::new(disk, fs_type);
        let guard = Guard::on(&scene, &[&["--format-settle", "2s"], flags].concat());
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
