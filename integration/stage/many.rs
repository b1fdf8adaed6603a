//! Several volumes and several calls at once, and a guard that dies among them.

use std::path::PathBuf;
use std::thread::{self, JoinHandle};

use futures_util::future::join_all;
use tonic::{Code, Status};

use super::checkers::{E2FSCK, Program, dirty};
use super::scene::Staged;
use super::sound::{debugfs, zero_group_descriptors};
use crate::support::disk::{LoopDisk, MIB, path_str, run as tool};
use crate::support::kubelet::Claimed;
use crate::support::plugin::Method;
use crate::support::run;
use crate::support::scene::{VOLUME, wait_for};

pub fn tests() -> Vec<libtest_mimic::Trial> {
    crate::tests![
        loop_two_check_at_once_and_an_unstage_makes_room,
        loop_a_check_that_hangs_is_answered_before_kubelets_deadline,
        loop_ten_equal_calls_are_one_check_and_one_call_of_the_plugin,
        loop_two_damaged_volumes_of_twenty_stop_nobody_else,
        loop_a_guard_that_is_killed_three_times_checks_no_more,
    ]
}

/// An e2fsck that waits at a gate, and notes that it was started.
struct Gate(Program);

impl Gate {
    /// Closed.
    fn new() -> Self {
        let program = Program::new(":");
        let dir = program.path().parent().unwrap().to_owned();
        tool("cp", &[E2FSCK, path_str(&dir.join("real"))]);
        std::fs::write(dir.join("gate"), "").unwrap();
        let at = dir.display();
        let script = format!(
            "#!/bin/sh\necho \"$*\" >> {at}/runs\nwhile [ -e {at}/gate ]; do sleep 0.02; done\n\
             exec {at}/real \"$@\"\n"
        );
        std::fs::write(program.path(), script).unwrap();
        Self(program)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().with_file_name(name)
    }

    fn open(&self) {
        std::fs::remove_file(self.file("gate")).unwrap();
    }

    fn runs(&self) -> usize {
        std::fs::read_to_string(self.file("runs")).map_or(0, |runs| runs.lines().count())
    }

    fn wait_for_runs(&self, count: usize) {
        wait_for("a check begins", || self.runs() >= count);
    }

    fn before(&self, disk: LoopDisk) -> Staged {
        Staged::with_hidden(disk, "ext4", &self.0.path(), E2FSCK)
    }
}

/// A Stage under way.
fn staging(staged: &Staged, seconds: u64, volume: &Claimed) -> JoinHandle<Result<(), Status>> {
    let (kubelet, volume) = (staged.kubelet(seconds), volume.clone());
    thread::spawn(move || run(kubelet.mount_device(&volume)))
}

fn loop_two_check_at_once_and_an_unstage_makes_room() {
    let gate = Gate::new();
    let staged = gate.before(dirty());
    let (second_disk, third_disk) = (dirty(), dirty());
    let first = staged.scene.volume.clone();
    let second = staged.add("pvc-second", &second_disk, "ext4");
    let third = staged.add("pvc-third", &third_disk, "ext4");
    let first_call = staging(&staged, 60, &first);
    gate.wait_for_runs(1);
    let second_call = staging(&staged, 60, &second);
    gate.wait_for_runs(2);
    // Half of a hasty caller's time is its own.
    let status = run(staged.kubelet(2).mount_device(&third)).unwrap_err();
    assert_eq!(status.code(), Code::Aborted, "{status:?}");
    assert!(status.message().contains("place 1 in the queue"), "{status:?}");
    assert_eq!(gate.runs(), 2);

    let before = second_disk.hash();
    run(staged.kubelet(60).unmount_device(&second)).unwrap();
    let status = second_call.join().unwrap().unwrap_err();
    assert_eq!(status.code(), Code::Aborted, "{status:?}");
    assert!(status.message().contains("gave way to a call"), "{status:?}");
    assert_eq!(second_disk.hash(), before, "a check that is called off leaves no trace");

    gate.wait_for_runs(3);
    let third_call = staging(&staged, 60, &third);
    gate.open();
    for call in [first_call, third_call] {
        call.join().unwrap().unwrap();
    }
    let asked: Vec<String> =
        staged.scene.plugin.counts().calls(Method::Stage).into_iter().map(|c| c.volume).collect();
    assert!(asked.len() == 2 && !asked.contains(&second.id), "{asked:?}");
}

fn loop_a_check_that_hangs_is_answered_before_kubelets_deadline() {
    let gate = Gate::new();
    let staged = gate.before(dirty());
    let healthy = LoopDisk::with_filesystem("ext4", &[]);
    let other = staged.add("pvc-healthy", &healthy, "ext4");
    let status = run(staged.kubelet(3).mount_device(&staged.scene.volume)).unwrap_err();
    assert_eq!(status.code(), Code::Aborted, "{status:?}");
    assert!(status.message().contains("e2fsck checks its filesystem"), "{status:?}");
    run(staged.kubelet(60).mount_device(&other)).unwrap();
    gate.open();
    staged.stages();
    assert_eq!(gate.runs(), 1);
}

/// What preen mends needs two runs: the second shows that nothing is left.
fn loop_ten_equal_calls_are_one_check_and_one_call_of_the_plugin() {
    let gate = Gate::new();
    let disk = LoopDisk::with_filesystem("ext4", &[("a", b"1")]);
    debugfs(&disk, "sif /a links_count 9");
    debugfs(&disk, "ssv state 0");
    let staged = gate.before(disk);
    gate.open();
    let volume = &staged.scene.volume;
    run(async {
        for result in join_all((0..10).map(|_| staged.scene.kubelet.mount_device(volume))).await {
            result.unwrap();
        }
    });
    assert_eq!((gate.runs(), staged.asked(Method::Stage)), (2, 1), "{}", staged.guard.log());

    let gate = Gate::new();
    let disk = dirty();
    zero_group_descriptors(&disk);
    let staged = gate.before(disk);
    gate.open();
    let volume = &staged.scene.volume;
    run(async {
        for result in join_all((0..10).map(|_| staged.scene.kubelet.mount_device(volume))).await {
            assert_eq!(result.unwrap_err().code(), Code::Aborted);
        }
    });
    assert_eq!((gate.runs(), staged.asked(Method::Stage)), (1, 0), "{}", staged.guard.log());
}

fn small() -> LoopDisk {
    let disk = LoopDisk::new(8 * MIB);
    disk.make_filesystem("ext4");
    disk
}

fn loop_two_damaged_volumes_of_twenty_stop_nobody_else() {
    let staged = Staged::new(small(), "ext4", &[]);
    let disks: Vec<LoopDisk> = (1..20).map(|_| small()).collect();
    for disk in &disks[..2] {
        debugfs(disk, "ssv state 0");
        zero_group_descriptors(disk);
    }
    let others = disks.iter().zip(1..);
    let mut volumes: Vec<Claimed> =
        others.map(|(disk, nth)| staged.add(&format!("pvc-{nth}"), disk, "ext4")).collect();
    volumes.push(staged.scene.volume.clone());
    let kubelet = &staged.scene.kubelet;
    let results = run(join_all(volumes.iter().map(|volume| kubelet.mount_device(volume))));
    for (result, volume) in results.iter().zip(&volumes) {
        let is_damaged = matches!(volume.id.as_str(), "pvc-1" | "pvc-2");
        assert_eq!(result.is_err(), is_damaged, "{}: {result:?}", volume.id);
    }
    assert_eq!(staged.asked(Method::Stage), 18);
    assert_eq!(staged.checks(), 2);
}

fn loop_a_guard_that_is_killed_three_times_checks_no_more() {
    let gate = Gate::new();
    let mut staged = gate.before(dirty());
    let before = staged.scene.disk.hash();
    for kill in 1..=3 {
        let call = staging(&staged, 60, &staged.scene.volume);
        gate.wait_for_runs(kill);
        staged.guard.restart();
        assert_eq!(call.join().unwrap().unwrap_err().code(), Code::Unavailable);
    }
    assert_eq!(staged.scene.disk.hash(), before);
    staged.stages();
    assert_eq!(gate.runs(), 3, "it is not begun again");
    let log = staged.guard.log();
    assert!(log.contains("its checker died 3 times in a row"), "{log}");
    // Unless the operator wants it.
    staged.unstages();
    gate.open();
    staged.by_hand(&["recheck", VOLUME], 0);
    staged.stages();
    assert_eq!(gate.runs(), 4, "{}", staged.guard.log());
}
