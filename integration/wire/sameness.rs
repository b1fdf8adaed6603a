//! With the guard and without it: the same calls give the same bytes, codes, texts, metadata and
//! trailers, and the plugin gets the same requests.

use std::path::Path;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use mount_guard::csi;
use prost::Message;
use tonic::{Code, Status};

use crate::support::disk::LoopDisk;
use crate::support::guard::Guard;
use crate::support::plugin::{Act, Method, Plugin};
use crate::support::rpc::{Answer, Rpc, call_once};
use crate::support::run;
use crate::support::scene::{POD, Scene, VOLUME};

pub fn tests() -> Vec<libtest_mimic::Trial> {
    crate::tests![
        loop_a_volumes_whole_life_is_the_same,
        every_method_that_fails_fails_the_same,
        malformed_calls_are_refused_by_the_plugin_itself,
        case_112_and_127_unknown_services_methods_and_fields_cross,
        controller_calls_cross,
        a_stream_that_ends_in_an_error_crosses,
        a_status_message_of_100_kib_crosses,
        header_lists_of_many_mib_cross,
        case_128_messages_of_20_mib_cross_both_ways,
        compressed_calls_are_the_plugins_to_refuse,
    ]
}

/// What came back, in a form that can be compared and shown.
fn shown(answer: &Answer) -> String {
    let headers = |headers: &HeaderMap| {
        let mut lines: Vec<_> =
            headers.iter().map(|(name, value)| format!("{name}: {value:?}")).collect();
        lines.sort();
        lines
    };
    format!(
        "{} {:?} {} bytes {:?} {:?} {:?}",
        answer.http_status,
        headers(&answer.headers),
        answer.data.len(),
        &answer.data[..answer.data.len().min(200)],
        answer.trailers.as_ref().map(headers),
        answer.broken,
    )
}

#[track_caller]
fn assert_same(direct: &Answer, guarded: &Answer, what: &str) {
    assert_eq!(shown(direct), shown(guarded), "{what}");
    assert_eq!(direct.data, guarded.data, "{what}");
}

fn metadata() -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("x-request", HeaderValue::from_static("one"));
    headers.append("x-request", HeaderValue::from_static("two"));
    headers.insert("traceparent-bin", HeaderValue::from_static("AAEC/w"));
    headers.insert("user-agent", HeaderValue::from_static("grpc-go/1.81.1"));
    headers.insert("grpc-accept-encoding", HeaderValue::from_static("gzip"));
    headers.insert("grpc-timeout", HeaderValue::from_static("120000m"));
    headers
}

/// Makes one call directly and one through the guard, and compares what came back and what the
/// plugin was asked.
fn compare(plugin: &Plugin, guard: &Guard, path: &str, message: &[u8]) -> Answer {
    let call = |socket: &Path| run(call_once(socket, path, &metadata(), message)).unwrap();
    let (direct, guarded) = (call(plugin.socket()), call(&guard.socket()));
    assert_same(&direct, &guarded, path);
    if let Some(method) = Method::from_path(path) {
        let calls = plugin.counts().calls(method);
        let [.., direct, guarded] = calls.as_slice() else { panic!("two calls of {path}") };
        assert_eq!(direct.message, guarded.message, "{path}");
        let mut sent = direct.headers.clone();
        if is_guarded(method) && guarded.headers.get("grpc-timeout").is_none() {
            sent.remove("grpc-timeout");
        }
        assert_eq!(sent, guarded.headers, "{path}");
    }
    direct
}

fn is_guarded(method: Method) -> bool {
    matches!(
        method,
        Method::Stage | Method::Unstage | Method::Publish | Method::Unpublish | Method::Expand
    )
}

fn plugin_and_guard() -> (tempfile::TempDir, Plugin, Guard) {
    let dir = tempfile::tempdir().unwrap();
    let plugin = Plugin::start(dir.path());
    let guard = Guard::before(&plugin);
    (dir, plugin, guard)
}

/// Each step is done twice, first directly and then through the guard; CSI's node calls are
/// idempotent, so the second finds what the first left.
fn loop_a_volumes_whole_life_is_the_same() {
    let scene = Scene::new(LoopDisk::with_filesystem("ext4", &[]), "ext4");
    let guard = Guard::before(&scene.plugin);
    let (staging, target) = (scene.staging(), scene.target(POD));
    std::fs::create_dir_all(&staging).unwrap();
    std::fs::create_dir_all(target.parent().unwrap()).unwrap();
    let text = |path: &Path| path.display().to_string();
    let (volume_id, volume_path) = (VOLUME.to_owned(), text(&target));
    let stats = csi::NodeGetVolumeStatsRequest {
        volume_id: volume_id.clone(),
        volume_path: volume_path.clone(),
        staging_target_path: text(&staging),
    };
    let expand = csi::NodeExpandVolumeRequest {
        volume_id: volume_id.clone(),
        volume_path: volume_path.clone(),
        staging_target_path: text(&staging),
        capacity_range: Some(csi::CapacityRange { required_bytes: 1, limit_bytes: 0 }),
        volume_capability: stage_of(VOLUME).volume_capability,
        ..Default::default()
    };
    let unpublish =
        csi::NodeUnpublishVolumeRequest { volume_id: volume_id.clone(), target_path: volume_path };
    let unstage = csi::NodeUnstageVolumeRequest { volume_id, staging_target_path: text(&staging) };
    for (method, message) in [
        (Method::GetPluginInfo, vec![]),
        (Method::GetPluginCapabilities, vec![]),
        (Method::Probe, vec![]),
        (Method::GetCapabilities, vec![]),
        (Method::GetInfo, vec![]),
        (Method::Stage, scene.kubelet.stage_request(&scene.volume, 0)),
        (Method::Publish, scene.kubelet.publish_request(POD, &scene.volume, 0)),
        (Method::GetVolumeStats, stats.encode_to_vec()),
        (Method::Expand, expand.encode_to_vec()),
        (Method::Unpublish, unpublish.encode_to_vec()),
        (Method::Unstage, unstage.encode_to_vec()),
        (Method::GetVolumeStats, stats.encode_to_vec()),
    ] {
        let answer = compare(&scene.plugin, &guard, method.path(), &message);
        let unmounted = method == Method::GetVolumeStats && !target.exists();
        let code = if unmounted { Code::NotFound } else { Code::Ok };
        assert_eq!(answer.status().code(), code, "{method:?}: {:?}", answer.status());
    }
    assert!(scene.staged().is_empty() && scene.published(POD).is_empty());
}

fn every_method_that_fails_fails_the_same() {
    let (_dir, plugin, guard) = plugin_and_guard();
    let request = |method| match method {
        Method::Stage | Method::Publish => stage_of("pvc-x").encode_to_vec(),
        _ => csi::NodeUnstageVolumeRequest {
            volume_id: "pvc-x".into(),
            staging_target_path: "/k/x".into(),
        }
        .encode_to_vec(),
    };
    for method in Method::ALL {
        for code in 1..=16 {
            let details = Bytes::from_static(b"\x08\x0d\x12\x00\xff");
            let message = format!("code {code}: gr\u{f6}\u{df}er %41 \n of {method:?}");
            let mut status = Status::with_details(Code::from(code), message, details);
            status.metadata_mut().insert("x-where", "here".parse().unwrap());
            status
                .metadata_mut()
                .insert_bin("x-what-bin", tonic::metadata::MetadataValue::from_bytes(b"\0\xff"));
            plugin.script().times(2, method, None, Act::fail(status));
            let answer = compare(&plugin, &guard, method.path(), &request(method));
            assert_eq!(answer.status().code(), Code::from(code));
            assert!(answer.trailers.is_none(), "an error without a message is headers only");
        }
        let mut act = Act::default();
        act.headers.insert("x-head", "1".parse().unwrap());
        act.trailers.insert("x-tail-bin", "AAEC".parse().unwrap());
        plugin.script().times(2, method, None, act);
        compare(&plugin, &guard, method.path(), &request(method));
    }
}

fn stage_of(volume: &str) -> csi::NodeStageVolumeRequest {
    csi::NodeStageVolumeRequest {
        volume_id: volume.to_owned(),
        staging_target_path: "/k/staging".into(),
        volume_capability: Some(csi::VolumeCapability {
            access_mode: Some(csi::volume_capability::AccessMode { mode: 7 }),
            access_type: Some(csi::volume_capability::AccessType::Mount(Default::default())),
        }),
        ..Default::default()
    }
}

fn malformed_calls_are_refused_by_the_plugin_itself() {
    let (_dir, plugin, guard) = plugin_and_guard();
    let long = "v".repeat(4096);
    let ids = ["", "..", "../../etc", "a/b", "a\0b", "a\nb", "gr\u{f6}\u{df}e", long.as_str()];
    for id in ids {
        compare(&plugin, &guard, Method::Stage.path(), &stage_of(id).encode_to_vec());
    }
    let mut without_path = stage_of("pvc-1");
    without_path.staging_target_path.clear();
    let mut without_capability = stage_of("pvc-1");
    without_capability.volume_capability = None;
    for request in [without_path, without_capability] {
        let answer = compare(&plugin, &guard, Method::Stage.path(), &request.encode_to_vec());
        assert_eq!(answer.status().code(), Code::InvalidArgument);
    }
    for method in [Method::Stage, Method::Unstage, Method::Publish, Method::Unpublish] {
        compare(&plugin, &guard, method.path(), b"");
        compare(&plugin, &guard, method.path(), b"\xff\xff no protobuf");
    }
    // No gRPC frame, half a frame, two frames.
    for body in [&b""[..], b"\0\0\0", b"\0\0\0\0\x09abc", b"\0\0\0\0\0\0\0\0\0\0"] {
        let raw = |socket: &Path| {
            run(async {
                let rpc = Rpc::connect(socket).await.unwrap();
                let mut stream = rpc.open(Method::Stage.path(), &metadata()).await;
                stream.send(&Bytes::copy_from_slice(body));
                stream.finish();
                stream.rest().await
            })
        };
        assert_same(&raw(plugin.socket()), &raw(&guard.socket()), "not one frame");
    }
}

fn case_112_and_127_unknown_services_methods_and_fields_cross() {
    let (_dir, plugin, guard) = plugin_and_guard();
    for path in [
        "/csi.v1.Node/FutureRpc",
        "/csi.v9.Node/NodeStageVolume",
        "/pluginregistration.Registration/GetInfo",
        "/grpc.health.v1.Health/Check",
        "/no-slash",
        "/",
    ] {
        let answer = compare(&plugin, &guard, path, b"\x0a\x01x");
        assert_eq!(answer.status().code(), Code::Unimplemented, "{path}");
    }
    // Field 99, a string: 99 << 3 | 2 = 794 as a varint.
    let mut message = stage_of("pvc-1").encode_to_vec();
    message.extend_from_slice(b"\x9a\x06\x05later");
    compare(&plugin, &guard, Method::Stage.path(), &message);
    assert_eq!(plugin.counts().calls(Method::Stage)[1].message, message);
}

fn controller_calls_cross() {
    let (_dir, plugin, guard) = plugin_and_guard();
    let answer = compare(&plugin, &guard, "/csi.v1.Controller/ControllerGetCapabilities", b"");
    assert_eq!(answer.status().code(), Code::Ok);
    let answer = compare(&plugin, &guard, "/csi.v1.Controller/CreateVolume", b"\x0a\x04name");
    assert_eq!(&answer.messages()[0][..], b"\x0a\x04name");
}

fn a_stream_that_ends_in_an_error_crosses() {
    let (_dir, plugin, guard) = plugin_and_guard();
    let path = "/csi.v1.SnapshotMetadata/GetMetadataAllocated";
    let answer = compare(&plugin, &guard, path, b"block");
    assert_eq!(answer.messages().len(), 3);
    assert_eq!(answer.status().code(), Code::DataLoss);
    assert_eq!(answer.trailers.unwrap()["x-trailer"], "last words");
}

fn a_status_message_of_100_kib_crosses() {
    let (_dir, plugin, guard) = plugin_and_guard();
    let fsck = "\u{e9}xt4 inode 12 has imagic flag set.  \n".repeat(2800);
    for method in [Method::Stage, Method::Probe] {
        plugin.script().times(2, method, None, Act::fail(Status::internal(fsck.clone())));
        let answer = compare(&plugin, &guard, method.path(), &stage_of("pvc-1").encode_to_vec());
        assert!(answer.status().message().len() >= 100 << 10);
    }
}

fn header_lists_of_many_mib_cross() {
    let (_dir, plugin, guard) = plugin_and_guard();
    let message = "%".repeat(4 << 20);
    plugin.script().times(2, Method::Stage, None, Act::fail(Status::internal(message)));
    let answer = compare(&plugin, &guard, Method::Stage.path(), &stage_of("pvc-1").encode_to_vec());
    assert_eq!(answer.status().message().len(), 4 << 20);
}

fn case_128_messages_of_20_mib_cross_both_ways() {
    let (_dir, plugin, guard) = plugin_and_guard();
    let message: Vec<u8> = (0..20 << 20).map(|at: u32| (at % 251) as u8).collect();
    let answer = compare(&plugin, &guard, "/test.Echo/Reply", &message);
    assert_eq!(&answer.messages()[0][..], message);

    plugin.change_habits(|habits| habits.receives_at_most_bytes = 64 << 20);
    let mut stage = stage_of("pvc-1");
    stage.volume_context.insert("big".into(), "x".repeat(20 << 20));
    compare(&plugin, &guard, Method::Stage.path(), &stage.encode_to_vec());

    plugin.change_habits(|habits| habits.receives_at_most_bytes = 4 << 20);
    let answer = compare(&plugin, &guard, Method::Stage.path(), &stage.encode_to_vec());
    assert_eq!(answer.status().code(), Code::ResourceExhausted, "the plugin's own limit");
}

fn compressed_calls_are_the_plugins_to_refuse() {
    let (_dir, plugin, guard) = plugin_and_guard();
    let mut headers = metadata();
    headers.insert("grpc-encoding", HeaderValue::from_static("gzip"));
    let call = |socket: &Path| {
        run(async {
            let rpc = Rpc::connect(socket).await.unwrap();
            let mut stream = rpc.open(Method::Stage.path(), &headers).await;
            stream.send(&Bytes::from_static(b"\x01\0\0\0\x03zip"));
            stream.finish();
            stream.rest().await
        })
    };
    let (direct, guarded) = (call(plugin.socket()), call(&guard.socket()));
    assert_same(&direct, &guarded, "compressed");
    assert_eq!(direct.status().code(), Code::Unimplemented);
}
