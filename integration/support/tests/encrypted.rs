//! The model of LUKS: who writes a header when, and who holds which device.

use tonic::Code;

use crate::support::disk::{LoopDisk, MIB};
use crate::support::run;
use crate::support::scene::{POD, Scene, VOLUME};

pub fn tests() -> Vec<libtest_mimic::Trial> {
    crate::tests![
        loop_an_encrypted_volume_is_formatted_once,
        loop_a_wrong_or_missing_passphrase_opens_nothing,
        loop_a_blank_read_writes_a_new_header,
    ]
}

fn encrypted() -> Scene {
    let mut scene = Scene::new(LoopDisk::new(64 * MIB), "ext4");
    scene.plugin.manager().change(VOLUME, |volume| volume.encrypted = true);
    scene.volume.secrets.insert("CRYPTO_KEY_VALUE".to_owned(), "open sesame".to_owned());
    scene
}

fn loop_an_encrypted_volume_is_formatted_once() {
    let scene = encrypted();
    let counts = scene.plugin.counts();
    for round in 1..3 {
        run(scene.kubelet.start_pod(POD, &scene.volume, 1)).unwrap();
        let ran = ["luksFormat", "mkfs", "luksOpen"].map(|tool| counts.ran(tool));
        assert_eq!(ran, [1, 1, round]);
        let plain = scene.plugin.mapper_dir().join(VOLUME).canonicalize().unwrap();
        assert_eq!(scene.staged()[0].source, plain.to_str().unwrap());
        assert_ne!(plain, scene.disk.device());
        run(scene.kubelet.delete_pod(POD, &scene.volume)).unwrap();
        assert!(!scene.plugin.mapper_dir().join(VOLUME).exists());
        assert_eq!(counts.ran("luksClose"), round);
    }
}

fn loop_a_wrong_or_missing_passphrase_opens_nothing() {
    let mut scene = encrypted();
    run(scene.kubelet.mount_device(&scene.volume)).unwrap();
    run(scene.kubelet.unmount_device(&scene.volume)).unwrap();
    scene.volume.secrets.insert("CRYPTO_KEY_VALUE".to_owned(), "barley".to_owned());
    let refusal = run(scene.kubelet.mount_device(&scene.volume)).unwrap_err();
    assert_eq!(refusal.code(), Code::Internal);
    scene.volume.secrets.clear();
    let refusal = run(scene.kubelet.mount_device(&scene.volume)).unwrap_err();
    assert_eq!(refusal.code(), Code::InvalidArgument);
    assert!(scene.staged().is_empty());
}

fn loop_a_blank_read_writes_a_new_header() {
    let scene = encrypted();
    run(scene.kubelet.mount_device(&scene.volume)).unwrap();
    run(scene.kubelet.unmount_device(&scene.volume)).unwrap();
    scene.disk.zero(0, 4096);
    run(scene.kubelet.mount_device(&scene.volume)).unwrap();
    assert_eq!(scene.plugin.counts().ran("luksFormat"), 2);
}
