//! Maps and sessions, which not every kernel has: a sysfs of the test's own, laid out as
//! Linux 6.1 lays it out for two iSCSI disks under one multipath map, around a real loop device.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use mount_guard::claims::{Claim, judge};
use mount_guard::facts::device::{DeviceFacts, ExclusiveOpen, Target};

use super::scene::{Nodes, expected};
use crate::support::disk::{LoopDisk, MIB};

pub fn tests() -> Vec<libtest_mimic::Trial> {
    crate::tests![
        loop_a_multipath_map_over_two_targets_is_seen,
        loop_a_map_of_one_target_is_named_with_its_wwid,
        loop_the_targets_name_is_read_from_the_session,
        loop_an_lvm_on_a_partition_is_found,
        loop_without_a_sysfs_nothing_is_known,
    ]
}

const OURS: &str = "iqn.2019-10.io.longhorn:pvc-1";

/// A made-up sysfs with `sda`, which is the loop device.
struct Sysfs {
    nodes: Nodes,
    node: PathBuf,
    disk: LoopDisk,
}

impl Sysfs {
    fn new(iqn: &str) -> Self {
        let disk = LoopDisk::new(MIB);
        let (mut nodes, node) = Nodes::of(disk.device());
        nodes.roots.sys = nodes.dir.path().join("sys");
        let sysfs = Self { nodes, node, disk };
        fs::create_dir_all(sysfs.path("devices/virtual/block")).unwrap();
        fs::create_dir_all(sysfs.path("dev/block")).unwrap();
        sysfs.add_disk("sda", 1, &sysfs.disk.attachment().number(), iqn);
        sysfs
    }

    fn path(&self, below: &str) -> PathBuf {
        self.nodes.roots.sys.join(below)
    }

    fn write(&self, path: &str, text: &str) {
        fs::create_dir_all(self.path(path).parent().unwrap()).unwrap();
        fs::write(self.path(path), format!("{text}\n")).unwrap();
    }

    fn add_disk(&self, name: &str, session: u32, number: &str, iqn: &str) {
        let host = format!("devices/platform/host{session}/session{session}");
        let disk = disk_dir(name, session);
        self.write(&format!("{host}/iscsi_session/session{session}/targetname"), iqn);
        self.write(&format!("{disk}/size"), "2048");
        self.write(&format!("{disk}/ro"), "0");
        self.write(&format!("{disk}/dev"), number);
        fs::create_dir(self.path(&format!("{disk}/holders"))).unwrap();
        fs::create_dir(self.path(&format!("{disk}/slaves"))).unwrap();
        let place = Path::new("../..").join(disk);
        symlink(place, self.path(&format!("dev/block/{number}"))).unwrap();
    }

    /// A map over `sda` and these disks.
    fn add_map(&self, uuid: &str, disks: &[(&str, u32)]) {
        let map = "devices/virtual/block/dm-0";
        self.write(&format!("{map}/dev"), "253:0");
        self.write(&format!("{map}/dm/name"), "mpatha");
        self.write(&format!("{map}/dm/uuid"), uuid);
        fs::create_dir(self.path(&format!("{map}/slaves"))).unwrap();
        for (name, session) in disks {
            let disk = disk_dir(name, *session);
            let up = Path::new("../../../../..");
            let slave = self.path(&format!("{map}/slaves/{name}"));
            symlink(up.join(&disk), slave).unwrap();
            let holder = self.path(&format!("{disk}/holders/dm-0"));
            symlink(Path::new("../../../../../../../..").join("..").join(map), holder).unwrap();
        }
    }

    fn facts(&self) -> DeviceFacts {
        self.nodes.facts(&self.node)
    }
}

fn disk_dir(name: &str, session: u32) -> String {
    let host = format!("devices/platform/host{session}/session{session}");
    format!("{host}/target{session}:0:0/{session}:0:0:1/block/{name}")
}

fn loop_a_multipath_map_over_two_targets_is_seen() {
    let sysfs = Sysfs::new(OURS);
    sysfs.add_disk("sdb", 2, "8:16", "iqn.2019-10.io.longhorn:pvc-2");
    sysfs.add_map("mpath-360000000000000000e00000000010001", &[("sda", 1), ("sdb", 2)]);
    let claim = judge(&sysfs.facts(), &expected());
    let Claim::MixedMultipath { map, paths } = claim else { panic!("{:?}", sysfs.facts()) };
    assert_eq!(map.map.name, "mpatha");
    let mut targets: Vec<_> = paths.into_iter().map(|path| path.target.unwrap()).collect();
    targets.sort_by_key(|target| format!("{target:?}"));
    let theirs = "iqn.2019-10.io.longhorn:pvc-2";
    assert_eq!(targets, [Target::Iqn(OURS.into()), Target::Iqn(theirs.into())]);
}

fn loop_a_map_of_one_target_is_named_with_its_wwid() {
    let sysfs = Sysfs::new(OURS);
    sysfs.add_map("mpath-360000000000000000e00000000010001", &[("sda", 1)]);
    let facts = sysfs.facts();
    let text = judge(&facts, &expected()).text(&facts).unwrap();
    let map = "multipath map mpatha (dm-0 253:0, wwid 360000000000000000e00000000010001) holds it";
    assert!(text.contains(map), "{text}");
    assert!(text.contains(&sysfs.disk.attachment().number()), "{text}");
}

fn loop_the_targets_name_is_read_from_the_session() {
    let facts = Sysfs::new(OURS).facts();
    assert_eq!(facts.target, Some(Target::Iqn(OURS.into())));
    assert_eq!((facts.name.as_deref(), facts.size_bytes), (Some("sda"), Some(MIB)));
    assert_eq!(judge(&facts, &expected()), Claim::Free, "{facts:?}");
    let facts = Sysfs::new("iqn.2019-10.io.longhorn:pvc-2").facts();
    assert_eq!(judge(&facts, &expected()).label(), "wrong_volume");
}

fn loop_an_lvm_on_a_partition_is_found() {
    let sysfs = Sysfs::new(OURS);
    let part = format!("{}/sda1", disk_dir("sda", 1));
    sysfs.write(&format!("{part}/partition"), "1");
    sysfs.write(&format!("{part}/dev"), "8:1");
    let lvm = format!("{part}/holders/dm-1");
    sysfs.write(&format!("{lvm}/dm/name"), "vg-root");
    sysfs.write(&format!("{lvm}/dm/uuid"), "LVM-abc");
    // A claimed partition is a claimed disk: the open is refused, as by this one.
    let (_, hold) = sysfs.nodes.node(&sysfs.node);
    let facts = sysfs.facts();
    assert_eq!(facts.exclusive_open, ExclusiveOpen::Busy);
    assert_eq!(judge(&facts, &expected()).label(), "lvm", "{facts:?}");
    drop(hold);
}

fn loop_without_a_sysfs_nothing_is_known() {
    let disk = LoopDisk::new(MIB);
    let (mut nodes, node) = Nodes::of(disk.device());
    nodes.roots.sys = nodes.dir.path().join("nowhere");
    assert_eq!(nodes.claim(&node).label(), "unknown");
}
