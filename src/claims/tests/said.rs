use super::*;
use crate::claims::{Claim, Engine};

#[track_caller]
fn check(facts: &DeviceFacts, text: &str) {
    check_for(facts, &expected(), text);
}

#[track_caller]
fn check_for(facts: &DeviceFacts, expected: &Expected, text: &str) {
    let said = judge(facts, expected).text(facts).expect("a text");
    assert_eq!(said, text);
    assert!(said.is_ascii() && said.len() < 900);
}

#[test]
fn of_what_is_as_it_should_be_nothing_is_said() {
    assert_eq!(Claim::Free.text(&free()), None);
    let facts = mounted(vec![mount_at(STAGING)]);
    assert_eq!(judge(&facts, &expected()).text(&facts), None);
}

#[test]
fn multipath() {
    check(
        &held_by(vec![super::multipath(&[Some(OURS)])]),
        r#"device /dev/longhorn/pvc-1 (8:32): multipath map mpatha (dm-0 253:0, wwid 360000000000000000e00000000010001) holds it; add to /etc/multipath.conf on this node: blacklist { device { vendor "IET" product "VIRTUAL-DISK" } }, then run `multipathd reconfigure`"#,
    );
}

#[test]
fn multipath_over_a_disk_that_is_not_iscsi() {
    let facts =
        DeviceFacts { target: Some(Target::NotIscsi), ..held_by(vec![super::multipath(&[])]) };
    check(
        &facts,
        r#"device /dev/longhorn/pvc-1 (8:32): multipath map mpatha (dm-0 253:0, wwid 360000000000000000e00000000010001) holds it; add to /etc/multipath.conf on this node: blacklist { wwid "360000000000000000e00000000010001" }, then run `multipathd reconfigure`"#,
    );
}

#[test]
fn multipath_over_two_volumes() {
    check(
        &held_by(vec![super::multipath(&[Some(OURS), Some(THEIRS)])]),
        r#"device /dev/longhorn/pvc-1 (8:32): multipath map mpatha (dm-0 253:0, wwid 360000000000000000e00000000010001) joins it with disks of other targets: 8:32 (target iqn.2019-10.io.longhorn:pvc-1), 8:48 (target iqn.2019-10.io.longhorn:pvc-2); a write through the map damages each of them; add to /etc/multipath.conf on this node: blacklist { device { vendor "IET" product "VIRTUAL-DISK" } }, then run `multipathd reconfigure`"#,
    );
}

#[test]
fn other_holders() {
    for (holder, text) in [
        (
            map("vg-root", "LVM-abc", &[]),
            "LVM on this node holds it as vg-root (dm-0 253:0); run `dmsetup remove vg-root`, and \
             reject the disk with global_filter in /etc/lvm/lvm.conf",
        ),
        (
            map("secret", "CRYPT-LUKS2-abc-secret", &[]),
            "dm-crypt holds it as secret (dm-0 253:0), which is not this volume's; run \
             `cryptsetup close secret`",
        ),
        (array(), "md array md127 (raid1) holds it; run `mdadm --stop /dev/md127`"),
        (other_holder(), "bcache0 holds it; take it out of bcache0"),
    ] {
        check(&held_by(vec![holder]), &format!("device /dev/longhorn/pvc-1 (8:32): {text}"));
    }
}

#[test]
fn identity() {
    let text = "device /dev/longhorn/pvc-1 (8:32): it is target iqn.2019-10.io.longhorn:pvc-2, and \
                not this volume's (target iqn.2019-10.io.longhorn:pvc-1); detach the volume and \
                attach it again, so that Longhorn makes its node anew";
    check(&DeviceFacts { target: Some(Target::Iqn(THEIRS.into())), ..free() }, text);
    let text = "device /dev/longhorn/pvc-1 (8:32): it is no iSCSI disk, and not this volume's \
                (target iqn.2019-10.io.longhorn:pvc-1); detach the volume and attach it again, so \
                that Longhorn makes its node anew";
    let v1 = Expected { engine: Some(Engine::V1), ..expected() };
    check_for(&DeviceFacts { target: Some(Target::NotIscsi), ..free() }, &v1, text);
    let text = "device /dev/longhorn/pvc-1 (8:32): /dev/longhorn/pvc-2 is the same device, so one \
                of them is stale; detach the volume that does not own 8:32 and attach it again";
    let twins = Some(vec![PathBuf::from("/dev/longhorn/pvc-2")]);
    check(&DeviceFacts { twins, target: Some(Target::NotIscsi), ..free() }, text);
}

#[test]
fn states_of_the_device() {
    for (facts, text) in [
        (
            DeviceFacts { size_bytes: Some(0), ..free() },
            "its node is there, and no device behind it (its size is 0); wait until Longhorn has \
             attached the volume again",
        ),
        (
            DeviceFacts { is_read_only: Some(true), ..free() },
            "the kernel takes no writes to it; wait for the engine, or run `blockdev --setrw` on \
             it if somebody set it so",
        ),
        (
            DeviceFacts { holders: None, ..free() },
            "whether anybody holds it is not known: its holders cannot be read; see that the guard \
             runs privileged, with the host's /proc, /sys and /dev",
        ),
        (
            DeviceFacts { is_swap: Some(true), ..busy() },
            "this node swaps to it; find 8:32 in /proc/swaps and run swapoff",
        ),
        (
            DeviceFacts { loops: Some(vec![loop_over("/dev/sdc")]), ..free() },
            "a loop device is over it: /dev/loop7 (/dev/sdc); run `losetup -d /dev/loop7`",
        ),
    ] {
        check(&facts, &format!("device /dev/longhorn/pvc-1 (8:32): {text}"));
    }
}

#[test]
fn mounts_and_open_files() {
    let mut container = mount_at("/export/pvc-1");
    container.process.pod = Some(PodUid::parse(&UID.replace('0', "1")).unwrap());
    let dead = MountSighting { life: Life::Dead, ..mount_at("/mnt") };
    check(
        &mounted(vec![dead, container]),
        "device /dev/longhorn/pvc-1 (8:32): it is mounted elsewhere: at /export/pvc-1 by \
         node_exporter (pid 4711, pod 1b3bd19a-4ee5-4e7c-8f2c-1d1b1c1f8f6e), at /mnt by \
         node_exporter (pid 4711), dead; stop what mounts it there, or unmount it",
    );
    let mut facts = busy();
    check(
        &facts,
        "device /dev/longhorn/pvc-1 (8:32): it is held open exclusively, and no holder or mount of \
         any namespace shows; stop who holds it (a filesystem unmounted lazily and still in use \
         looks like this)",
    );
    let seen = vec![Process { pid: 12, comm: "qemu".into(), pod: None }; 3];
    facts.users.openers = Some(Sightings { seen, unread_processes: 0 });
    check(
        &facts,
        "device /dev/longhorn/pvc-1 (8:32): it is held open exclusively, and no holder or mount of \
         any namespace shows; stop who has it open: qemu (pid 12), qemu (pid 12) and 1 more",
    );
}

#[test]
fn no_name_makes_a_text_too_long_or_more_than_ascii() {
    let long = "\u{fc}\n/".repeat(2000);
    let holder = map(&long, &format!("mpath-{long}"), &[Some(OURS), Some(THEIRS), None, None]);
    let mut mixed = held_by(vec![holder]);
    if let Some([Holder { name, kind: HolderKind::Map { paths, .. }, .. }]) =
        mixed.holders.as_deref_mut()
    {
        name.clone_from(&long);
        for path in paths.iter_mut().flatten().take(2) {
            path.target = Some(Target::Iqn(format!("{}{long}", path.name)));
        }
    }
    let mut mount = mount_at("/x");
    mount.mount.path = PathBuf::from(&long);
    mount.process.comm.clone_from(&long);
    let target = Some(Target::Iqn(long.clone()));
    let mut held = busy();
    held.users.openers = Some(Sightings { seen: vec![mount.process.clone(); 5], ..none_seen() });
    for facts in [
        mixed,
        held,
        DeviceFacts { target, ..free() },
        DeviceFacts { loops: Some(vec![loop_over(&long); 5]), ..free() },
        mounted(vec![mount; 5]),
    ] {
        let facts = DeviceFacts { path: PathBuf::from(&long), ..facts };
        let said = judge(&facts, &expected()).text(&facts).unwrap();
        assert!(said.is_ascii() && said.len() < 880, "{}: {said}", said.len());
    }
}
