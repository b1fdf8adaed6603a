use super::*;
use crate::claims::{Claim, Engine, Gone, Missing};
use nix::errno::Errno;

#[test]
fn a_device_of_which_all_is_known_and_nothing_is_wrong_is_free() {
    check(&free(), "free");
}

#[test]
fn a_missing_fact_is_never_free() {
    type Forget = fn(&mut DeviceFacts);
    let cases: [(Forget, Missing); 9] = [
        (|facts| facts.is_known = None, Missing::Sysfs),
        (|facts| facts.size_bytes = None, Missing::Size),
        (|facts| facts.holders = None, Missing::Holders),
        (|facts| facts.loops = None, Missing::Loops),
        (|facts| facts.is_read_only = None, Missing::ReadOnly),
        (|facts| facts.target = None, Missing::Identity),
        (
            |facts| facts.exclusive_open = ExclusiveOpen::Failed(Errno::EACCES),
            Missing::ExclusiveOpen(Errno::EACCES),
        ),
        (|facts| facts.exclusive_open = ExclusiveOpen::Busy, Missing::Mounts),
        (
            |facts| {
                facts.twins = None;
                facts.target = Some(Target::NotIscsi);
            },
            Missing::Twins,
        ),
    ];
    for (forget, missing) in cases {
        let mut facts = free();
        forget(&mut facts);
        assert_eq!(judge(&facts, &expected()), Claim::Unknown { missing });
    }
}

#[test]
fn a_node_without_a_device_is_gone_whatever_else_it_shows() {
    for (why, facts) in [
        (Gone::NoDevice, DeviceFacts { exclusive_open: ExclusiveOpen::NoDevice, ..busy() }),
        (Gone::NotInSysfs, DeviceFacts { is_known: Some(false), ..free() }),
        (Gone::Empty, DeviceFacts { size_bytes: Some(0), ..held_by(vec![array()]) }),
    ] {
        assert_eq!(judge(&facts, &expected()), Claim::Gone { why });
    }
}

#[test]
fn a_disk_of_another_target_is_another_volumes_even_where_it_is_held() {
    let target = Some(Target::Iqn(THEIRS.into()));
    check(&DeviceFacts { target: target.clone(), ..free() }, "wrong_volume");
    check(&DeviceFacts { target, ..held_by(vec![multipath(&[])]) }, "wrong_volume");
}

#[test]
fn an_underscore_in_a_volumes_name_is_a_colon_in_its_targets() {
    let expected = Expected::unused(VolumeId::parse("a_b_c").unwrap());
    let target = Some(Target::Iqn("iqn.2019-10.io.longhorn:a:b:c".into()));
    assert_eq!(judge(&DeviceFacts { target, ..free() }, &expected), Claim::Free);
}

#[test]
fn a_disk_that_is_not_iscsi_is_wrong_for_a_v1_engine_only() {
    let facts = DeviceFacts { target: Some(Target::NotIscsi), ..free() };
    for (engine, label) in
        [(Some(Engine::V1), "wrong_volume"), (Some(Engine::V2), "free"), (None, "free")]
    {
        let claim = judge(&facts, &Expected { engine, ..expected() });
        assert_eq!(claim.label(), label, "{engine:?}");
    }
}

#[test]
fn a_v2_volume_is_the_map_of_its_name() {
    for (name, uuid, label) in [
        ("pvc-1", "", "free"),
        ("pvc-1", "CRYPT-LUKS2-0b3b-pvc-1", "free"),
        ("pvc-1-encrypted", "CRYPT-LUKS2-0b3b-pvc-1", "free"),
        ("pvc-1-other", "", "wrong_volume"),
        ("pvc-12", "", "wrong_volume"),
        ("vg-root", "LVM-abc", "wrong_volume"),
        ("pvc-1", "LVM-abc", "wrong_volume"),
    ] {
        let map = Some(Some(MapName { name: name.into(), uuid: uuid.into() }));
        let target = Some(Target::NotIscsi);
        check(&DeviceFacts { map, target, ..free() }, label);
    }
}

#[test]
fn a_second_node_of_the_same_number_is_refused_unless_the_target_proves_whose_it_is() {
    let twins = Some(vec![PathBuf::from("/dev/longhorn/pvc-2")]);
    check(&DeviceFacts { twins: twins.clone(), ..free() }, "free");
    for target in [Some(Target::NotIscsi), None] {
        check(&DeviceFacts { twins: twins.clone(), target, ..free() }, "shared_node");
    }
}

#[test]
fn every_holder_has_its_name() {
    for (holder, label) in [
        (multipath(&[Some(OURS)]), "multipath"),
        (multipath(&[Some(OURS), None]), "multipath"),
        (multipath(&[Some(OURS), Some(OURS)]), "multipath"),
        (multipath(&[Some(OURS), Some(THEIRS)]), "mixed_multipath"),
        (map("vg-root", "LVM-abc", &[]), "lvm"),
        (map("secret", "CRYPT-LUKS2-abc-secret", &[]), "crypt"),
        (map("x", "", &[]), "other_holder"),
        (map("mpatha1", "part1-mpath-36", &[]), "other_holder"),
        (array(), "md"),
        (other_holder(), "other_holder"),
    ] {
        check(&held_by(vec![holder]), label);
    }
}

#[test]
fn a_map_of_the_volumes_own_name_is_no_claim_unless_multipath_or_lvm_made_it() {
    for (name, uuid, label) in [
        ("pvc-1", "", "own"),
        ("pvc-1", "CRYPT-LUKS2-0b3b-pvc-1", "own"),
        ("pvc-1-encrypted", "CRYPT-LUKS2-0b3b-pvc-1-encrypted", "own"),
        ("pvc-1", "mpath-36", "multipath"),
        ("pvc-1", "LVM-abc", "lvm"),
        ("pvc-2", "", "other_holder"),
    ] {
        check(&held_by(vec![map(name, uuid, &[])]), label);
    }
}

#[test]
fn of_several_holders_the_most_dangerous_is_named() {
    let mixed = multipath(&[Some(OURS), Some(THEIRS)]);
    check(&held_by(vec![other_holder(), array(), mixed]), "mixed_multipath");
    check(&held_by(vec![other_holder(), array()]), "md");
}

#[test]
fn a_holder_of_a_partition_holds_the_disk() {
    let lvm = map("vg-root", "LVM-abc", &[]);
    check(&DeviceFacts { partitions: Some(vec![partition(vec![lvm])]), ..busy() }, "lvm");
}

#[test]
fn a_holder_is_named_before_a_mount_and_a_mount_before_an_open_file() {
    let foreign = mount_at("/data");
    let mut facts = mounted(vec![foreign]);
    check(&facts, "mounted_elsewhere");
    facts.holders = Some(vec![array()]);
    check(&facts, "md");
    check(&busy(), "held_open");
    check(&DeviceFacts { is_swap: Some(true), ..busy() }, "swap");
}

#[test]
fn who_holds_it_open_is_not_guessed_before_everybody_was_looked_at() {
    let mut facts = busy();
    facts.users.mounts = Some(Sightings { seen: vec![], unread_processes: 3 });
    let missing = Missing::Processes(3);
    assert_eq!(judge(&facts, &expected()), Claim::Unknown { missing });
    check(&DeviceFacts { is_swap: None, ..busy() }, "unknown");
    check(&DeviceFacts { partitions: None, ..busy() }, "unknown");
}

#[test]
fn what_belongs_to_the_volume_is_no_claim() {
    let subpath = format!("/var/lib/kubelet/pods/{UID}/volume-subpaths/pvc-1/main/0");
    let mut container = mount_at("/var/lib/postgresql");
    container.process.pod = Some(pod());
    for own in [mount_at(STAGING), mount_at(&subpath), container.clone()] {
        check(&mounted(vec![own]), "own");
    }
    let agent = mount_at(&format!("/rootfs{STAGING}"));
    let facts = mounted(vec![mount_at(STAGING), container, agent.clone()]);
    let claim = judge(&facts, &expected());
    assert_eq!(claim, Claim::MountedElsewhere { mounts: vec![agent] });
}

#[test]
fn a_living_mount_stands_before_a_dead_one() {
    let dead = MountSighting { life: Life::Dead, ..mount_at("/a") };
    let living = MountSighting { life: Life::Answers, ..mount_at("/b") };
    let facts = mounted(vec![dead.clone(), living.clone()]);
    let mounts = vec![living, dead];
    assert_eq!(judge(&facts, &expected()), Claim::MountedElsewhere { mounts });
}

#[test]
fn a_mount_of_a_partition_holds_the_disk() {
    let mut facts = mounted(vec![mount_at("/mnt")]);
    facts.partitions = Some(vec![partition(vec![])]);
    assert_eq!(facts.numbers(), [number(8, 32), number(8, 33)]);
    check(&facts, "mounted_elsewhere");
}

#[test]
fn a_loop_device_on_top_is_a_claim_unless_kubelet_made_it() {
    let kubelets =
        format!("/var/lib/kubelet/plugins/kubernetes.io/csi/volumeDevices/pvc-1/dev/{UID}");
    for (file, label) in [
        ("/dev/longhorn/pvc-1", "loop_on_top"),
        ("/dev/sdc", "loop_on_top"),
        (kubelets.as_str(), "own"),
    ] {
        check(&DeviceFacts { loops: Some(vec![loop_over(file)]), ..free() }, label);
    }
}

#[test]
fn a_device_that_takes_no_writes_is_said_so_after_all_claims() {
    check(&DeviceFacts { is_read_only: Some(true), ..free() }, "read_only_device");
    check(&DeviceFacts { is_read_only: Some(true), ..held_by(vec![array()]) }, "md");
}

#[test]
fn the_processes_are_searched_only_where_nothing_cheaper_explains() {
    assert!(busy().wants_users());
    assert!(!free().wants_users());
    assert!(!held_by(vec![array()]).wants_users());
    assert!(!DeviceFacts { is_swap: Some(true), ..busy() }.wants_users());
}
