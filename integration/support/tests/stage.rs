//! Staging as Longhorn does it where nothing is wrong, and its refusals.

use mount_guard::csi::volume_capability::access_mode::Mode;
use tonic::Code;

use crate::support::disk::{LoopDisk, MIB, path_str, smallest_bytes};
use crate::support::mounts;
use crate::support::plugin::{Access, Method, Volume};
use crate::support::run;
use crate::support::scene::{POD, Scene, VOLUME};

pub fn tests() -> Vec<libtest_mimic::Trial> {
    crate::tests![
        loop_a_blank_volume_is_formatted_with_longhorns_parameters,
        loop_a_filesystem_is_checked_and_mounted,
        loop_a_staged_volume_is_not_looked_at_again,
        loop_a_read_only_request_is_not_checked,
        loop_a_volume_that_grew_is_resized,
        loop_a_partition_table_is_refused,
        loop_a_volume_that_is_not_attached_is_unmounted_and_refused,
        loop_refusals_have_longhorns_codes,
        loop_a_share_is_mounted_from_its_host,
        loop_a_raw_block_volume_is_bound_twice,
    ]
}

fn loop_a_blank_volume_is_formatted_with_longhorns_parameters() {
    fn check(fs_type: &str, params: &str, expected: &[&str]) {
        let mut scene = Scene::new(LoopDisk::new(smallest_bytes(fs_type)), fs_type);
        scene.volume.volume_context.insert("mkfsParams".to_owned(), params.to_owned());
        run(scene.kubelet.mount_device(&scene.volume)).unwrap();
        let made = scene.plugin.counts().runs("mkfs");
        assert_eq!(made.len(), 1);
        let (device, args) = made[0].args.split_last().unwrap();
        assert_eq!(args, expected);
        assert_eq!(device, path_str(scene.disk.device()));
        assert_eq!(scene.plugin.counts().ran("fsck"), 0);
        assert_eq!(scene.staged().len(), 1);
    }
    check("ext4", "-i 8192", &["-b4096", "-i", "8192", "-F", "-m0"]);
    check("xfs", "", &["-ssize=4096", "-bsize=4096", "-f"]);
    check("btrfs", "", &[]);
}

fn loop_a_filesystem_is_checked_and_mounted() {
    for fs_type in ["ext4", "xfs", "btrfs"] {
        let disk = LoopDisk::with_filesystem(fs_type, &[("file", b"content")]);
        let scene = Scene::new(disk, fs_type);
        run(scene.kubelet.mount_device(&scene.volume)).unwrap();
        let counts = scene.plugin.counts();
        assert_eq!(counts.runs("fsck")[0].args[0], "-a");
        assert_eq!((counts.ran("fsck"), counts.ran("mkfs")), (1, 0), "{fs_type}");
        assert_eq!(std::fs::read(scene.staging().join("file")).unwrap(), b"content");
        let nouuid = scene.staged()[0].super_options.contains("nouuid");
        assert_eq!(nouuid, fs_type == "xfs");
        run(scene.kubelet.unmount_device(&scene.volume)).unwrap();
        assert!(!scene.staging().exists(), "{fs_type}");
    }
}

fn loop_a_staged_volume_is_not_looked_at_again() {
    let scene = Scene::new(LoopDisk::with_filesystem("ext4", &[]), "ext4");
    run(scene.kubelet.mount_device(&scene.volume)).unwrap();
    run(scene.kubelet.mount_device(&scene.volume)).unwrap();
    assert_eq!(scene.plugin.counts().ran("fsck"), 1);
    assert_eq!(scene.plugin.counts().ran("mount"), 1);

    // Nor does it see that the mount there is another disk's.
    let other = LoopDisk::with_filesystem("ext4", &[]);
    scene.plugin.manager().add(VOLUME, Volume::on(other.device()));
    run(scene.kubelet.mount_device(&scene.volume)).unwrap();
    scene.plugin.change_habits(|habits| habits.trusts_any_mount_at_staging = false);
    let refusal = run(scene.kubelet.mount_device(&scene.volume)).unwrap_err();
    assert_eq!(refusal.code(), Code::AlreadyExists);
}

fn loop_a_read_only_request_is_not_checked() {
    let mut scene = Scene::new(LoopDisk::with_filesystem("ext4", &[]), "ext4");
    scene.volume.mount_flags.push("ro".to_owned());
    run(scene.kubelet.mount_device(&scene.volume)).unwrap();
    assert_eq!(scene.plugin.counts().ran("fsck"), 0);
    assert!(scene.staged()[0].is_read_only());

    let mut blank = Scene::new(LoopDisk::new(32 * MIB), "ext4");
    blank.volume.mount_flags.push("ro".to_owned());
    let refusal = run(blank.kubelet.mount_device(&blank.volume)).unwrap_err();
    assert_eq!(refusal.code(), Code::Internal);
    assert_eq!(blank.plugin.counts().ran("mkfs"), 0);
}

fn loop_a_volume_that_grew_is_resized() {
    for (fs_type, tool) in [("xfs", "xfs_growfs"), ("btrfs", "btrfs")] {
        let scene = Scene::new(LoopDisk::with_filesystem(fs_type, &[]), fs_type);
        scene.disk.grow_to(400 * MIB);
        run(scene.kubelet.mount_device(&scene.volume)).unwrap();
        assert!(scene.plugin.counts().ran(tool) > 0, "{fs_type}");
        assert!(filesystem_bytes(&scene) > 320 * MIB, "{fs_type}");
        scene.disk.grow_to(600 * MIB);
        run(scene.kubelet.expand(POD, &scene.volume, 600 << 20)).unwrap();
        assert!(filesystem_bytes(&scene) > 520 * MIB, "{fs_type}");
    }

    // Growing a mounted ext4 needs CAP_SYS_RESOURCE, which a sandbox may not have. Without it, this
    // is what a failed resize looks like.
    let scene = Scene::new(LoopDisk::with_filesystem("ext4", &[]), "ext4");
    scene.disk.grow_to(64 * MIB);
    let result = run(scene.kubelet.mount_device(&scene.volume));
    let resized = scene.plugin.counts().runs("resize2fs")[0].exit == Some(0);
    assert_eq!(result.is_ok(), resized);
    assert_eq!(scene.staged().len(), 1);
}

/// Without the log of an xfs, which takes 64 MiB.
fn filesystem_bytes(scene: &Scene) -> u64 {
    let stat = nix::sys::statvfs::statvfs(&scene.staging()).unwrap();
    stat.blocks() * stat.fragment_size()
}

fn loop_a_partition_table_is_refused() {
    let disk = LoopDisk::new(32 * MIB);
    // One entry of a DOS partition table, and its signature.
    disk.write_at(446, &[0, 0, 2, 0, 0x83, 0, 0, 0, 0, 8, 0, 0, 0, 0x80, 0, 0]);
    disk.write_at(510, &[0x55, 0xaa]);
    let (before, scene) = (disk.hash(), Scene::new(disk, "ext4"));
    let refusal = run(scene.kubelet.mount_device(&scene.volume)).unwrap_err();
    assert_eq!(refusal.code(), Code::Internal);
    assert!(refusal.message().contains("probably partitions"), "{}", refusal.message());
    assert_eq!(scene.disk.hash(), before);
}

fn loop_a_volume_that_is_not_attached_is_unmounted_and_refused() {
    let scene = Scene::new(LoopDisk::with_filesystem("ext4", &[]), "ext4");
    run(scene.kubelet.mount_device(&scene.volume)).unwrap();
    scene.plugin.manager().change(VOLUME, |volume| volume.attached = false);
    let refusal = run(scene.kubelet.mount_device(&scene.volume)).unwrap_err();
    assert_eq!(refusal.code(), Code::InvalidArgument);
    assert!(scene.staged().is_empty());
}

fn loop_refusals_have_longhorns_codes() {
    fn check(code: Code, alter: impl FnOnce(&mut Scene)) {
        let mut scene = Scene::new(LoopDisk::new(MIB), "ext4");
        alter(&mut scene);
        let refusal = run(scene.kubelet.mount_device(&scene.volume)).unwrap_err();
        assert_eq!(refusal.code(), code, "{}", refusal.message());
        assert!(scene.staged().is_empty());
    }
    fn change(scene: &Scene, alter: impl FnOnce(&mut Volume)) {
        scene.plugin.manager().change(VOLUME, alter);
    }
    check(Code::InvalidArgument, |scene| scene.volume.id = String::new());
    check(Code::NotFound, |scene| scene.plugin.manager().remove(VOLUME));
    check(Code::Internal, |scene| scene.plugin.manager().set_outage(Some("503")));
    check(Code::InvalidArgument, |scene| change(scene, |volume| volume.frontend_disabled = true));
    check(Code::InvalidArgument, |scene| change(scene, |volume| volume.frontend = "iscsi".into()));
    check(Code::InvalidArgument, |scene| change(scene, |volume| volume.controllers = 2));
    check(Code::InvalidArgument, |scene| change(scene, |volume| volume.device = None));
    check(Code::Aborted, |scene| change(scene, |volume| volume.ready = false));
    check(Code::Aborted, |scene| change(scene, |volume| volume.access = Access::Rwx));
    check(Code::FailedPrecondition, |scene| scene.volume.access = Mode::MultiNodeMultiWriter);
    // A tiny device: mkfs fails.
    check(Code::Internal, |scene| scene.volume.fs_type = "xfs".to_owned());
}

fn loop_a_share_is_mounted_from_its_host() {
    let scene = Scene::new(LoopDisk::new(MIB), "ext4");
    let shared = Volume::shared(scene.disk.device(), "nfs://10.43.0.7/pvc-shared");
    scene.plugin.manager().add(VOLUME, shared);
    run(scene.kubelet.start_pod(POD, &scene.volume, 1)).unwrap();
    assert_eq!(scene.staged()[0].source, "10.43.0.7:/pvc-shared");
    assert_eq!(scene.plugin.counts().ran("mkfs"), 0);
    run(scene.kubelet.delete_pod(POD, &scene.volume)).unwrap();
    assert!(scene.staged().is_empty());
}

fn loop_a_raw_block_volume_is_bound_twice() {
    let mut scene = Scene::new(LoopDisk::new(MIB), "");
    scene.volume.block = true;
    let before = scene.disk.hash();
    run(scene.kubelet.start_pod(POD, &scene.volume, 1)).unwrap();
    let staged = scene.staging().join(VOLUME);
    for path in [&staged, &scene.target(POD)] {
        let number = mounts::device_number(path).unwrap();
        assert_eq!(number, scene.disk.attachment().number());
    }
    assert_eq!(scene.disk.hash(), before);
    let ran: Vec<String> =
        scene.plugin.counts().all_runs().into_iter().map(|run| run.tool).collect();
    assert!(!ran.iter().any(|tool| tool.starts_with("mkfs") || tool == "fsck"), "{ran:?}");
    run(scene.kubelet.delete_pod(POD, &scene.volume)).unwrap();
    assert!(!mounts::is_mounted(&staged) && !staged.exists());
    assert_eq!(scene.plugin.counts().asked(Method::Unstage), 1);
}
