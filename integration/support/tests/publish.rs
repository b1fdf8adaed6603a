//! Publishing as Longhorn does it, with the restage nobody sees.

use tonic::Code;

use crate::support::disk::{LoopDisk, path_str};
use crate::support::mounts;
use crate::support::plugin::Method;
use crate::support::run;
use crate::support::scene::{OTHER_POD, POD, Scene, VOLUME};

pub fn tests() -> Vec<libtest_mimic::Trial> {
    crate::tests![
        loop_a_volume_is_published_and_taken_away,
        loop_a_read_only_publish_leaves_the_staging_mount_writable,
        loop_publish_stages_by_itself,
        loop_a_failed_restage_has_its_own_words,
        loop_a_full_volume_is_unmounted_under_its_pod,
        loop_statistics_are_those_of_the_filesystem,
        loop_an_ok_may_have_mounted_nothing,
    ]
}

fn loop_a_volume_is_published_and_taken_away() {
    let disk = LoopDisk::with_filesystem("ext4", &[("file", b"content")]);
    let scene = Scene::new(disk, "ext4");
    for _ in 0..2 {
        run(scene.kubelet.start_pod(POD, &scene.volume, 1)).unwrap();
        assert_eq!(scene.published(POD).len(), 1, "a second Publish mounts nothing more");
    }
    assert_eq!(scene.published(POD)[0].number, scene.disk.attachment().number());
    assert_eq!(std::fs::read(scene.target(POD).join("file")).unwrap(), b"content");
    for _ in 0..2 {
        run(scene.kubelet.delete_pod(POD, &scene.volume)).unwrap();
        assert!(!scene.target(POD).exists() && scene.staged().is_empty());
    }
}

fn loop_a_read_only_publish_leaves_the_staging_mount_writable() {
    let mut scene = Scene::new(LoopDisk::with_filesystem("ext4", &[]), "ext4");
    scene.volume.read_only = true;
    run(scene.kubelet.start_pod(POD, &scene.volume, 1)).unwrap();
    assert!(scene.published(POD)[0].is_read_only());
    assert!(!scene.staged()[0].is_read_only());
}

fn loop_publish_stages_by_itself() {
    let scene = Scene::new(LoopDisk::with_filesystem("ext4", &[]), "ext4");
    run(scene.kubelet.mount_device(&scene.volume)).unwrap();
    mounts::clear(&scene.staging());
    run(scene.kubelet.set_up(POD, &scene.volume)).unwrap();
    assert_eq!(scene.plugin.counts().asked(Method::Stage), 1);
    assert_eq!(scene.plugin.counts().ran("fsck"), 2);
    assert_eq!((scene.staged().len(), scene.published(POD).len()), (1, 1));
}

fn loop_a_failed_restage_has_its_own_words() {
    let scene = Scene::new(LoopDisk::new(1 << 20), "xfs");
    let refusal = run(scene.kubelet.set_up(POD, &scene.volume)).unwrap_err();
    assert_eq!(refusal.code(), Code::FailedPrecondition);
    let (staging, id) = (scene.staging(), VOLUME);
    let words =
        format!("Staging target path {} is no longer valid for volume {id}", staging.display());
    assert_eq!(refusal.message(), words);

    scene.plugin.change_habits(|habits| habits.restages_in_publish = false);
    scene.plugin.counts().clear();
    run(scene.kubelet.set_up(POD, &scene.volume)).unwrap_err();
    assert_eq!(scene.plugin.counts().ran("mkfs"), 0);
}

fn loop_a_full_volume_is_unmounted_under_its_pod() {
    let scene = Scene::new(LoopDisk::with_filesystem("ext4", &[]), "ext4");
    run(scene.kubelet.start_pod(POD, &scene.volume, 1)).unwrap();
    let filler = std::fs::File::create(scene.target(POD).join("filler")).unwrap();
    let full = std::io::copy(&mut std::io::repeat(7), &mut &filler).unwrap_err();
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
    fill_directory(&scene);

    run(scene.kubelet.start_pod(OTHER_POD, &scene.volume, 1)).unwrap();
    let counts = scene.plugin.counts();
    assert_eq!(counts.failed_write_tests(), 1);
    assert_eq!(counts.asked(Method::Unstage), 0, "no caller asked for it");
    let unmounted = counts.runs("umount");
    assert_eq!(unmounted[0].args, [path_str(&scene.staging())]);
    assert_eq!(unmounted[0].exit, Some(0));
    assert_eq!(counts.runs("mount").len(), 6, "two of each Publish, two of staging");
    assert_eq!(counts.runs("fsck")[1].exit, Some(8), "the pod's bind still holds the disk");
    assert_eq!(scene.published(POD).len(), 1);
}

/// Empty files need no block: the directory has to be full as well.
fn fill_directory(scene: &Scene) {
    for number in 0.. {
        let name = format!("{number:0>200}");
        if std::fs::write(scene.target(POD).join(name), b"content").is_err() {
            return;
        }
    }
}

fn loop_statistics_are_those_of_the_filesystem() {
    let scene = Scene::new(LoopDisk::with_filesystem("ext4", &[]), "ext4");
    let missing = run(scene.kubelet.volume_stats(POD, &scene.volume)).unwrap_err();
    assert_eq!(missing.code(), Code::NotFound);
    run(scene.kubelet.start_pod(POD, &scene.volume, 1)).unwrap();
    let stats = run(scene.kubelet.volume_stats(POD, &scene.volume)).unwrap();
    assert_eq!(stats.usage.len(), 2);
    assert!(stats.usage[0].total > 20 << 20 && stats.volume_condition.is_none());
}

fn loop_an_ok_may_have_mounted_nothing() {
    let scene = Scene::new(LoopDisk::with_filesystem("ext4", &[]), "ext4");
    scene.plugin.change_habits(|habits| habits.says_ok_without_mounting = true);
    run(scene.kubelet.start_pod(POD, &scene.volume, 1)).unwrap();
    assert!(scene.staged().is_empty() && scene.published(POD).is_empty());
}
