//! Streams, deadlines and cancellations on their way through.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use tokio::time::{Instant, sleep, timeout};
use tonic::{Code, Status};

use crate::support::guard::Guard;
use crate::support::plugin::{Act, Method, Plugin};
use crate::support::rpc::{Rpc, call_once, frame};
use crate::support::run;

pub fn tests() -> Vec<libtest_mimic::Trial> {
    crate::tests![
        a_conversation_goes_both_ways_at_once,
        metadata_crosses_both_ways,
        nothing_is_added_to_an_answer,
        a_deadline_crosses_and_is_shortened_by_a_wait,
        a_caller_that_goes_away_is_known_to_the_plugin,
        a_plugin_that_dies_in_the_middle_of_a_stream_is_unavailable,
        a_call_waits_for_a_plugin_that_is_away,
        many_calls_share_a_connection_and_none_waits,
    ]
}

fn plugin_and_guard() -> (tempfile::TempDir, Plugin, Guard) {
    let dir = tempfile::tempdir().unwrap();
    let plugin = Plugin::start(dir.path());
    let guard = Guard::before(&plugin);
    (dir, plugin, guard)
}

fn a_conversation_goes_both_ways_at_once() {
    let (_dir, _plugin, guard) = plugin_and_guard();
    run(async {
        let rpc = Rpc::connect(&guard.socket()).await.unwrap();
        let mut chat = rpc.open("/test.Echo/Chat", &HeaderMap::new()).await;
        let head = timeout(Duration::from_secs(5), chat.head()).await.expect("headers at once");
        assert_eq!(head.http_status, 200);
        for turn in 0..20_u8 {
            let said = frame(&[turn; 1000]);
            chat.send(&said);
            let heard = timeout(Duration::from_secs(5), chat.data()).await.expect("an echo");
            assert_eq!(heard.unwrap(), said, "before anything else is said");
        }
        chat.finish();
        assert_eq!(chat.rest().await.trailers.unwrap()["grpc-status"], "0");
    });
}

fn metadata_crosses_both_ways() {
    let (_dir, _plugin, guard) = plugin_and_guard();
    let mut headers = HeaderMap::new();
    for (name, value) in
        [("x-plain", "a"), ("x-plain", "b"), ("x-raw-bin", "AAH/"), ("x-empty", "")]
    {
        headers.append(name, HeaderValue::from_static(value));
    }
    let answer = run(call_once(&guard.socket(), "/test.Echo/Reply", &headers, b"m")).unwrap();
    for there in [&answer.headers, answer.trailers.as_ref().unwrap()] {
        assert_eq!(there.get_all("x-plain").iter().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(there["x-raw-bin"], "AAH/");
        assert_eq!(there["x-empty"], "");
    }
}

fn nothing_is_added_to_an_answer() {
    let (_dir, plugin, guard) = plugin_and_guard();
    plugin.script().always(Method::Probe, None, Act::fail(Status::internal("no")));
    for path in [Method::Probe.path(), Method::GetInfo.path(), "/test.Echo/Reply"] {
        let answer = run(guard.ask(path, b"")).unwrap();
        for name in ["date", "server", "content-length", "via"] {
            assert!(!answer.headers.contains_key(name), "{path}: {name}");
        }
    }
}

fn a_deadline_crosses_and_is_shortened_by_a_wait() {
    let (_dir, mut plugin, guard) = plugin_and_guard();
    let headers = HeaderMap::from_iter([(
        http::HeaderName::from_static("grpc-timeout"),
        HeaderValue::from_static("60000m"),
    )]);
    let socket = guard.socket();
    let ask = || call_once(&socket, Method::GetInfo.path(), &headers, b"");
    run(ask()).unwrap();
    plugin.stop();
    guard.wait_until_it_misses_the_plugin();
    run(async {
        let (answer, ()) = tokio::join!(ask(), async {
            sleep(Duration::from_millis(500)).await;
            plugin.restart();
        });
        assert_eq!(answer.unwrap().status().code(), Code::Ok);
    });
    let calls = plugin.counts().calls(Method::GetInfo);
    assert_eq!(calls[0].timeout(), Some("60000m"), "untouched where nothing waited");
    let left = calls[1].timeout().unwrap().trim_end_matches(['u', 'm', 'n']).to_owned();
    let left: u64 = left.parse().unwrap();
    let unit = calls[1].timeout().unwrap().chars().last().unwrap();
    let left_ms = if unit == 'u' { left / 1000 } else { left };
    assert!((40_000..59_600).contains(&left_ms), "{:?}", calls[1].timeout());
}

fn a_caller_that_goes_away_is_known_to_the_plugin() {
    let (_dir, plugin, guard) = plugin_and_guard();
    run(async {
        let rpc = Rpc::connect(&guard.socket()).await.unwrap();
        let mut chat = rpc.open("/test.Echo/Chat", &HeaderMap::new()).await;
        chat.head().await;
        assert_eq!(plugin.counts().chats_open(), 1);
        drop(chat);
        let start = Instant::now();
        while plugin.counts().chats_open() > 0 {
            assert!(start.elapsed() < Duration::from_secs(5), "the plugin still listens");
            sleep(Duration::from_millis(5)).await;
        }
    });
}

fn a_plugin_that_dies_in_the_middle_of_a_stream_is_unavailable() {
    let (_dir, mut plugin, guard) = plugin_and_guard();
    run(async {
        let rpc = Rpc::connect(&guard.socket()).await.unwrap();
        let mut chat = rpc.open("/test.Echo/Chat", &HeaderMap::new()).await;
        chat.head().await;
        chat.send(&frame(b"hello"));
        assert!(chat.data().await.is_some());
        plugin.stop();
        let answer = chat.rest().await;
        assert_eq!(answer.broken, None, "a status, not a reset");
        assert_eq!(answer.trailers.unwrap()["grpc-status"], "14");
    });
}

fn a_call_waits_for_a_plugin_that_is_away() {
    let (_dir, mut plugin, guard) = plugin_and_guard();
    plugin.stop();
    guard.wait_until_it_misses_the_plugin();
    let ask = |timeout: &'static str| {
        let headers = HeaderMap::from_iter([(
            http::HeaderName::from_static("grpc-timeout"),
            HeaderValue::from_static(timeout),
        )]);
        let start = Instant::now();
        let answer = run(call_once(&guard.socket(), Method::Probe.path(), &headers, b""));
        (answer.unwrap().status(), start.elapsed())
    };
    let (status, after) = ask("60S");
    assert_eq!(status.code(), Code::Unavailable);
    let text = "mount-guard: longhorn-csi-plugin does not answer";
    assert!(status.message().starts_with(text), "{status:?}");
    assert!((9..12).contains(&after.as_secs()), "{after:?}");
    let (status, after) = ask("500m");
    assert_eq!(status.code(), Code::DeadlineExceeded, "never past the caller's own deadline");
    assert!(after < Duration::from_secs(3), "{after:?}");
    assert_eq!(guard.get("/readyz").unwrap().0, 503);
    plugin.restart();
    assert_eq!(ask("60S").0.code(), Code::Ok);
    assert_eq!(guard.get("/readyz").unwrap(), (200, "ok\n".to_owned()));
}

fn many_calls_share_a_connection_and_none_waits() {
    let (_dir, plugin, guard) = plugin_and_guard();
    plugin.script().always(Method::GetInfo, None, Act::slow_before(Duration::from_secs(3)));
    run(async {
        let rpc = Rpc::connect(&guard.socket()).await.unwrap();
        let mut calls = Vec::new();
        for _ in 0..500 {
            let mut call = rpc.open(Method::GetInfo.path(), &HeaderMap::new()).await;
            call.send(&Bytes::from_static(&[0; 5]));
            call.finish();
            calls.push(tokio::spawn(call.rest()));
        }
        sleep(Duration::from_millis(500)).await;
        let start = Instant::now();
        let probe = guard.ask(Method::Probe.path(), b"").await.unwrap();
        assert_eq!(probe.status().code(), Code::Ok);
        assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
        for call in calls {
            assert_eq!(call.await.unwrap().status().code(), Code::Ok);
        }
    });
}
