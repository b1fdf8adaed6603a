//! The stand-in's socket, its deaths, and its script.

use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tonic::{Code, Status};

use crate::support::disk::{LoopDisk, MIB, path_str};
use crate::support::plugin::{Act, Method, Plugin};
use crate::support::rpc::{Answer, Rpc, call_once};
use crate::support::run;
use crate::support::scene::{POD, Scene, VOLUME, wait_for};

pub fn tests() -> Vec<libtest_mimic::Trial> {
    crate::tests![
        a_killed_plugin_leaves_its_socket_behind,
        a_restart_cuts_calls_and_brings_the_socket_back,
        loop_a_restart_kills_the_children,
        a_late_plugin_binds_late,
        a_wiped_socket_is_gone_for_new_callers_only,
        a_panic_ends_the_process,
        a_long_error_arrives_whole,
        metadata_of_an_ok_arrives,
        loop_a_script_can_mean_one_volume,
        the_stand_in_runs_as_a_program,
    ]
}

async fn probe(socket: &std::path::Path) -> std::io::Result<Answer> {
    call_once(socket, Method::Probe.path(), &HeaderMap::new(), b"").await
}

fn a_killed_plugin_leaves_its_socket_behind() {
    let dir = tempfile::tempdir().unwrap();
    let mut plugin = Plugin::start(dir.path());
    assert!(run(probe(plugin.socket())).unwrap().reply().unwrap().is_empty());
    plugin.stop();
    assert!(plugin.socket().exists());
    let refused = run(probe(plugin.socket())).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
}

fn a_restart_cuts_calls_and_brings_the_socket_back() {
    let dir = tempfile::tempdir().unwrap();
    let mut plugin = Plugin::start(dir.path());
    plugin.script().once(Method::Probe, None, Act::hang());
    run(async {
        let rpc = Rpc::connect(plugin.socket()).await.unwrap();
        let mut hanging = rpc.open(Method::Probe.path(), &HeaderMap::new()).await;
        hanging.send(&Bytes::from_static(&[0; 5]));
        hanging.finish();
        while plugin.counts().asked(Method::Probe) == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        plugin.restart();
        assert!(hanging.rest().await.broken.is_some());
        assert!(probe(plugin.socket()).await.unwrap().reply().is_ok());
    });
    assert_eq!(plugin.counts().asked(Method::Probe), 2, "counted over both lives");
}

fn loop_a_restart_kills_the_children() {
    let mut scene = Scene::new(LoopDisk::with_filesystem("ext4", &[]), "ext4");
    let tools = scene.dir().join("tools");
    std::fs::create_dir(&tools).unwrap();
    // As fsck does: the work is a child's child.
    let pid_file = scene.dir().join("pid");
    let script = format!("#!/bin/sh\nsleep 60 &\necho $! > {}\nwait\n", pid_file.display());
    std::fs::write(tools.join("fsck"), script).unwrap();
    std::fs::set_permissions(tools.join("fsck"), PermissionsExt::from_mode(0o755)).unwrap();
    scene.plugin.change_habits(|habits| habits.tools_from = Some(tools));
    run(async {
        let restart = async {
            let grandchild = loop {
                tokio::time::sleep(Duration::from_millis(20)).await;
                let text = std::fs::read_to_string(&pid_file).unwrap_or_default();
                if let Ok(pid) = text.trim().parse() {
                    break Pid::from_raw(pid);
                }
            };
            assert!(is_running(grandchild));
            scene.plugin.restart();
            wait_for("the end of the plugin's children", || !is_running(grandchild));
        };
        let (status, ()) = tokio::join!(scene.kubelet.mount_device(&scene.volume), restart);
        assert_eq!(status.unwrap_err().code(), Code::Unavailable);
    });
}

/// A zombie has ended.
fn is_running(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}

fn a_late_plugin_binds_late() {
    let dir = tempfile::tempdir().unwrap();
    let plugin = Plugin::start_delayed(dir.path(), Duration::from_secs(1));
    assert_eq!(run(probe(plugin.socket())).unwrap_err().kind(), ErrorKind::NotFound);
    wait_for("the socket", || run(probe(plugin.socket())).is_ok());
}

fn a_wiped_socket_is_gone_for_new_callers_only() {
    let dir = tempfile::tempdir().unwrap();
    let plugin = Plugin::start(dir.path());
    run(async {
        let kept = Rpc::connect(plugin.socket()).await.unwrap();
        plugin.wipe();
        assert_eq!(probe(plugin.socket()).await.unwrap_err().kind(), ErrorKind::NotFound);
        let answer = kept.call(Method::Probe.path(), &HeaderMap::new(), &[Bytes::new()]).await;
        assert!(answer.reply().is_ok());
    });
}

fn a_panic_ends_the_process() {
    let dir = tempfile::tempdir().unwrap();
    let mut plugin = Plugin::start(dir.path());
    plugin.script().once(Method::Probe, None, Act::panic());
    assert!(run(probe(plugin.socket())).unwrap().broken.is_some());
    plugin.restart();
    assert!(run(probe(plugin.socket())).unwrap().reply().is_ok());
}

fn a_long_error_arrives_whole() {
    let dir = tempfile::tempdir().unwrap();
    let plugin = Plugin::start(dir.path());
    let message = "größer % ".repeat(20_000);
    let details = Bytes::from_static(b"\x08\x0d\xff");
    let mut status = Status::with_details(Code::DataLoss, message.clone(), details.clone());
    status.metadata_mut().insert("x-where", "here".parse().unwrap());
    plugin.script().once(Method::Probe, None, Act::fail(status));
    let answer = run(probe(plugin.socket())).unwrap();
    assert_eq!(answer.http_status, 200);
    let got = answer.status();
    assert_eq!((got.code(), got.message(), got.details()), (Code::DataLoss, &*message, &*details));
    assert_eq!(answer.headers["x-where"], "here");
}

fn metadata_of_an_ok_arrives() {
    let dir = tempfile::tempdir().unwrap();
    let plugin = Plugin::start(dir.path());
    let mut act = Act::default();
    act.headers.insert("x-head", "1".parse().unwrap());
    act.trailers.insert("x-tail-bin", "AAEC".parse().unwrap());
    plugin.script().once(Method::Probe, None, act);
    let answer = run(probe(plugin.socket())).unwrap();
    assert_eq!(answer.headers["x-head"], "1");
    assert_eq!(answer.trailers.unwrap()["x-tail-bin"], "AAEC");
}

fn loop_a_script_can_mean_one_volume() {
    let scene = Scene::new(LoopDisk::new(MIB), "ext4");
    let script = scene.plugin.script();
    script.always(Method::Unpublish, Some("another"), Act::hang());
    script.times(2, Method::Unpublish, Some(VOLUME), Act::fail(Status::data_loss("twice")));
    let request = mount_guard::csi::NodeUnpublishVolumeRequest {
        volume_id: VOLUME.to_owned(),
        target_path: scene.target(POD).display().to_string(),
    };
    let request = prost::Message::encode_to_vec(&request);
    let path = Method::Unpublish.path();
    let codes = [(); 3].map(|()| {
        let answer = run(call_once(scene.plugin.socket(), path, &HeaderMap::new(), &request));
        answer.unwrap().status().code()
    });
    assert_eq!(codes, [Code::DataLoss, Code::DataLoss, Code::Ok]);
}

fn the_stand_in_runs_as_a_program() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("csi.sock");
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["plugin", "--socket", path_str(&socket), "--volume", "v=/dev/null"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for("the program's socket", || run(probe(&socket)).is_ok());
    kill(Pid::from_raw(child.id().try_into().unwrap()), Signal::SIGTERM).unwrap();
    let done = child.wait_with_output().unwrap();
    assert!(done.status.success());
    let printed = String::from_utf8(done.stdout).unwrap();
    assert!(printed.contains("asked /csi.v1.Identity/Probe 1\n"), "{printed}");
}
