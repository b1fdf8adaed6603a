//! The echo services show every byte, header and trailer; the raw client sees them.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use tonic::Code;

use crate::support::plugin::{Method, Plugin};
use crate::support::rpc::{Answer, Rpc, call_once, frame};
use crate::support::run;

pub fn tests() -> Vec<libtest_mimic::Trial> {
    crate::tests![
        a_reply_has_the_bytes_and_the_metadata_of_its_request,
        twenty_mebibytes_come_back,
        a_plugin_takes_four_mebibytes_at_most,
        a_stream_ends_in_an_error_with_trailers,
        a_chat_goes_both_ways_at_once,
        an_unknown_service_is_unimplemented,
        a_reply_can_fail_and_a_dropped_call_is_reset,
    ]
}

fn served(test: impl AsyncFnOnce(&Plugin)) {
    let dir = tempfile::tempdir().unwrap();
    let plugin = Plugin::start(dir.path());
    run(test(&plugin));
}

async fn ask(plugin: &Plugin, path: &str, headers: &HeaderMap, message: &[u8]) -> Answer {
    call_once(plugin.socket(), path, headers, message).await.unwrap()
}

fn a_reply_has_the_bytes_and_the_metadata_of_its_request() {
    served(async |plugin| {
        let mut headers = HeaderMap::new();
        headers.append("x-many", HeaderValue::from_static("one"));
        headers.append("x-many", HeaderValue::from_static("two"));
        headers.insert("x-raw-bin", HeaderValue::from_static("AP/+"));
        // Not a message anybody could decode.
        let answer = ask(plugin, "/test.Echo/Reply", &headers, b"\xff\xff\x00").await;
        assert_eq!(answer.data, frame(b"\xff\xff\x00"));
        for block in [&answer.headers, answer.trailers.as_ref().unwrap()] {
            let many: Vec<_> = block.get_all("x-many").iter().collect();
            assert_eq!(many, ["one", "two"]);
            assert_eq!(block["x-raw-bin"], "AP/+");
        }
    });
}

fn twenty_mebibytes_come_back() {
    served(async |plugin| {
        let message = vec![0x5a; 20 << 20];
        let answer = ask(plugin, "/test.Echo/Reply", &HeaderMap::new(), &message).await;
        assert!(answer.reply().unwrap() == message);
    });
}

fn a_plugin_takes_four_mebibytes_at_most() {
    served(async |plugin| {
        let message = vec![0; (4 << 20) + 1];
        let answer = ask(plugin, Method::Stage.path(), &HeaderMap::new(), &message).await;
        let status = answer.status();
        assert_eq!(status.code(), Code::ResourceExhausted);
        let text = "grpc: received message larger than max (4194305 vs. 4194304)";
        assert_eq!(status.message(), text);
    });
}

fn a_stream_ends_in_an_error_with_trailers() {
    served(async |plugin| {
        let headers = HeaderMap::from_iter([("x-messages".parse().unwrap(), "5".parse().unwrap())]);
        let path = "/csi.v1.SnapshotMetadata/GetMetadataAllocated";
        let answer = ask(plugin, path, &headers, b"again").await;
        assert_eq!(answer.messages(), [&b"again"[..]; 5]);
        let status = answer.status();
        assert_eq!((status.code(), status.details()), (Code::DataLoss, &b"\x00details\xff"[..]));
        assert_eq!(answer.trailers.unwrap()["x-trailer"], "last words");
    });
}

fn a_chat_goes_both_ways_at_once() {
    served(async |plugin| {
        let rpc = Rpc::connect(plugin.socket()).await.unwrap();
        let headers = HeaderMap::from_iter([("x-id".parse().unwrap(), "7".parse().unwrap())]);
        let mut chat = rpc.open("/test.Echo/Chat", &headers).await;
        assert_eq!(chat.head().await.headers["x-id"], "7", "before anything was said");
        for word in ["one", "two"] {
            let said = frame(word.as_bytes());
            chat.send(&said);
            assert_eq!(chat.data().await.unwrap(), said);
        }
        chat.finish();
        let rest = chat.rest().await;
        assert_eq!(rest.status().code(), Code::Ok);
        assert_eq!(rest.trailers.unwrap()["x-id"], "7");
    });
}

fn an_unknown_service_is_unimplemented() {
    served(async |plugin| {
        for (path, text) in [
            ("/test.Nobody/Home", "unknown service test.Nobody"),
            ("/csi.v1.Node/NodeFuture", "unknown method NodeFuture for service csi.v1.Node"),
            ("/test.Echo/Sing", "unknown method Sing for service test.Echo"),
        ] {
            let answer = ask(plugin, path, &HeaderMap::new(), b"").await;
            let status = answer.status();
            assert_eq!((status.code(), status.message()), (Code::Unimplemented, text));
            assert!(answer.trailers.is_none(), "one block of headers, as grpc-go sends it");
        }
        let controller = "/csi.v1.Controller/ControllerGetCapabilities";
        let reply = ask(plugin, controller, &HeaderMap::new(), b"").await.reply().unwrap();
        assert_eq!(reply, [0x0a, 4, 0x0a, 2, 0x08, 1][..]);
    });
}

fn a_reply_can_fail_and_a_dropped_call_is_reset() {
    served(async |plugin| {
        let headers = HeaderMap::from_iter([("x-status".parse().unwrap(), "10".parse().unwrap())]);
        let answer = ask(plugin, "/test.Echo/Reply", &headers, b"").await;
        assert_eq!(answer.status().code(), Code::Aborted);

        // The connection outlives a call that was given up.
        let rpc = Rpc::connect(plugin.socket()).await.unwrap();
        let slow =
            HeaderMap::from_iter([("x-sleep-ms".parse().unwrap(), "60000".parse().unwrap())]);
        let nothing = [Bytes::new()];
        let call = rpc.call("/test.Echo/Reply", &slow, &nothing);
        let given_up = tokio::time::timeout(std::time::Duration::from_millis(50), call).await;
        assert!(given_up.is_err());
        let answer = rpc.call("/test.Echo/Reply", &HeaderMap::new(), &[Bytes::new()]).await;
        assert_eq!(answer.status().code(), Code::Ok);
    });
}
