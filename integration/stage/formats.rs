//! What may be formatted, and what was once.

use std::path::{Path, PathBuf};

use tonic::Code;

use super::scene::Staged;
use crate::support::disk::{LoopDisk, MIB, path_str, run as tool};
use crate::support::plugin::Method;
use crate::support::scene::{VOLUME, wait_for};

pub fn tests() -> Vec<libtest_mimic::Trial> {
    crate::tests![
        loop_what_the_operator_gave_up_is_formatted,
        loop_unknown_content_is_refused_until_it_is_given_up,
        loop_a_format_that_was_cut_off_is_begun_again,
        loop_a_format_that_lacks_its_last_write_is_begun_again,
        loop_a_volume_that_was_seen_whole_is_not_formatted_after_a_cut_off,
        loop_format_guard_report_says_and_off_is_silent,
        loop_what_is_no_filesystem_is_refused_by_its_name,
        loop_case_28_a_luks_volume_that_reads_as_zeros_is_refused,
        loop_encrypted_and_plain_are_not_mistaken_for_each_other,
    ]
}

fn mkfs(staged: &Staged) -> usize {
    staged.scene.plugin.counts().ran("mkfs")
}

fn wipe(disk: &LoopDisk) {
    disk.zero(0, usize::try_from(32 * MIB).unwrap());
}

fn loop_what_the_operator_gave_up_is_formatted() {
    let disk = LoopDisk::with_filesystem("ext4", &[]);
    let staged = Staged::new(disk, "ext4", &[]);
    staged.stages();
    staged.unstages();
    wipe(&staged.scene.disk);
    let way_out = format!("mount-guard forget {VOLUME}");
    staged.is_refused_untouched(&["reads as zeros", &way_out]);
    staged.by_hand(&["forget", VOLUME], 0);
    staged.stages();
    assert_eq!(mkfs(&staged), 1);
    // That was for this once.
    staged.unstages();
    wipe(&staged.scene.disk);
    staged.is_refused_untouched(&["reads as zeros"]);
}

fn loop_unknown_content_is_refused_until_it_is_given_up() {
    let staged = Staged::new(LoopDisk::new(32 * MIB), "ext4", &[]);
    staged.scene.disk.write_at(9 * MIB, &[0xa5; 1 << 20]);
    let way_out = format!("mount-guard forget {VOLUME}");
    staged.is_refused_untouched(&["unknown content, first at byte", &way_out]);
    staged.by_hand(&["forget", VOLUME], 0);
    staged.stages();
    assert_eq!(mkfs(&staged), 1);
}

/// A stand-in for mkfs.ext4 that runs `script` with the device as `$dev`.
fn mkfs_that(staged: &Staged, script: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let tools = staged.scene.dir().join("tools");
    std::fs::create_dir(&tools).unwrap();
    let path = tools.join("mkfs.ext4");
    let began = tools.join("began");
    let script = format!(
        "#!/bin/sh\nfor dev; do :; done\n{script}\n: > {}\nexec sleep 600\n",
        began.display()
    );
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    staged.scene.plugin.change_habits(|habits| habits.tools_from = Some(tools.clone()));
    began
}

/// Stages until mkfs has `began`, kills the plugin, and starts it anew with the node's own mkfs.
fn cut_off(staged: &mut Staged, began: &Path) {
    let staging = {
        let (kubelet, volume) = (staged.kubelet(60), staged.scene.volume.clone());
        std::thread::spawn(move || crate::support::run(kubelet.mount_device(&volume)))
    };
    wait_for("mkfs begins", || began.exists());
    staged.scene.plugin.stop();
    let status = staging.join().unwrap().unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    assert!(status.message().contains("broke the connection"), "{status:?}");
    staged.scene.plugin.change_habits(|habits| habits.tools_from = None);
    staged.guard.wait_until_it_misses_the_plugin();
    staged.scene.plugin.restart();
}

fn loop_a_format_that_was_cut_off_is_begun_again() {
    let mut staged = Staged::new(LoopDisk::new(32 * MIB), "ext4", &[]);
    let began = mkfs_that(
        &staged,
        "tr '\\0' x < /dev/zero | dd of=\"$dev\" bs=4096 seek=600 count=20 iflag=fullblock \
         conv=fsync status=none",
    );
    cut_off(&mut staged, &began);
    staged.stages();
    assert_eq!(mkfs(&staged), 2);
}

/// mke2fs writes the primary superblock last of all.
fn loop_a_format_that_lacks_its_last_write_is_begun_again() {
    let mut staged = Staged::new(LoopDisk::new(32 * MIB), "ext4", &[]);
    let began = mkfs_that(
        &staged,
        "/sbin/mke2fs -qF \"$dev\" && dd if=/dev/zero of=\"$dev\" bs=1024 seek=1 count=1 \
         conv=fsync status=none",
    );
    cut_off(&mut staged, &began);
    staged.stages();
    assert_eq!(mkfs(&staged), 2);
}

fn loop_a_volume_that_was_seen_whole_is_not_formatted_after_a_cut_off() {
    // Of two groups with Longhorn's blocks of 4 KiB, so that there is a copy.
    let staged = Staged::new(LoopDisk::new(160 * MIB), "ext4", &[]);
    staged.stages();
    staged.unstages();
    staged.scene.disk.zero(1024, 1024);
    staged.is_refused_untouched(&["superblock is gone", "a copy lies at byte"]);
    assert_eq!(mkfs(&staged), 1);
}

fn loop_format_guard_report_says_and_off_is_silent() {
    for (mode, said) in [("report", true), ("off", false)] {
        let staged = Staged::new(LoopDisk::new(32 * MIB), "ext4", &["--format-guard", mode]);
        staged.scene.disk.write_at(9 * MIB, &[0xa5; 1 << 20]);
        staged.stages();
        assert_eq!(mkfs(&staged), 1, "{mode}");
        let log = staged.guard.log();
        assert_eq!(log.contains("unknown content"), said, "{mode}: {log}");
    }
}

fn loop_what_is_no_filesystem_is_refused_by_its_name() {
    let disk = || LoopDisk::new(32 * MIB);
    let table = disk();
    // One entry of an MBR: Linux, from sector 2048, 4096 sectors.
    let mut sector = [0; 512];
    sector[446..462].copy_from_slice(&[0, 0, 0, 0, 0x83, 0, 0, 0, 0, 8, 0, 0, 0, 16, 0, 0]);
    sector[510..].copy_from_slice(&[0x55, 0xaa]);
    table.write_at(0, &sector);
    let swap = disk();
    tool("mkswap", &[path_str(swap.device())]);
    for (disk, words) in [(table, "partition table"), (swap, "swap")] {
        let staged = Staged::new(disk, "ext4", &[]);
        staged.is_refused_untouched(&[words, "wipefs"]);
    }
}

fn luks() -> LoopDisk {
    let disk = LoopDisk::new(32 * MIB);
    let key = disk.image().with_extension("key");
    std::fs::write(&key, "open sesame").unwrap();
    let format = "luksFormat -q --type luks2 --pbkdf pbkdf2 --pbkdf-force-iterations 1000";
    let device = path_str(disk.image());
    let args = format.split(' ').chain([device, path_str(&key)]).collect::<Vec<_>>();
    tool("cryptsetup", &args);
    disk.attachment().forget_cache();
    disk
}

fn encrypted(disk: LoopDisk) -> Staged {
    let mut staged = Staged::new(disk, "ext4", &[]);
    staged.scene.plugin.manager().change(VOLUME, |volume| volume.encrypted = true);
    let secret = ("CRYPTO_KEY_VALUE".to_owned(), "open sesame".to_owned());
    staged.scene.volume.secrets.extend([secret]);
    let context = &mut staged.scene.volume.volume_context;
    context.insert("encrypted".to_owned(), "true".to_owned());
    staged
}

fn loop_case_28_a_luks_volume_that_reads_as_zeros_is_refused() {
    let staged = encrypted(luks());
    // The stand-in knows another passphrase than the header does: it is asked, and that is all.
    assert_eq!(staged.stage().unwrap_err().code(), Code::Internal);
    assert_eq!(staged.asked(Method::Stage), 1);
    wipe(&staged.scene.disk);
    staged.is_refused_untouched(&["reads as zeros", "held LUKS"]);
    assert_eq!(staged.scene.plugin.counts().ran("luksFormat"), 0);
    let log = staged.guard.log();
    assert!(!log.contains("open sesame"), "{log}");
}

fn loop_encrypted_and_plain_are_not_mistaken_for_each_other() {
    let plain = encrypted(LoopDisk::with_filesystem("ext4", &[]));
    plain.is_refused_untouched(&["holds ext4", "in plain", "make a new PV without `encrypted`"]);
    let staged = Staged::new(luks(), "ext4", &[]);
    staged.is_refused_untouched(&[
        "it is encrypted (LUKS",
        "make a new PV with `encrypted: \"true\"`",
    ]);
}
