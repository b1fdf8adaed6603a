//! What kubelet and its kind ask to know whether anybody is there.

use std::time::{Duration, Instant};

use http::HeaderMap;
use tonic::Code;

use super::flights::stage_bytes;
use crate::support::guard::Guard;
use crate::support::plugin::{Act, Method, Plugin};
use crate::support::rpc::call_once;
use crate::support::run;
use crate::support::scene::wait_for;

pub fn tests() -> Vec<libtest_mimic::Trial> {
    crate::tests![
        case_116_probes_are_quick_beside_forty_slow_stages,
        case_115_the_process_is_healthy_before_the_plugin_is_there,
        metrics_count_calls_by_fixed_names,
        status_shows_the_calls_under_way,
    ]
}

async fn probe(guard: &Guard) -> Code {
    guard.ask(Method::Probe.path(), b"").await.unwrap().status().code()
}

fn case_116_probes_are_quick_beside_forty_slow_stages() {
    let dir = tempfile::tempdir().unwrap();
    let plugin = Plugin::start(dir.path());
    let guard = Guard::before(&plugin);
    plugin.script().always(Method::Stage, None, Act::hang());
    run(async {
        let stages: Vec<_> = (0..40)
            .map(|number| {
                let (socket, message) = (guard.socket(), stage_bytes(&format!("pvc-{number}")));
                tokio::spawn(async move {
                    call_once(&socket, Method::Stage.path(), &HeaderMap::new(), &message).await
                })
            })
            .collect();
        while plugin.counts().asked(Method::Stage) < 40 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let mut took = Vec::new();
        for _ in 0..200 {
            let start = Instant::now();
            assert_eq!(probe(&guard).await, Code::Ok);
            took.push(start.elapsed());
        }
        took.sort();
        assert!(took[198] < Duration::from_millis(100), "p99 {:?}", took[198]);
        stages.iter().for_each(tokio::task::JoinHandle::abort);
    });
}

fn case_115_the_process_is_healthy_before_the_plugin_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let mut guard = Guard::idle(&dir.path().join("csi.sock"));
    guard.start();
    wait_for("health", || guard.get("/healthz").is_ok_and(|(status, _)| status == 200));
    let (status, text) = guard.get("/readyz").unwrap();
    assert_eq!((status, text.as_str()), (503, "not ready: endpoint, plugin\n"));
    assert!(!guard.socket().exists(), "nobody is asked to call yet");
    let _plugin = Plugin::start(dir.path());
    guard.wait_until_it_listens();
    wait_for("readiness", || guard.get("/readyz").is_ok_and(|(status, _)| status == 200));
    assert_eq!(run(probe(&guard)), Code::Ok);
    assert_eq!(guard.get("/nothing").unwrap().0, 404);
}

fn metrics_count_calls_by_fixed_names() {
    let dir = tempfile::tempdir().unwrap();
    let plugin = Plugin::start(dir.path());
    let guard = Guard::before(&plugin);
    run(async {
        probe(&guard).await;
        for name in 0..50 {
            let path = format!("/made.up.Service{name}/Method");
            guard.ask(&path, b"").await.unwrap();
        }
        guard.ask(Method::Stage.path(), &stage_bytes("pvc-unknown")).await.unwrap();
    });
    let (status, metrics) = guard.get("/metrics").unwrap();
    assert_eq!(status, 200);
    for line in [
        r#"mount_guard_rpcs_total{method="Probe",code="OK",side="Caller"} 1"#,
        r#"mount_guard_rpcs_total{method="other",code="UNIMPLEMENTED",side="Plugin"} 50"#,
        r#"mount_guard_rpcs_total{method="NodeStageVolume",code="NOT_FOUND",side="Caller"} 1"#,
        r#"mount_guard_decisions_total{method="NodeStageVolume",decision="Started"} 1"#,
    ] {
        assert!(metrics.lines().any(|there| there == line), "{line} in\n{metrics}");
    }
    assert!(!metrics.contains("made.up") && !metrics.contains("pvc-unknown"));
    assert!(metrics.ends_with("# EOF\n"));
}

fn status_shows_the_calls_under_way() {
    let dir = tempfile::tempdir().unwrap();
    let plugin = Plugin::start(dir.path());
    let guard = Guard::before(&plugin);
    plugin.script().always(Method::Stage, None, Act::hang());
    let shown = run(async {
        let (socket, message) = (guard.socket(), stage_bytes("pvc-7"));
        let stage = tokio::spawn(async move {
            call_once(&socket, Method::Stage.path(), &HeaderMap::new(), &message).await
        });
        while plugin.counts().asked(Method::Stage) < 1 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        stage.abort();
        guard.get("/status").unwrap().1
    });
    let status: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(status["calls"][0]["volume"], "pvc-7");
    assert_eq!(status["calls"][0]["method"], "NodeStageVolume");
    assert_eq!(status["troubles"], serde_json::json!([]));
}
