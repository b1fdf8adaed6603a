//! The guard's socket and the plugin's: bound, stale, live, deleted, forbidden.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
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
        case_108_stale_sockets_on_both_sides_do_not_matter,
        case_109_a_killed_guard_comes_back_on_the_same_path,
        case_109_a_live_socket_is_never_taken,
        case_111_nobody_is_answered_before_the_plugin_is,
        case_113_a_guard_that_restarts_is_found_again,
        a_deleted_socket_is_made_again,
        a_wiped_plugin_socket_is_followed,
        only_root_may_call,
        a_state_directory_that_is_a_file_stops_nobody,
        idle_clients_of_the_http_endpoint_do_not_shut_kubelet_out,
        a_wrong_flag_ends_the_process_before_it_touches_a_socket,
        a_stopping_guard_lets_a_call_finish,
        a_stopping_guard_does_not_wait_for_ever,
    ]
}

fn probe(socket: &Path) -> std::io::Result<Code> {
    run(call_once(socket, Method::Probe.path(), &HeaderMap::new(), b""))
        .map(|answer| answer.status().code())
}

#[track_caller]
fn assert_works(guard: &Guard) {
    assert_eq!(probe(&guard.socket()).unwrap(), Code::Ok);
}

fn case_108_stale_sockets_on_both_sides_do_not_matter() {
    let dir = tempfile::tempdir().unwrap();
    let mut guard = Guard::idle(&dir.path().join("csi.sock"));
    drop(UnixListener::bind(guard.socket()).unwrap());
    drop(UnixListener::bind(dir.path().join("csi.sock")).unwrap());
    guard.start();
    let _plugin = Plugin::start(dir.path());
    let start = Instant::now();
    wait_for("the first answer", || probe(&guard.socket()).is_ok_and(|code| code == Code::Ok));
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

fn case_109_a_killed_guard_comes_back_on_the_same_path() {
    let dir = tempfile::tempdir().unwrap();
    let plugin = Plugin::start(dir.path());
    let mut guard = Guard::before(&plugin);
    guard.kill();
    assert!(guard.socket().exists(), "a killed process leaves its socket behind");
    assert!(probe(&guard.socket()).is_err(), "refused at once, which kubelet takes for uncertain");
    guard.start();
    guard.wait_until_it_listens();
    assert_works(&guard);
}

fn case_109_a_live_socket_is_never_taken() {
    let dir = tempfile::tempdir().unwrap();
    let plugin = Plugin::start(dir.path());
    let mut first = Guard::before(&plugin);
    let inode = |guard: &Guard| {
        std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(guard.socket()).unwrap())
    };
    let before = inode(&first);
    let other = Guard::idle(plugin.socket());
    let mut second = other.command(first.socket()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    assert!(second.try_wait().unwrap().is_none(), "it waits, it does not die");
    assert_eq!(inode(&first), before);
    assert!(other.log().contains("a live process listens"), "{}", other.log());
    first.kill();
    wait_for("the second takes over", || probe(&first.socket()).is_ok());
    second.kill().unwrap();
    second.wait().unwrap();
}

fn case_111_nobody_is_answered_before_the_plugin_is() {
    let dir = tempfile::tempdir().unwrap();
    let mut guard = Guard::idle(&dir.path().join("csi.sock"));
    guard.start();
    wait_for("health", || guard.get("/healthz").is_ok());
    std::thread::sleep(Duration::from_millis(500));
    assert!(!guard.socket().exists());
    let plugin = Plugin::start_delayed(dir.path(), Duration::from_millis(500));
    guard.wait_until_it_listens();
    let info = run(guard.ask(Method::GetInfo.path(), b"")).unwrap();
    assert_eq!(info.status().code(), Code::Ok);
    assert_eq!(plugin.counts().asked(Method::GetInfo), 1);
}

fn case_113_a_guard_that_restarts_is_found_again() {
    let dir = tempfile::tempdir().unwrap();
    let plugin = Plugin::start(dir.path());
    let mut guard = Guard::before(&plugin);
    for _ in 0..3 {
        let start = Instant::now();
        guard.restart();
        assert_works(&guard);
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    }
}

fn a_deleted_socket_is_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let plugin = Plugin::start(dir.path());
    let guard = Guard::before(&plugin);
    for _ in 0..3 {
        std::fs::remove_file(guard.socket()).unwrap();
        let start = Instant::now();
        wait_for("the socket", || probe(&guard.socket()).is_ok());
        assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    }
    // Somebody else's socket in its place is left alone for as long as somebody answers on it.
    std::fs::remove_file(guard.socket()).unwrap();
    let other = UnixListener::bind(guard.socket()).unwrap();
    std::thread::sleep(Duration::from_secs(1));
    other.set_nonblocking(true).unwrap();
    while other.accept().is_ok() {}
    assert_eq!(guard.get("/readyz").unwrap().0, 503);
    drop(other);
    wait_for("the socket", || probe(&guard.socket()).is_ok_and(|code| code == Code::Ok));
}

fn a_wiped_plugin_socket_is_followed() {
    let dir = tempfile::tempdir().unwrap();
    let mut plugin = Plugin::start(dir.path());
    let guard = Guard::before(&plugin);
    plugin.wipe();
    assert_works(&guard);
    plugin.restart();
    assert_works(&guard);
    assert_eq!(plugin.counts().asked(Method::Probe), 2);
    assert!(guard.socket().exists(), "the guard's own socket is elsewhere");
}

fn only_root_may_call() {
    let dir = tempfile::tempdir().unwrap();
    let plugin = Plugin::start(dir.path());
    let guard = Guard::before(&plugin);
    let socket = guard.socket();
    let mode = std::fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // Even where the mode would let everybody in.
    std::fs::set_permissions(&socket, PermissionsExt::from_mode(0o666)).unwrap();
    std::fs::set_permissions(socket.parent().unwrap(), PermissionsExt::from_mode(0o755)).unwrap();
    let asked = plugin.counts().asked(Method::Probe);
    let answer = std::thread::spawn(move || {
        become_nobody();
        UnixStream::connect(&socket).unwrap();
        probe(&socket)
    });
    let refused = answer.join().unwrap();
    assert!(refused.is_err() || refused.is_ok_and(|code| code == Code::Unavailable));
    assert_eq!(plugin.counts().asked(Method::Probe), asked);
    assert!(guard.log().contains("not root"), "{}", guard.log());
    assert_works(&guard);
}

/// Changes this thread alone: the raw system call, where the C library would change all threads.
fn become_nobody() {
    // SAFETY: setresuid(2) takes three numbers and touches no memory.
    let changed = unsafe { libc::syscall(libc::SYS_setresuid, 65534, 65534, 65534) };
    assert_eq!(changed, 0);
}

fn a_state_directory_that_is_a_file_stops_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let plugin = Plugin::start(dir.path());
    let mut guard = Guard::idle(plugin.socket());
    std::fs::write(guard.state_dir(), "no directory").unwrap();
    guard.start();
    guard.wait_until_it_listens();
    let answer = run(guard.ask(Method::Stage.path(), &stage_bytes("pvc-unknown")));
    assert_eq!(answer.unwrap().status().code(), Code::NotFound, "the plugin's own answer");
    let (status, text) = guard.get("/readyz").unwrap();
    assert_eq!((status, text.as_str()), (503, "not ready: state_directory\n"));
    assert!(guard.log().contains("working without a record"), "{}", guard.log());
}

fn idle_clients_of_the_http_endpoint_do_not_shut_kubelet_out() {
    let dir = tempfile::tempdir().unwrap();
    let plugin = Plugin::start(dir.path());
    let guard = Guard::before(&plugin);
    let few = libc::rlimit { rlim_cur: 400, rlim_max: 400 };
    // SAFETY: prlimit(2) reads the limit behind a valid pointer; nothing is written back.
    let limited = unsafe {
        libc::prlimit(guard.pid().as_raw(), libc::RLIMIT_NOFILE, &few, std::ptr::null_mut())
    };
    assert_eq!(limited, 0);
    let address = ("127.0.0.1", guard.http_port());
    let idle: Vec<_> = (0..500).map(|_| std::net::TcpStream::connect(address).unwrap()).collect();
    assert_works(&guard);
    drop(idle);
    wait_for("health", || guard.get("/healthz").is_ok_and(|answer| answer.0 == 200));
}

fn a_wrong_flag_ends_the_process_before_it_touches_a_socket() {
    let dir = tempfile::tempdir().unwrap();
    let plugin = Plugin::start(dir.path());
    let guard = Guard::idle(plugin.socket());
    let mut wrong = guard.command(guard.socket()).args(["--log-level", ""]).spawn().unwrap();
    assert_eq!(wrong.wait().unwrap().code(), Some(2));
    assert!(!guard.socket().exists());
    assert!(guard.log().contains("--log-level"), "{}", guard.log());
}

fn a_stopping_guard_lets_a_call_finish() {
    let dir = tempfile::tempdir().unwrap();
    let plugin = Plugin::start(dir.path());
    let mut guard = Guard::before(&plugin);
    plugin.script().once(Method::Stage, None, Act::slow_before(Duration::from_secs(2)));
    run(async {
        let stage = stage_bytes("pvc-1");
        let (answer, ()) = tokio::join!(guard.ask(Method::Stage.path(), &stage), async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            guard.terminate();
            wait_for("no new callers", || !guard.socket().exists());
        });
        assert_eq!(answer.unwrap().status().code(), Code::NotFound, "the plugin's own answer");
    });
    assert!(guard.wait_for_its_end().success());
}

fn a_stopping_guard_does_not_wait_for_ever() {
    let dir = tempfile::tempdir().unwrap();
    let plugin = Plugin::start(dir.path());
    let mut guard = Guard::before(&plugin);
    plugin.script().once(Method::Stage, None, Act::hang());
    let start = Instant::now();
    run(async {
        let stage = stage_bytes("pvc-1");
        let (answer, ()) = tokio::join!(guard.ask(Method::Stage.path(), &stage), async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            guard.terminate();
        });
        let status = answer.unwrap().status();
        assert_eq!(status.code(), Code::Unavailable);
        assert!(status.message().contains("while the guard restarts"), "{}", status.message());
    });
    assert!(guard.wait_for_its_end().success());
    let took = start.elapsed();
    assert!((23..27).contains(&took.as_secs()), "{took:?}");
}
