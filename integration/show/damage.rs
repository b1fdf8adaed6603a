//! Damaged filesystems: what is mended, what is refused, and what the plugin alone would do.

use std::path::Path;

use super::{Stage, text};
use crate::support::disk::{LoopDisk, path_str, run};
use crate::support::run as wait;
use crate::support::scene::Scene;

/// Files on each disk: enough for several groups to matter.
const FILES: usize = 17;

fn disk() -> LoopDisk {
    let disk = LoopDisk::new(64 << 20);
    // Blocks of 1 KiB: eight groups, and backups of the descriptors in some of them.
    run("mke2fs", &["-q", "-F", "-t", "ext4", "-b", "1024", path_str(disk.device())]);
    disk.mounted(|root| {
        for file in 0..FILES {
            std::fs::write(root.join(format!("file{file}")), format!("content {file}")).unwrap();
        }
    });
    disk
}

/// How many files are what they were.
fn saved(root: &Path) -> usize {
    let whole = |file: &usize| {
        let content = std::fs::read_to_string(root.join(format!("file{file}")));
        content.is_ok_and(|content| content == format!("content {file}"))
    };
    (0..FILES).filter(whole).count()
}

/// As the field sees it (longhorn#2644): the block behind the superblock reads zeros.
fn lose_descriptors(disk: &LoopDisk) {
    disk.zero(2048, 1024);
}

pub(super) fn a_dirty_journal() -> Result<String, String> {
    let disk = disk();
    disk.mounted(|root| {
        let mut late = std::fs::File::create(root.join("late")).unwrap();
        std::io::Write::write_all(&mut late, b"in the journal").unwrap();
        late.sync_all().unwrap();
        run("xfs_io", &["-x", "-c", "shutdown -f", path_str(root)]);
    });
    println!("  (the node lost power: the journal holds what the filesystem has not)");
    let stage = Stage::with(disk, "ext4", &[]);
    stage.stage().map_err(text)?;
    let late = std::fs::read_to_string(stage.scene.staging().join("late"));
    stage.end()?;
    match late.as_deref() {
        Ok("in the journal") => {
            Ok("replayed on a trial, applied, mounted; nobody was woken".into())
        }
        other => Err(format!("the file reads {other:?}")),
    }
}

pub(super) fn damage_that_preen_mends() -> Result<String, String> {
    let disk = disk();
    run("debugfs", &["-w", "-R", "sif /file3 links_count 9", path_str(disk.device())]);
    run("debugfs", &["-w", "-R", "ssv state 0", path_str(disk.device())]);
    disk.attachment().forget_cache();
    let stage = Stage::with(disk, "ext4", &[]);
    stage.stage().map_err(text)?;
    let files = saved(&stage.scene.staging());
    stage.end()?;
    Ok(format!("mended on a trial, proven by a second pass, applied; {files} of {FILES} files"))
}

pub(super) fn descriptors_gone_without_the_guard() -> Result<String, String> {
    let disk = disk();
    lose_descriptors(&disk);
    let scene = Scene::new(disk, "ext4");
    let staged = wait(scene.kubelet.mount_device(&scene.volume));
    let said = staged.err().map_or_else(|| "OK".to_owned(), |status| status.message().to_owned());
    println!("  NodeStageVolume, straight to the plugin: {}", said.lines().next().unwrap_or("OK"));
    let files = by_hand(&scene.disk);
    match files {
        FILES => Err("nothing was lost: this scene shows nothing".into()),
        files => {
            Ok(format!("the plugin's fsck -a wrote first: e2fsck -y saves {files} of {FILES}"))
        }
    }
}

/// What a person saves with `e2fsck -f -y`.
fn by_hand(disk: &LoopDisk) -> usize {
    let _ = std::process::Command::new("e2fsck").args(["-fy"]).arg(disk.device()).output();
    disk.attachment().forget_cache();
    disk.mounted(saved)
}

pub(super) fn descriptors_gone_in_mode_preen() -> Result<String, String> {
    let disk = disk();
    lose_descriptors(&disk);
    let before = disk.hash();
    let stage = Stage::with(disk, "ext4", &[]);
    let refused = stage.stage().is_err();
    let untouched = stage.scene.disk.hash() == before;
    match (refused, untouched, by_hand(&stage.scene.disk)) {
        (true, true, FILES) => {
            Ok(format!("refused, not a bit changed; e2fsck -y by hand saves {FILES} of {FILES}"))
        }
        other => Err(format!("refused, untouched, saved by hand: {other:?}")),
    }
}

pub(super) fn descriptors_gone_in_mode_repair() -> Result<String, String> {
    let disk = disk();
    lose_descriptors(&disk);
    let stage = Stage::with(disk, "ext4", &["--fsck", "repair"]);
    stage.stage().map_err(text)?;
    let files = saved(&stage.scene.staging());
    stage.end()?;
    match files {
        FILES => Ok(format!("repaired on a trial, applied, mounted: {FILES} of {FILES} files")),
        files => Err(format!("only {files} of {FILES} files are left")),
    }
}

pub(super) fn the_primary_superblock_is_gone() -> Result<String, String> {
    let disk = disk();
    disk.zero(1024, 1024);
    let before = disk.hash();
    let stage = Stage::with(disk, "ext4", &[]);
    let refused = stage.stage().is_err();
    match (refused, stage.scene.disk.hash() == before) {
        (true, true) => Ok("refused, where the plugin alone formats it; the copy is named".into()),
        other => Err(format!("refused, untouched: {other:?}")),
    }
}
