//! What the real plugin does to volumes that are not well (facts/longhorn.md, section 8).

use std::time::Duration;

use futures_util::future::join_all;
use tonic::{Code, Status};

use crate::support::disk::{LoopDisk, MIB, path_str, run as run_tool};
use crate::support::plugin::{Act, Method};
use crate::support::run;
use crate::support::scene::{POD, Scene, VOLUME};

pub fn tests() -> Vec<libtest_mimic::Trial> {
    crate::tests![
        loop_zeroed_group_descriptors_lose_every_file,
        loop_a_lost_primary_superblock_means_mkfs,
        loop_content_without_a_signature_means_mkfs,
        loop_exit_8_of_fsck_is_ignored,
        loop_a_missing_fsck_is_ignored,
        loop_a_device_that_refuses_writes_is_mounted_silently_read_only,
        loop_an_unknown_feature_leaves_the_mount_behind,
        loop_ten_parallel_stages_collide,
        loop_unstage_during_a_stage_is_too_early,
        loop_the_work_goes_on_when_the_caller_is_gone,
    ]
}

/// Files saved by `e2fsck -f -y`, as far as they still have their names.
fn files_saved(disk: &LoopDisk) -> usize {
    let args = ["-f", "-y", path_str(disk.device())];
    let _ = std::process::Command::new("e2fsck").args(args).output().unwrap();
    disk.mounted(|root| {
        let names = std::fs::read_dir(root).unwrap().flatten();
        names.filter(|entry| entry.file_name().to_string_lossy().starts_with("file")).count()
    })
}

fn loop_zeroed_group_descriptors_lose_every_file() {
    let names: Vec<String> = (0..17).map(|number| format!("file-{number}")).collect();
    let files: Vec<(&str, &[u8])> =
        names.iter().map(|name| (name.as_str(), &b"content"[..])).collect();
    let damaged = || {
        // Several groups, so that a backup of the descriptors exists.
        let disk = LoopDisk::new(64 * MIB);
        run_tool("mkfs.ext4", &["-Fq", "-b1024", path_str(disk.device())]);
        disk.mounted(|root| {
            files.iter().for_each(|(name, content)| {
                std::fs::write(root.join(name), content).unwrap();
            });
        });
        disk.zero(2048, 1024);
        disk
    };
    assert_eq!(files_saved(&damaged()), 17, "a direct repair saves them all");

    let scene = Scene::new(damaged(), "ext4");
    let before = scene.disk.hash();
    let refusal = run(scene.kubelet.mount_device(&scene.volume)).unwrap_err();
    assert_eq!(refusal.code(), Code::Internal);
    assert!(refusal.message().contains("could not correct them"), "{}", refusal.message());
    assert_eq!(scene.plugin.counts().runs("fsck")[0].exit, Some(4));
    assert_ne!(scene.disk.hash(), before, "a refusal that has written");
    assert_eq!(files_saved(&scene.disk), 0);
}

fn loop_a_lost_primary_superblock_means_mkfs() {
    for (fs_type, at_bytes) in [("ext4", 1024), ("xfs", 0)] {
        let disk = LoopDisk::with_filesystem(fs_type, &[("file", b"content")]);
        disk.zero(at_bytes, 512);
        let scene = Scene::new(disk, fs_type);
        // Publish alone does it too: it stages by itself.
        run(scene.kubelet.set_up(POD, &scene.volume)).unwrap();
        assert_eq!(scene.plugin.counts().ran("mkfs"), 1, "{fs_type}");
        assert!(!scene.target(POD).join("file").exists(), "{fs_type}");
    }
}

fn loop_content_without_a_signature_means_mkfs() {
    let disk = LoopDisk::new(32 * MIB);
    disk.write_at(8 * MIB, b"somebody's bytes");
    let scene = Scene::new(disk, "ext4");
    scene.plugin.change_habits(|habits| habits.formats_what_blkid_calls_blank = false);
    let refusal = run(scene.kubelet.mount_device(&scene.volume)).unwrap_err();
    assert_eq!((refusal.code(), scene.plugin.counts().ran("mkfs")), (Code::Internal, 0));
    scene.plugin.change_habits(|habits| habits.formats_what_blkid_calls_blank = true);
    run(scene.kubelet.mount_device(&scene.volume)).unwrap();
    assert_eq!(scene.plugin.counts().ran("mkfs"), 1);
}

fn loop_exit_8_of_fsck_is_ignored() {
    let scene = Scene::new(LoopDisk::with_filesystem("ext4", &[]), "ext4");
    // Mounted elsewhere, which e2fsck refuses to touch.
    let result = scene.disk.mounted(|_| run(scene.kubelet.mount_device(&scene.volume)));
    result.unwrap();
    assert_eq!(scene.plugin.counts().runs("fsck")[0].exit, Some(8));
    assert_eq!(scene.staged().len(), 1);
}

fn loop_a_missing_fsck_is_ignored() {
    let scene = Scene::new(LoopDisk::with_filesystem("ext4", &[]), "ext4");
    scene.plugin.change_habits(|habits| habits.missing_tools.push("fsck".to_owned()));
    run(scene.kubelet.mount_device(&scene.volume)).unwrap();
    assert_eq!(scene.plugin.counts().runs("fsck")[0].exit, None);
    assert_eq!(scene.staged().len(), 1);
}

fn loop_a_device_that_refuses_writes_is_mounted_silently_read_only() {
    let scene = Scene::new(LoopDisk::with_filesystem("ext4", &[]), "ext4");
    scene.disk.attachment().set_read_only(true);
    run(scene.kubelet.mount_device(&scene.volume)).unwrap();
    assert!(scene.staged()[0].is_read_only());
}

fn loop_an_unknown_feature_leaves_the_mount_behind() {
    let scene = Scene::new(LoopDisk::with_filesystem("ext4", &[]), "ext4");
    run_tool("debugfs", &["-w", "-R", "feature FEATURE_C31", path_str(scene.disk.device())]);
    scene.disk.grow_to(64 * MIB);
    let refusal = run(scene.kubelet.mount_device(&scene.volume)).unwrap_err();
    assert_eq!(refusal.code(), Code::Internal);
    assert_eq!(scene.plugin.counts().runs("fsck")[0].exit, Some(12));
    assert_eq!(scene.plugin.counts().runs("resize2fs")[0].exit, Some(1));
    assert_eq!(scene.staged().len(), 1);
    assert_eq!(scene.kubelet.would_leak(), [scene.staging()]);
}

/// Stages `count` times at once, without kubelet's bookkeeping: it would clean up in between.
fn stage_at_once(scene: &Scene, count: usize) -> Vec<Code> {
    let request = scene.kubelet.stage_request(&scene.volume, 0);
    let until = tokio::time::Instant::now() + Duration::from_secs(30);
    let call = |_| scene.kubelet.call(Method::Stage, request.clone(), until);
    let results = run(join_all((0..count).map(call)));
    results.iter().map(|result| result.as_ref().map_or_else(Status::code, |_| Code::Ok)).collect()
}

fn loop_ten_parallel_stages_collide() {
    let scene = Scene::new(LoopDisk::with_filesystem("ext4", &[]), "ext4");
    let codes = stage_at_once(&scene, 10);
    assert!(codes.contains(&Code::Ok) && codes.contains(&Code::Internal), "{codes:?}");
    assert!(codes.iter().all(|code| matches!(code, Code::Ok | Code::Internal)), "{codes:?}");
    assert!(scene.plugin.counts().ran("fsck") > 1);
    assert!(scene.plugin.counts().most_at_work(VOLUME) > 1);
    assert_eq!(scene.staged().len(), 1);

    scene.plugin.change_habits(|habits| habits.no_in_flight_guard = false);
    let slow = Act::slow_before(Duration::from_millis(500));
    scene.plugin.script().always(Method::Stage, None, slow);
    let codes = stage_at_once(&scene, 4);
    assert_eq!(codes.iter().filter(|code| **code == Code::Aborted).count(), 3);
}

fn loop_unstage_during_a_stage_is_too_early() {
    let scene = Scene::new(LoopDisk::with_filesystem("ext4", &[]), "ext4");
    let slow = Act::slow_before(Duration::from_millis(1000));
    scene.plugin.script().once(Method::Stage, Some(VOLUME), slow);
    run(async {
        let unstage = async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            scene.kubelet.unmount_device(&scene.volume).await.unwrap();
            assert!(scene.staged().is_empty());
        };
        let (staged, ()) = tokio::join!(scene.kubelet.mount_device(&scene.volume), unstage);
        staged.unwrap();
    });
    assert_eq!(scene.staged().len(), 1, "the mount appears after Unstage's OK");
}

fn loop_the_work_goes_on_when_the_caller_is_gone() {
    let mut scene = Scene::new(LoopDisk::with_filesystem("ext4", &[]), "ext4");
    scene.kubelet = scene.kubelet.with_deadline(Duration::from_secs(1));
    let slow = Act::slow_before(Duration::from_secs(2));
    scene.plugin.script().once(Method::Stage, None, slow);
    let status = run(scene.kubelet.mount_device(&scene.volume)).unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded);
    assert!(scene.staged().is_empty());
    scene.wait_until_staged();
}
