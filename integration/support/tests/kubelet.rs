//! Kubelet's bookkeeping: which answers make it forget a mount.

use std::time::Duration;

use prost::Message;
use tonic::{Code, Status};

use crate::support::disk::{LoopDisk, MIB};
use crate::support::kubelet::Belief;
use crate::support::plugin::{Act, Method};
use crate::support::run;
use crate::support::scene::{POD, Scene, VOLUME};

pub fn tests() -> Vec<libtest_mimic::Trial> {
    crate::tests![
        loop_a_final_code_after_a_mount_leaks_it,
        loop_a_final_code_after_an_uncertain_one_leaks_too,
        loop_aborted_leaks_nothing,
        loop_a_final_code_removes_the_staging_directory,
        loop_retries_come_when_kubelets_come,
        loop_every_call_says_who_it_is_and_how_long_it_waits,
        loop_map_entries_change_their_order,
        loop_paths_are_kubelets,
        loop_nobody_listening_is_uncertain,
    ]
}

fn healthy() -> Scene {
    Scene::new(LoopDisk::with_filesystem("ext4", &[]), "ext4")
}

fn loop_a_final_code_after_a_mount_leaks_it() {
    let scene = healthy();
    let act = Act::work_then_fail(Status::internal("mounted, but"));
    scene.plugin.script().once(Method::Stage, None, act);
    run(scene.kubelet.mount_device(&scene.volume)).unwrap_err();
    run(scene.kubelet.delete_pod(POD, &scene.volume)).unwrap();
    assert_eq!(scene.plugin.counts().asked(Method::Unstage), 0);
    assert_eq!(scene.kubelet.would_leak(), [scene.staging()]);
}

fn loop_a_final_code_after_an_uncertain_one_leaks_too() {
    let mut scene = healthy();
    scene.kubelet = scene.kubelet.with_deadline(Duration::from_secs(1));
    let script = scene.plugin.script();
    script.once(Method::Stage, None, Act::slow_after(Duration::from_secs(2)));
    script.once(Method::Stage, None, Act::fail(Status::failed_precondition("no")));
    let first = run(scene.kubelet.mount_device(&scene.volume)).unwrap_err();
    assert_eq!(first.code(), Code::DeadlineExceeded);
    assert_eq!(scene.kubelet.belief(&scene.staging()), Belief::Uncertain);
    assert!(scene.kubelet.would_leak().is_empty(), "uncertain is not forgotten");
    let second = run(scene.kubelet.mount_device(&scene.volume)).unwrap_err();
    assert_eq!(second.code(), Code::FailedPrecondition);
    scene.wait_until_staged();
    run(scene.kubelet.delete_pod(POD, &scene.volume)).unwrap();
    assert_eq!(scene.kubelet.would_leak(), [scene.staging()]);
}

fn loop_aborted_leaks_nothing() {
    let scene = healthy();
    let act = Act::work_then_fail(Status::aborted("mounted, but"));
    scene.plugin.script().always(Method::Stage, None, act);
    run(scene.kubelet.mount_device(&scene.volume)).unwrap_err();
    assert_eq!(scene.staged().len(), 1);
    run(scene.kubelet.delete_pod(POD, &scene.volume)).unwrap();
    assert_eq!(scene.plugin.counts().asked(Method::Unstage), 1);
    assert!(scene.staged().is_empty() && scene.kubelet.would_leak().is_empty());
}

fn loop_a_final_code_removes_the_staging_directory() {
    let scene = healthy();
    let script = scene.plugin.script();
    script.once(Method::Stage, None, Act::fail(Status::aborted("wait")));
    script.once(Method::Stage, None, Act::fail(Status::internal("no")));
    run(scene.kubelet.mount_device(&scene.volume)).unwrap_err();
    assert!(scene.staging().exists());
    run(scene.kubelet.mount_device(&scene.volume)).unwrap_err();
    assert!(!scene.staging().exists());
}

fn loop_retries_come_when_kubelets_come() {
    let scene = healthy();
    let act = Act::fail(Status::internal("not yet"));
    scene.plugin.script().times(3, Method::Stage, None, act);
    run(scene.kubelet.start_pod(POD, &scene.volume, 6)).unwrap();
    let calls = scene.plugin.counts().calls(Method::Stage);
    assert_eq!(calls.len(), 4);
    // A twentieth of kubelet's 0.6, 1.7 and 3.8 s.
    for (call, at_ms) in calls[1..].iter().zip([30, 85, 190]) {
        let since = call.at - calls[0].at;
        assert!(since >= Duration::from_millis(at_ms), "{since:?} after the first");
    }
}

fn loop_every_call_says_who_it_is_and_how_long_it_waits() {
    let scene = healthy();
    run(scene.kubelet.start_pod(POD, &scene.volume, 1)).unwrap();
    run(scene.kubelet.delete_pod(POD, &scene.volume)).unwrap();
    let counts = scene.plugin.counts();
    let asked = [
        Method::GetCapabilities,
        Method::Stage,
        Method::Publish,
        Method::Unpublish,
        Method::Unstage,
    ]
    .map(|method| counts.asked(method));
    assert_eq!(asked, [7, 1, 1, 1, 1]);
    let call = &counts.calls(Method::Stage)[0];
    let left: u64 = call.timeout().unwrap().strip_suffix('m').unwrap().parse().unwrap();
    assert!((110_000..=120_000).contains(&left));
    assert_eq!(call.volume, VOLUME);
    assert_eq!(call.headers["te"], "trailers");
    let sent = scene.kubelet.stage_request(&scene.volume, 0);
    assert_eq!(call.message, sent, "the very bytes");
}

fn loop_map_entries_change_their_order() {
    let scene = healthy();
    let requests = [0, 1].map(|turn| scene.kubelet.stage_request(&scene.volume, turn));
    assert_ne!(requests[0], requests[1]);
    let [one, two] = requests
        .map(|bytes| mount_guard::csi::NodeStageVolumeRequest::decode(bytes.as_slice()).unwrap());
    assert!(one == two, "the same request all the same");
    let bytes = one.encoded_len();
    assert_eq!(bytes, scene.kubelet.stage_request(&scene.volume, 2).len());
}

fn loop_paths_are_kubelets() {
    let scene = Scene::new(LoopDisk::new(MIB), "ext4");
    let root = scene.dir().join("kubelet");
    let staging = scene.staging();
    let hash = staging.parent().unwrap().file_name().unwrap().to_str().unwrap();
    assert_eq!(hash.len(), 64);
    let csi = root.join("plugins/kubernetes.io/csi/driver.longhorn.io");
    assert_eq!(staging, csi.join(hash).join("globalmount"));
    let volumes = root.join("pods").join(POD).join("volumes/kubernetes.io~csi");
    assert_eq!(scene.target(POD), volumes.join(VOLUME).join("mount"));
}

fn loop_nobody_listening_is_uncertain() {
    let mut scene = healthy();
    scene.plugin.stop();
    let status = run(scene.kubelet.mount_device(&scene.volume)).unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert_eq!(scene.kubelet.belief(&scene.staging()), Belief::Uncertain);
}
