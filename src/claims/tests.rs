//! Tables: the verdicts, their order, and their texts.

mod judged;
mod said;

use std::path::PathBuf;

use super::{Expected, judge};
use crate::facts::device::{
    DeviceFacts, ExclusiveOpen, Holder, HolderKind, Life, LoopOnTop, MapName, Member,
    MountSighting, Partition, Sightings, Target,
};
use crate::facts::mounts::Mount;
use crate::facts::process::{PodUid, Process};
use crate::volume::{DevNumber, VolumeId};

const UID: &str = "0b3bd19a-4ee5-4e7c-8f2c-1d0b0c1f8f6e";
const STAGING: &str =
    "/var/lib/kubelet/plugins/kubernetes.io/csi/driver.longhorn.io/ab/globalmount";
const OURS: &str = "iqn.2019-10.io.longhorn:pvc-1";
const THEIRS: &str = "iqn.2019-10.io.longhorn:pvc-2";
const WWID: &str = "360000000000000000e00000000010001";

fn number(major: u32, minor: u32) -> DevNumber {
    DevNumber { major, minor }
}

fn pod() -> PodUid {
    PodUid::parse(UID).unwrap()
}

/// A volume that is staged, and used by one pod.
fn expected() -> Expected {
    let volume = VolumeId::parse("pvc-1").unwrap();
    Expected { paths: vec![STAGING.into()], pods: vec![pod()], ..Expected::unused(volume) }
}

/// The volume's own iSCSI disk, all of it known, and nobody on it.
fn free() -> DeviceFacts {
    let path = PathBuf::from("/dev/longhorn/pvc-1");
    DeviceFacts {
        is_known: Some(true),
        name: Some("sdc".into()),
        size_bytes: Some(1 << 30),
        is_read_only: Some(false),
        target: Some(Target::Iqn(OURS.into())),
        map: Some(None),
        holders: Some(vec![]),
        slaves: Some(vec![]),
        loops: Some(vec![]),
        twins: Some(vec![]),
        ..DeviceFacts::unread(path, number(8, 32), ExclusiveOpen::Granted)
    }
}

/// The same, held by somebody who does not show.
fn busy() -> DeviceFacts {
    let mut facts = free();
    facts.exclusive_open = ExclusiveOpen::Busy;
    facts.is_swap = Some(false);
    facts.partitions = Some(vec![]);
    facts.users.mounts = Some(none_seen());
    facts
}

/// The same, held by a map or an array.
fn held_by(holders: Vec<Holder>) -> DeviceFacts {
    let mut facts = busy();
    facts.holders = Some(holders);
    facts.users.mounts = None;
    facts
}

/// The same, mounted.
fn mounted(mounts: Vec<MountSighting>) -> DeviceFacts {
    let mut facts = busy();
    facts.users.mounts = Some(Sightings { seen: mounts, unread_processes: 0 });
    facts
}

fn none_seen<T>() -> Sightings<T> {
    Sightings { seen: vec![], unread_processes: 0 }
}

fn map(name: &str, uuid: &str, targets: &[Option<&str>]) -> Holder {
    let paths = targets.iter().zip(2..).map(|(target, nth)| Member {
        name: format!("sd{nth}"),
        number: Some(number(8, nth * 16)),
        target: target.map(|iqn| Target::Iqn(iqn.into())),
    });
    let map = MapName { name: name.into(), uuid: uuid.into() };
    let kind = HolderKind::Map { map, paths: Some(paths.collect()) };
    Holder { name: "dm-0".into(), number: Some(number(253, 0)), kind }
}

fn multipath(targets: &[Option<&str>]) -> Holder {
    map("mpatha", &format!("mpath-{WWID}"), targets)
}

fn array() -> Holder {
    let kind = HolderKind::Md { level: "raid1".into() };
    Holder { name: "md127".into(), number: Some(number(9, 127)), kind }
}

fn other_holder() -> Holder {
    Holder { name: "bcache0".into(), number: Some(number(252, 0)), kind: HolderKind::Other }
}

fn mount_at(path: &str) -> MountSighting {
    let line = format!("36 35 8:32 / {path} rw - ext4 /dev/longhorn/pvc-1 rw");
    MountSighting {
        mount: Mount::parse(line.as_bytes()).unwrap(),
        namespace: Some(4_026_531_840),
        process: Process { pid: 4711, comm: "node_exporter".into(), pod: None },
        pod: PodUid::of_path(path.as_ref()),
        life: Life::Unknown,
    }
}

fn loop_over(backing_file: &str) -> LoopOnTop {
    LoopOnTop { name: "loop7".into(), backing_file: backing_file.into() }
}

fn partition(holders: Vec<Holder>) -> Partition {
    Partition { name: "sdc1".into(), number: Some(number(8, 33)), holders: Some(holders) }
}

#[track_caller]
fn check(facts: &DeviceFacts, label: &str) {
    let claim = judge(facts, &expected());
    assert_eq!(claim.label(), label, "{claim:?}");
}
