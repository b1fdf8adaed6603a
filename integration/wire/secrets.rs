//! Case 124: what is secret reaches no log, no metric, no state file and no error, at the loudest
//! log level, in every call that carries it, and not by a panic.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use mount_guard::csi;
use prost::Message;
use tonic::Status;

use crate::support::guard::Guard;
use crate::support::plugin::{Act, Method, Plugin};
use crate::support::rpc::Answer;
use crate::support::run;

pub fn tests() -> Vec<libtest_mimic::Trial> {
    crate::tests![
        case_124_secrets_are_nowhere_to_be_found,
        case_124_a_panic_does_not_print_what_it_carries,
    ]
}

const SECRET: &str = "sentinel-passphrase";
const TOKEN: &str = "sentinel-token";

fn secrets() -> std::collections::HashMap<String, String> {
    [("CRYPTO_KEY_VALUE".to_owned(), SECRET.to_owned())].into()
}

fn context() -> std::collections::HashMap<String, String> {
    let tokens = format!(r#"{{"aud":{{"token":"{TOKEN}"}}}}"#);
    [("csi.storage.k8s.io/serviceAccount.tokens".to_owned(), tokens)].into()
}

fn capability() -> Option<csi::VolumeCapability> {
    Some(csi::VolumeCapability {
        access_mode: Some(csi::volume_capability::AccessMode { mode: 7 }),
        access_type: Some(csi::volume_capability::AccessType::Mount(Default::default())),
    })
}

/// Every request that carries a secret; malformed ones too.
fn requests() -> Vec<(Method, Vec<u8>)> {
    let mut requests = Vec::new();
    for volume_id in ["pvc-1", "../pvc", ""] {
        let stage = csi::NodeStageVolumeRequest {
            volume_id: volume_id.into(),
            staging_target_path: "/k/staging".into(),
            volume_capability: capability(),
            secrets: secrets(),
            volume_context: context(),
            ..Default::default()
        };
        let publish = csi::NodePublishVolumeRequest {
            volume_id: volume_id.into(),
            staging_target_path: "/k/staging".into(),
            target_path: "/k/target".into(),
            volume_capability: capability(),
            secrets: secrets(),
            volume_context: context(),
            ..Default::default()
        };
        let expand = csi::NodeExpandVolumeRequest {
            volume_id: volume_id.into(),
            volume_path: "/k/target".into(),
            secrets: secrets(),
            ..Default::default()
        };
        requests.push((Method::Stage, stage.encode_to_vec()));
        requests.push((Method::Publish, publish.encode_to_vec()));
        requests.push((Method::Expand, expand.encode_to_vec()));
    }
    let mut torn = requests[0].1.clone();
    torn.truncate(torn.len() - 3);
    requests.push((Method::Stage, torn));
    requests
}

fn case_124_secrets_are_nowhere_to_be_found() {
    let dir = tempfile::tempdir().unwrap();
    let mut plugin = Plugin::start(dir.path());
    let mut guard = Guard::idle(plugin.socket());
    guard.set_log_level("trace");
    guard.start();
    guard.wait_until_it_listens();
    let ask = |method: Method, message: &[u8]| -> Answer {
        run(guard.ask(method.path(), message)).unwrap()
    };
    let mut answers = Vec::new();
    for (method, message) in requests() {
        answers.push(ask(method, &message));
        plugin.script().once(method, None, Act::fail(Status::internal("no")));
        answers.push(ask(method, &message));
    }
    // Joined, refused beside another, cut off, and refused after that.
    plugin.script().once(Method::Stage, None, Act::slow_before(Duration::from_secs(2)));
    let (stage, publish) = (&requests()[0].1, &requests()[1].1);
    run(async {
        let (one, two, busy, ()) = tokio::join!(
            guard.ask(Method::Stage.path(), stage),
            guard.ask(Method::Stage.path(), stage),
            async {
                tokio::time::sleep(Duration::from_millis(500)).await;
                guard.ask(Method::Publish.path(), publish).await
            },
            async {
                tokio::time::sleep(Duration::from_millis(1000)).await;
                state_holds_no_secret(&guard.state_dir());
                plugin.restart();
            },
        );
        answers.extend([one.unwrap(), two.unwrap(), busy.unwrap()]);
    });
    plugin.script().once(Method::Stage, None, Act::fail(Status::internal("no")));
    answers.push(ask(Method::Stage, stage));

    let own = answers.iter().filter(|answer| answer.status().message().contains("mount-guard"));
    assert!(own.count() >= 4, "the guard's own answers are among them");
    for answer in &answers {
        assert_no_secret(&format!("{answer:?}"), "an answer");
    }
    assert_no_secret(&guard.get("/metrics").unwrap().1, "the metrics");
    assert_no_secret(&guard.get("/status").unwrap().1, "the status");
    state_holds_no_secret(&guard.state_dir());
    let log = guard.log();
    assert!(log.contains("TRACE") && log.contains("pvc-1"), "the log is as loud as it can be");
    assert_no_secret(&log, "the log");
}

fn state_holds_no_secret(dir: &Path) {
    let mut dirs = vec![dir.to_owned()];
    let mut files = 0;
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            match entry.path() {
                path if path.is_dir() => dirs.push(path),
                path => {
                    files += 1;
                    assert_no_secret(
                        &String::from_utf8_lossy(&std::fs::read(path).unwrap()),
                        "state",
                    );
                }
            }
        }
    }
    assert!(files > 0, "a call under way is on record");
}

#[track_caller]
fn assert_no_secret(text: &str, place: &str) {
    for secret in [SECRET, TOKEN] {
        assert!(!text.contains(secret), "{secret} in {place}");
        // As bytes printed in a list, or with escapes between.
        let listed: Vec<_> = secret.bytes().map(|byte| byte.to_string()).collect();
        assert!(!text.contains(&listed.join(", ")), "{secret} in {place}, as numbers");
    }
}

/// The word `panic-with-a-secret` of this binary.
pub fn panic_with_a_secret() -> ! {
    let level = mount_guard::config::LogLevel::parse("trace").expect("a level");
    mount_guard::telemetry::start_log(mount_guard::config::LogFormat::Json, &level);
    let joined = std::thread::spawn(|| panic!("cannot parse {SECRET}")).join();
    assert!(joined.is_err());
    std::process::exit(0);
}

fn case_124_a_panic_does_not_print_what_it_carries() {
    let done = Command::new(std::env::current_exe().unwrap())
        .arg("panic-with-a-secret")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let printed = [done.stdout, done.stderr].concat();
    let printed = String::from_utf8_lossy(&printed);
    assert!(done.status.success(), "{printed}");
    assert!(printed.contains("panic") && printed.contains("secrets.rs"), "{printed}");
    assert_no_secret(&printed, "what a panic prints");
}
