//! Flights on real sockets, real mounts and a kubelet that keeps books: in none of them would
//! kubelet leak a mount, and the plugin is called once where once is enough.
//!
//! The table is printed by the test, one line a case.

use std::time::Duration;

use mount_guard::csi;
use prost::Message;
use tokio::time::{Instant, sleep};
use tonic::{Code, Status};

use crate::support::disk::LoopDisk;
use crate::support::guard::Guard;
use crate::support::kubelet::{Belief, Kubelet};
use crate::support::plugin::{Act, Method};
use crate::support::run;
use crate::support::scene::{POD, Scene, VOLUME};

pub fn tests() -> Vec<libtest_mimic::Trial> {
    crate::tests![
        loop_the_same_call_twice,
        loop_case_122_the_same_call_ten_times,
        loop_case_6_twenty_stages_of_a_staged_volume,
        loop_a_different_call,
        loop_an_unstage_during_a_stage,
        loop_case_121_a_stage_during_an_unstage,
        loop_a_caller_that_is_gone,
        loop_case_119_a_deadline_of_10_s_with_30_s_of_work,
        loop_case_36_and_118_work_that_outlasts_kubelets_deadline,
        loop_a_plugin_restart_in_the_middle_of_a_call,
        loop_a_guard_restart_in_the_middle_of_a_call,
        loop_a_guard_restart_and_then_the_pod_is_deleted,
        loop_case_126_a_block_volume,
        volumes_do_not_wait_for_each_other,
    ]
}

/// A Stage of `volume`, whole enough to be guarded.
pub(super) fn stage_bytes(volume: &str) -> Vec<u8> {
    let request = csi::NodeStageVolumeRequest {
        volume_id: volume.to_owned(),
        staging_target_path: format!("/nowhere/{volume}/globalmount"),
        volume_capability: Some(csi::VolumeCapability {
            access_mode: Some(csi::volume_capability::AccessMode { mode: 7 }),
            access_type: Some(csi::volume_capability::AccessType::Mount(Default::default())),
        }),
        ..Default::default()
    };
    request.encode_to_vec()
}

/// A scene whose kubelet calls the guard.
struct Guarded {
    guard: Guard,
    scene: Scene,
}

impl Guarded {
    fn new() -> Self {
        let mut scene = Scene::new(LoopDisk::with_filesystem("ext4", &[]), "ext4");
        let guard = Guard::before(&scene.plugin);
        let root = scene.dir().join("kubelet");
        scene.kubelet = Kubelet::new(&root, &guard.socket()).with_pace(0.5);
        Self { guard, scene }
    }

    fn with_deadline(mut self, deadline: Duration) -> Self {
        let root = self.scene.dir().join("kubelet");
        let kubelet = Kubelet::new(&root, &self.guard.socket());
        self.scene.kubelet = kubelet.with_pace(0.5).with_deadline(deadline);
        self
    }

    fn slow(&self, method: Method, work: Duration) {
        self.scene.plugin.script().once(method, None, Act::slow_before(work));
    }

    fn asked(&self, method: Method) -> usize {
        self.scene.plugin.counts().asked(method)
    }

    async fn stage(&self) -> Result<(), Status> {
        self.scene.kubelet.mount_device(&self.scene.volume).await
    }

    async fn until_asked(&self, method: Method, times: usize) {
        while self.asked(method) < times {
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// The end of each case: the pod goes, and nothing is left that kubelet has forgotten.
    #[track_caller]
    fn assert_no_leak(&self, case: &str) {
        let leaks = self.scene.kubelet.would_leak();
        assert!(leaks.is_empty(), "{case}: kubelet has forgotten {leaks:?}");
        let delete = self
            .scene
            .kubelet
            .retry(6, async || self.scene.kubelet.delete_pod(POD, &self.scene.volume).await);
        run(delete).unwrap();
        assert!(self.scene.staged().is_empty(), "{case}: something is left mounted");
        let most = self.scene.plugin.counts().most_at_work(VOLUME);
        println!(
            "{case:<48} stages {} unstages {} at once {most} leaks none",
            self.asked(Method::Stage),
            self.asked(Method::Unstage),
        );
    }
}

#[track_caller]
fn assert_aborted(result: &Result<(), Status>, text: &str) {
    let status = result.as_ref().expect_err("refused");
    assert_eq!(status.code(), Code::Aborted, "{status:?}");
    assert!(status.message().starts_with("mount-guard: "), "{status:?}");
    assert!(status.message().contains(text), "{status:?}");
}

fn loop_the_same_call_twice() {
    let it = Guarded::new();
    it.slow(Method::Stage, Duration::from_secs(1));
    let (one, two) = run(async { tokio::join!(it.stage(), it.stage()) });
    one.unwrap();
    two.unwrap();
    assert_eq!(it.asked(Method::Stage), 1);
    it.assert_no_leak("the same call twice");
}

fn loop_case_122_the_same_call_ten_times() {
    let it = Guarded::new();
    it.slow(Method::Stage, Duration::from_secs(1));
    let results = run(async { futures_util::future::join_all((0..10).map(|_| it.stage())).await });
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    assert_eq!(it.asked(Method::Stage), 1, "though map entries came in another order each time");
    it.assert_no_leak("the same call ten times");
}

fn loop_case_6_twenty_stages_of_a_staged_volume() {
    let it = Guarded::new();
    run(it.stage()).unwrap();
    let checks = it.scene.plugin.counts().ran("fsck");
    let results = run(async { futures_util::future::join_all((0..20).map(|_| it.stage())).await });
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    assert_eq!(it.scene.plugin.counts().ran("fsck"), checks);
    it.assert_no_leak("twenty stages of a staged volume");
}

fn loop_a_different_call() {
    let it = Guarded::new();
    it.slow(Method::Stage, Duration::from_secs(2));
    let mut other = it.scene.volume.clone();
    other.mount_flags.push("noatime".into());
    let (one, two) = run(async {
        tokio::join!(it.stage(), async {
            it.until_asked(Method::Stage, 1).await;
            it.scene.kubelet.mount_device(&other).await
        })
    });
    one.unwrap();
    assert_aborted(&two, "NodeStageVolume is under way for");
    assert_eq!(it.asked(Method::Stage), 1);
    it.assert_no_leak("a different call");
}

fn loop_an_unstage_during_a_stage() {
    let it = Guarded::new();
    it.slow(Method::Stage, Duration::from_secs(2));
    let (staged, unstaged) = run(async {
        tokio::join!(it.stage(), async {
            it.until_asked(Method::Stage, 1).await;
            it.scene.kubelet.unmount_device(&it.scene.volume).await
        })
    });
    assert_aborted(&unstaged, "NodeStageVolume is under way for");
    staged.unwrap();
    assert_eq!(it.asked(Method::Unstage), 0);
    assert_eq!(it.scene.kubelet.belief(&it.scene.staging()), Belief::Mounted);
    it.assert_no_leak("an unstage during a stage");
}

fn loop_case_121_a_stage_during_an_unstage() {
    let it = Guarded::new();
    run(it.stage()).unwrap();
    it.slow(Method::Unstage, Duration::from_secs(2));
    let checks = it.scene.plugin.counts().ran("fsck");
    let (unstaged, staged) = run(async {
        tokio::join!(it.scene.kubelet.unmount_device(&it.scene.volume), async {
            it.until_asked(Method::Unstage, 1).await;
            it.stage().await
        })
    });
    unstaged.unwrap();
    assert_aborted(&staged, "NodeUnstageVolume is under way for");
    assert_eq!(it.scene.plugin.counts().ran("fsck"), checks);
    it.assert_no_leak("a stage during an unstage");
}

fn loop_a_caller_that_is_gone() {
    let it = Guarded::new();
    it.slow(Method::Stage, Duration::from_secs(2));
    run(async {
        let gone = tokio::time::timeout(Duration::from_millis(800), it.stage()).await;
        assert!(gone.is_err());
        sleep(Duration::from_secs(2)).await;
        assert_eq!(it.scene.staged().len(), 1, "the work went on");
        it.stage().await.unwrap();
        assert_eq!(it.asked(Method::Stage), 1, "the kept result was the answer");
        it.stage().await.unwrap();
        assert_eq!(it.asked(Method::Stage), 2, "and it was so only once");
    });
    it.assert_no_leak("a caller that is gone");
}

fn loop_case_119_a_deadline_of_10_s_with_30_s_of_work() {
    let it = Guarded::new().with_deadline(Duration::from_secs(10));
    it.slow(Method::Stage, Duration::from_secs(30));
    let start = Instant::now();
    let first = run(it.stage());
    assert_aborted(&first, "(longhorn-csi-plugin works on it)");
    assert!((4..7).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
    let tries = run(async {
        let mut tries = 1;
        while let Err(status) = it.stage().await {
            assert_eq!(status.code(), Code::Aborted, "{status:?}");
            tries += 1;
        }
        tries
    });
    assert!((5..9).contains(&tries), "{tries} tries");
    assert_eq!(it.asked(Method::Stage), 1);
    it.assert_no_leak("a deadline of 10 s with 30 s of work");
}

fn loop_case_36_and_118_work_that_outlasts_kubelets_deadline() {
    let it = Guarded::new().with_deadline(Duration::from_secs(2));
    it.slow(Method::Stage, Duration::from_secs(3));
    run(it.scene.kubelet.start_pod(POD, &it.scene.volume, 6)).unwrap();
    assert_eq!(it.asked(Method::Stage), 1);
    assert_eq!(it.scene.plugin.counts().calls(Method::Stage)[0].timeout(), None);
    it.assert_no_leak("work that outlasts the deadline");
}

fn loop_a_plugin_restart_in_the_middle_of_a_call() {
    let mut it = Guarded::new();
    it.slow(Method::Stage, Duration::from_secs(30));
    let first = {
        let Guarded { scene, .. } = &mut it;
        let Scene { kubelet, plugin, volume, .. } = scene;
        run(async {
            tokio::join!(kubelet.mount_device(volume), async {
                while plugin.counts().asked(Method::Stage) < 1 {
                    sleep(Duration::from_millis(5)).await;
                }
                plugin.restart();
            })
        })
        .0
    };
    let status = first.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    assert!(status.message().contains("cut off"), "{status:?}");
    // The next one is refused for good: kubelet must not take that for the last word.
    let refusal = Act::work_then_fail(Status::internal("resize2fs: bad magic"));
    it.scene.plugin.script().once(Method::Stage, None, refusal);
    assert_aborted(&run(it.stage()), "INTERNAL: resize2fs: bad magic");
    assert_eq!(it.scene.kubelet.belief(&it.scene.staging()), Belief::Uncertain);
    it.assert_no_leak("a plugin restart in the middle of a call");
}

fn loop_a_guard_restart_in_the_middle_of_a_call() {
    let mut it = Guarded::new();
    it.slow(Method::Stage, Duration::from_secs(3));
    cut_off_by_a_restart(&mut it);
    // What the real plugin says when the retry collides with the work it is still at.
    let collision = Act::fail(Status::internal("mkfs.ext4: is apparently in use by the system"));
    it.scene.plugin.script().once(Method::Stage, None, collision);
    assert_aborted(&run(it.stage()), "an earlier try of it was cut off");
    run(it.scene.kubelet.start_pod(POD, &it.scene.volume, 6)).unwrap();
    run(async { sleep(Duration::from_secs(3)).await });
    assert_eq!(it.scene.staged().len(), 1);
    it.assert_no_leak("a guard restart in the middle of a call");
}

fn loop_a_guard_restart_and_then_the_pod_is_deleted() {
    let mut it = Guarded::new();
    it.slow(Method::Stage, Duration::from_secs(2));
    cut_off_by_a_restart(&mut it);
    let deleted = run(it.scene.kubelet.delete_pod(POD, &it.scene.volume));
    assert_aborted(&deleted, "lost sight of a NodeStageVolume");
    run(async { sleep(Duration::from_secs(3)).await });
    assert_eq!(it.scene.staged().len(), 1, "the mount came after the Unstage");
    assert!(it.scene.kubelet.would_leak().is_empty(), "but kubelet has not forgotten it");
    it.scene.plugin.restart();
    it.assert_no_leak("a guard restart, then the pod is deleted");
}

/// A Stage is with the plugin when the guard is killed; the next guard takes over.
fn cut_off_by_a_restart(it: &mut Guarded) {
    let Guarded { guard, scene } = it;
    let first = run(async {
        tokio::join!(scene.kubelet.mount_device(&scene.volume), async {
            while scene.plugin.counts().asked(Method::Stage) < 1 {
                sleep(Duration::from_millis(5)).await;
            }
            guard.kill();
        })
    });
    assert_eq!(first.0.unwrap_err().code(), Code::Unavailable);
    guard.start();
    guard.wait_until_it_listens();
}

fn loop_case_126_a_block_volume() {
    let it = Guarded::new();
    let volume = crate::support::kubelet::Claimed::block(VOLUME);
    let before = it.scene.disk.hash();
    let results = run(async {
        futures_util::future::join_all((0..3).map(|_| it.scene.kubelet.mount_device(&volume))).await
    });
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    run(it.scene.kubelet.set_up(POD, &volume)).unwrap();
    assert_eq!(it.scene.plugin.counts().ran("fsck") + it.scene.plugin.counts().ran("mkfs"), 0);
    run(it.scene.kubelet.delete_pod(POD, &volume)).unwrap();
    assert_eq!(it.scene.disk.hash(), before);
    assert!(it.scene.kubelet.would_leak().is_empty());
}

fn volumes_do_not_wait_for_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let plugin = crate::support::plugin::Plugin::start(dir.path());
    let guard = Guard::before(&plugin);
    plugin.script().once(Method::Stage, Some("slow"), Act::slow_before(Duration::from_secs(3)));
    run(async {
        let start = Instant::now();
        let (slow, quick) = (stage_bytes("slow"), stage_bytes("quick"));
        let slow = guard.ask(Method::Stage.path(), &slow);
        let quick = async {
            plugin_is_at_work(&plugin).await;
            guard.ask(Method::Stage.path(), &quick).await.unwrap();
            start.elapsed()
        };
        let (_, quick) = tokio::join!(slow, quick);
        assert!(quick < Duration::from_secs(2), "{quick:?}");
        assert!(start.elapsed() >= Duration::from_secs(3));
    });
}

async fn plugin_is_at_work(plugin: &crate::support::plugin::Plugin) {
    while plugin.counts().asked(Method::Stage) < 1 {
        sleep(Duration::from_millis(5)).await;
    }
}
