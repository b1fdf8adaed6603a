//! The order of a Stage: look, hold, check, let go, forward, prove.

use tokio::time::sleep;

use super::*;
use crate::facts::bytes::{ByteRange, DeviceBytes, Outcome as Read};
use crate::facts::device::{DeviceFacts, ExclusiveOpen, Holder, HolderKind, MapName, Target};
use crate::facts::memory::{Event, Held, Kills, Marks, Record, Remembered};
use crate::facts::mounts::Mount;
use crate::facts::superblock::ext;
use crate::facts::tool::{End, Outcome as Step, Ran};
use crate::host::fake::{CHECK_TAKES, FakeDevice};
use crate::host::{Host, MountAt, Unapplied, Written};
use crate::volume::DevNumber;

const SIZE_BYTES: u64 = 100_000 * 4096;
const NUMBER: DevNumber = DevNumber { major: 8, minor: 32 };

/// A free device of volume `v` with these bytes; what is not set is zeros.
fn device(content: &[(u64, Vec<u8>)]) -> FakeDevice {
    let path = "/dev/longhorn/v".into();
    let facts = DeviceFacts {
        is_known: Some(true),
        name: Some("sdc".into()),
        size_bytes: Some(SIZE_BYTES),
        is_read_only: Some(false),
        target: Some(Target::Iqn("iqn.2019-10.io.longhorn:v".into())),
        map: Some(None),
        holders: Some(vec![]),
        slaves: Some(vec![]),
        loops: Some(vec![]),
        twins: Some(vec![]),
        ..DeviceFacts::unread(path, NUMBER, ExclusiveOpen::Granted)
    };
    let mut bytes = DeviceBytes::new(SIZE_BYTES);
    let mut head = vec![0; 1 << 20];
    for (at, part) in content {
        let at = usize::try_from(*at).unwrap();
        head[at..at + part.len()].copy_from_slice(part);
    }
    bytes.put(ByteRange::new(0, 1 << 20), Read::Bytes(head));
    FakeDevice { facts, bytes }
}

/// One that holds a filesystem with nothing against it.
fn clean() -> FakeDevice {
    let superblock = ext::tests::sample(0);
    let table = ext::groups::tests::table(&superblock);
    device(&[(1024, superblock), (4096, table)])
}

/// One that was not unmounted, and so is checked.
fn dirty() -> FakeDevice {
    let mut superblock = ext::tests::sample(0);
    superblock[0x3a] = 0;
    ext::tests::sum(&mut superblock);
    let table = ext::groups::tests::table(&superblock);
    device(&[(1024, superblock), (4096, table)])
}

fn node(host: &FakeHost, device: FakeDevice) {
    host.node().devices.lock().unwrap().insert(device.facts.path.clone(), device);
}

fn mount(number: &str) -> MountAt {
    let line = format!("36 35 {number} / /staging rw - ext4 /dev/longhorn/v rw");
    MountAt { mount: Mount::parse(line.as_bytes()).unwrap(), unique_id: Some(7) }
}

fn ended(exit: i32) -> Step {
    let (stdout, stderr) = (String::new(), String::new());
    let took = CHECK_TAKES;
    Step::Ran(Ran { end: End::Exited(exit), stdout, stderr, took })
}

fn record(host: &FakeHost) -> Record {
    let volume = VolumeId::parse("v").unwrap();
    let memory = host.node().memory.lock().unwrap();
    memory.get(&volume).cloned().unwrap_or(Remembered::Nothing).into_record()
}

async fn set(device: FakeDevice, policy: Policy) -> (FakePlugin, FakeHost, Arc<TestGuard>) {
    let (plugin, host) = (FakePlugin::default(), FakeHost::default());
    node(&host, device);
    plugin.mounts_on(&host, mount("8:32"));
    let guard = guard_with(&plugin, &host, policy).await;
    (plugin, host, guard)
}

#[tokio::test(start_paused = true)]
async fn a_blank_device_is_watched_recorded_and_then_handed_on() {
    let (plugin, host, guard) = set(device(&[]), Policy::default()).await;
    let begun = tokio::time::Instant::now();
    let answer = guard.call(stage("v", seconds(1))).await;
    assert_plugin_said(&answer, &Outcome::Done);
    assert_eq!(begun.elapsed(), seconds(6));
    assert_eq!(record(&host).format_forwarded_seconds, Some(host.now_seconds()));
    assert_eq!((plugin.calls(), host.node().holds()), (vec![Method::Stage], 0));
}

#[tokio::test(start_paused = true)]
async fn a_blank_device_that_held_data_is_refused() {
    let (plugin, host, guard) = set(device(&[]), Policy::default()).await;
    let seen = Event::Seen(Held { name: "ext4".into(), uuid: None });
    host.remember(&VolumeId::parse("v").unwrap(), &seen).await.unwrap();
    let answer = guard.call(stage("v", seconds(1))).await;
    assert_own(&answer, |own| {
        matches!(own, Own::Refused { reason, .. }
        if reason.kind == "blank_but_held")
    });
    assert_eq!((plugin.calls(), host.node().holds()), (vec![], 0));
}

#[tokio::test(start_paused = true)]
async fn a_check_is_recorded_before_it_begins_and_applied_before_the_plugin_is_asked() {
    let (plugin, host, guard) = set(dirty(), Policy::default()).await;
    host.node().outcomes.lock().unwrap().push_back(ended(0));
    let call = tokio::spawn({
        let guard = Arc::clone(&guard);
        async move { guard.call(stage("v", seconds(1))).await }
    });
    sleep(seconds(5)).await;
    assert!(record(&host).running.is_some() && host.node().holds() == 1);
    let doing = guard.in_flight()[0].doing.to_string();
    assert_eq!(doing, "e2fsck checks its filesystem (pass 2 of 5, 50 %)");
    assert_plugin_said(&call.await.unwrap(), &Outcome::Done);
    assert_eq!(host.node().deeds(), ["trial in StateDir", "e2fsck -p", "apply"]);
    let record = record(&host);
    assert_eq!((record.running, record.last_check_seconds), (None, Some(host.now_seconds())));
    assert_eq!(record.held.unwrap().name, "ext4");
    assert_eq!((plugin.calls(), host.node().holds()), (vec![Method::Stage], 0));
}

#[tokio::test(start_paused = true)]
async fn ten_identical_calls_are_one_check_and_one_plugin_call() {
    let (plugin, host, guard) = set(dirty(), Policy::default()).await;
    host.node().outcomes.lock().unwrap().push_back(ended(0));
    let calls = (0..10).map(|_| guard.call(stage("v", seconds(1))));
    for answer in futures_util::future::join_all(calls).await {
        assert_plugin_said(&answer, &Outcome::Done);
    }
    assert_eq!((plugin.calls().len(), host.node().deeds().len()), (1, 3));
}

#[tokio::test(start_paused = true)]
async fn an_unstage_ends_a_check_and_then_runs() {
    let (plugin, host, guard) = set(dirty(), Policy::default()).await;
    let stage = tokio::spawn({
        let guard = Arc::clone(&guard);
        async move { guard.call(stage("v", seconds(1))).await }
    });
    sleep(seconds(5)).await;
    let begun = tokio::time::Instant::now();
    let answer = guard.call(unstage("v", seconds(1))).await;
    assert_plugin_said(&answer, &Outcome::Done);
    assert!(begun.elapsed() < seconds(2), "{:?}", begun.elapsed());
    assert_own(&stage.await.unwrap(), |own| matches!(own, Own::CalledOff { .. }));
    assert_eq!((plugin.calls(), host.node().holds()), (vec![Method::Unstage], 0));
    assert_eq!(record(&host).kills, Kills::default());
}

#[tokio::test(start_paused = true)]
async fn an_unstage_in_the_middle_of_an_apply_waits_for_its_end_and_the_plugin_is_not_asked() {
    let (plugin, host, guard) = set(dirty(), Policy::default()).await;
    host.node().outcomes.lock().unwrap().push_back(ended(0));
    host.node().apply_takes.store(5, std::sync::atomic::Ordering::Relaxed);
    let stage = tokio::spawn({
        let guard = Arc::clone(&guard);
        async move { guard.call(stage("v", seconds(1))).await }
    });
    sleep(CHECK_TAKES + seconds(2)).await;
    assert_eq!(guard.in_flight()[0].doing.to_string(), "a repair is being written to its device");
    assert_plugin_said(&guard.call(unstage("v", seconds(1))).await, &Outcome::Done);
    assert_own(&stage.await.unwrap(), |own| matches!(own, Own::CalledOff { .. }));
    assert_eq!(plugin.calls(), [Method::Unstage]);
    assert_eq!(host.node().deeds(), ["trial in StateDir", "e2fsck -p", "apply"]);
}

#[tokio::test(start_paused = true)]
async fn a_third_volume_waits_for_its_check_and_says_in_which_place() {
    let (_, host, guard) = set(dirty(), Policy::default()).await;
    for volume in ["a", "b"] {
        let mut other = dirty();
        other.facts.path = format!("/dev/longhorn/{volume}").into();
        other.facts.target = Some(Target::Iqn(format!("iqn.2019-10.io.longhorn:{volume}")));
        node(&host, other);
    }
    host.node().outcomes.lock().unwrap().extend((0..3).map(|_| ended(0)));
    let calls: Vec<_> = ["a", "b", "v"]
        .map(|volume| {
            let guard = Arc::clone(&guard);
            let call = stage(volume, seconds(1));
            tokio::spawn(async move { guard.call(call).await })
        })
        .into();
    sleep(seconds(5)).await;
    let doing: Vec<String> =
        guard.in_flight().iter().map(|flight| flight.doing.to_string()).collect();
    let queued = doing.iter().filter(|doing| doing.contains("place 1 in the queue")).count();
    assert_eq!(queued, 1, "{doing:?}");
    for call in calls {
        assert_plugin_said(&call.await.unwrap(), &Outcome::Done);
    }
}

#[tokio::test(start_paused = true)]
async fn descriptors_that_are_gone_are_checked_under_a_clean_superblock() {
    let (plugin, host, guard) =
        set(device(&[(1024, ext::tests::sample(0))]), Policy::default()).await;
    host.node().outcomes.lock().unwrap().push_back(ended(4));
    let answer = guard.call(stage("v", seconds(1))).await;
    assert_own(&answer, |own| {
        matches!(own, Own::Refused { reason, .. }
        if reason.kind == "damaged")
    });
    assert!(plugin.calls().is_empty());
    assert_eq!(host.node().deeds(), ["trial in StateDir", "e2fsck -p", "discard"]);
}

#[tokio::test(start_paused = true)]
async fn a_checker_that_dies_three_times_is_not_started_again() {
    let (plugin, host, guard) = set(dirty(), Policy::default()).await;
    for _ in 0..3 {
        let died = Step::Ran(Ran {
            end: End::Signalled(9),
            stdout: String::new(),
            stderr: String::new(),
            took: CHECK_TAKES,
        });
        host.node().outcomes.lock().unwrap().push_back(died);
        let answer = guard.call(stage("v", seconds(1))).await;
        assert_own(&answer, |own| {
            matches!(own, Own::DeviceSilent { reason, .. }
            if reason.kind == "checker_died")
        });
    }
    assert_eq!(record(&host).kills, Kills { check: 3, repair: 0 });
    assert_plugin_said(&guard.call(stage("v", seconds(1))).await, &Outcome::Done);
    assert_eq!(plugin.calls(), [Method::Stage]);
}

#[tokio::test(start_paused = true)]
async fn a_multipath_map_is_refused_reported_or_let_be_as_the_flag_says() {
    use crate::claims::Multipath;
    for (multipath, refused) in
        [(Multipath::Refuse, true), (Multipath::Report, false), (Multipath::Off, false)]
    {
        let mut held = clean();
        held.facts.exclusive_open = ExclusiveOpen::Busy;
        let map = MapName { name: "mpatha".into(), uuid: "mpath-3600".into() };
        let kind = HolderKind::Map { map, paths: Some(vec![]) };
        held.facts.holders = Some(vec![Holder { name: "dm-0".into(), number: None, kind }]);
        let (plugin, host, guard) = set(held, Policy { multipath, ..Policy::default() }).await;
        let answer = guard.call(stage("v", seconds(1))).await;
        match refused {
            true => assert_own(&answer, |own| matches!(own, Own::Refused { .. })),
            false => assert_plugin_said(&answer, &Outcome::Done),
        }
        assert_eq!(plugin.calls().is_empty(), refused);
        assert!(host.node().deeds().is_empty(), "nothing is run on a held device");
    }
}

#[tokio::test(start_paused = true)]
async fn an_ok_that_left_another_device_mounted_is_undone_and_not_passed_on() {
    let (plugin, host, guard) = set(clean(), Policy::default()).await;
    plugin.mounts_on(&host, mount("8:48"));
    let answer = guard.call(stage("v", seconds(1))).await;
    assert_own(&answer, |own| matches!(own, Own::NotProven { .. }));
    assert_eq!(plugin.calls(), [Method::Stage, Method::Unstage]);
    assert!(host.node().mounts.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_mount_that_takes_no_write_is_undone_if_this_call_made_it_and_kept_if_not() {
    for older in [false, true] {
        let (plugin, host, guard) = set(clean(), Policy::default()).await;
        if older {
            host.node().mounts.lock().unwrap().insert("/staging".into(), mount("8:32"));
        }
        *host.node().written.lock().unwrap() = Some(Written::Failed { errno: 5 });
        let answer = guard.call(stage("v", seconds(1))).await;
        assert_own(&answer, |own| matches!(own, Own::NotProven { .. }));
        let undone = if older { vec![Method::Stage] } else { vec![Method::Stage, Method::Unstage] };
        assert_eq!(plugin.calls(), undone);
        assert_eq!(record(&host).marks.incident, older);
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_is_no_flaw_and_neither_is_one_without_nameless_files() {
    for written in [Written::Full, Written::NotSupported] {
        let (_, host, guard) = set(clean(), Policy::default()).await;
        *host.node().written.lock().unwrap() = Some(written);
        assert_plugin_said(&guard.call(stage("v", seconds(1))).await, &Outcome::Done);
    }
}

#[tokio::test(start_paused = true)]
async fn a_final_failure_that_left_a_mount_is_undone_before_kubelet_hears_it() {
    let (plugin, host, guard) = set(clean(), Policy::default()).await;
    plugin.mounts_even_if_it_fails();
    let answer = guard.call(stage("v", seconds(1)).ends_in(refused_for_good())).await;
    assert_plugin_said(&answer, &refused_for_good());
    assert_eq!(plugin.calls(), [Method::Stage, Method::Unstage]);
    assert!(host.node().mounts.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_judges_and_changes_nothing() {
    let policy = Policy { dry_run: true, ..Policy::default() };
    let (plugin, host, guard) = set(dirty(), policy).await;
    host.node().outcomes.lock().unwrap().push_back(ended(0));
    assert_plugin_said(&guard.call(stage("v", seconds(1))).await, &Outcome::Done);
    assert_eq!(host.node().deeds(), ["trial in StateDir", "e2fsck -p", "discard"]);
    assert_eq!(plugin.calls(), [Method::Stage]);
}

#[tokio::test(start_paused = true)]
async fn an_apply_that_was_cut_off_keeps_the_volume_back_and_is_finished_first() {
    let (plugin, host, guard) = set(dirty(), Policy::default()).await;
    host.node().outcomes.lock().unwrap().extend([ended(0), ended(0)]);
    let half = Unapplied::HalfWritten { why: "EIO".into(), redoable: true };
    *host.node().unapplied.lock().unwrap() = Some(half);
    let answer = guard.call(stage("v", seconds(1))).await;
    assert_own(&answer, |own| {
        matches!(own, Own::DeviceSilent { reason, .. }
        if reason.kind == "half_written")
    });
    assert!(plugin.calls().is_empty());
    host.node().pending.lock().unwrap().push(VolumeId::parse("v").unwrap());
    assert_plugin_said(&guard.call(stage("v", seconds(1))).await, &Outcome::Done);
    let deeds = host.node().deeds();
    assert_eq!(deeds[3..], ["redo", "trial in StateDir", "e2fsck -p", "apply"]);
}

#[tokio::test(start_paused = true)]
async fn a_volume_may_say_how_far_its_check_goes() {
    for (word, checked) in [("off", false), ("check", true), ("nonsense", true)] {
        let (_, host, guard) = set(dirty(), Policy::default()).await;
        host.node().outcomes.lock().unwrap().push_back(ended(0));
        let mut call = stage("v", seconds(1));
        let Request::Stage(req) = &mut call.request else { panic!() };
        req.settings.fsck = Some(word.into());
        assert_plugin_said(&guard.call(call).await, &Outcome::Done);
        assert_eq!(host.node().deeds().contains(&"e2fsck -p".to_owned()), checked, "{word}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_shared_volume_is_left_to_its_share_manager() {
    let (plugin, host, guard) = set(dirty(), Policy::default()).await;
    let mut call = stage("v", seconds(1));
    let Request::Stage(req) = &mut call.request else { panic!() };
    req.capability.multi_node = true;
    assert_plugin_said(&guard.call(call).await, &Outcome::Done);
    assert!(host.node().deeds().is_empty());
    assert_eq!(plugin.calls(), [Method::Stage]);
}

#[tokio::test(start_paused = true)]
async fn a_directory_that_takes_no_records_stops_nobody() {
    let (plugin, host, guard) = set(clean(), Policy::default()).await;
    host.node().read_only.store(true, std::sync::atomic::Ordering::Relaxed);
    assert_plugin_said(&guard.call(stage("v", seconds(1))).await, &Outcome::Done);
    assert_eq!(plugin.calls(), [Method::Stage]);
}

#[tokio::test(start_paused = true)]
async fn an_operators_mark_makes_a_clean_filesystem_be_checked_once() {
    let (_, host, guard) = set(clean(), Policy::default()).await;
    let volume = VolumeId::parse("v").unwrap();
    host.remember(&volume, &Event::Recheck).await.unwrap();
    host.node().outcomes.lock().unwrap().push_back(ended(0));
    for _ in 0..2 {
        assert_plugin_said(&guard.call(stage("v", seconds(1))).await, &Outcome::Done);
        assert_plugin_said(&guard.call(unstage("v", seconds(1))).await, &Outcome::Done);
    }
    let checks = host.node().deeds().iter().filter(|deed| deed.starts_with("e2fsck")).count();
    assert_eq!((checks, record(&host).marks), (1, Marks::default()));
}
