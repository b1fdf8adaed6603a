//! Loop disks come and go without touching anybody else's.

use crate::support::disk::{Loop, LoopDisk, MIB};

pub fn tests() -> Vec<libtest_mimic::Trial> {
    crate::tests![
        loop_a_disk_is_detached_when_it_is_dropped,
        loop_a_loop_on_top_shows_the_rest_of_a_disk,
        loop_a_corrupted_range_changes_the_hash,
        loop_every_filesystem_can_be_made_and_mounted,
    ]
}

fn loop_a_disk_is_detached_when_it_is_dropped() {
    let disk = LoopDisk::new(MIB);
    let name = disk.device().file_name().unwrap().to_owned();
    let state = std::path::Path::new("/sys/block").join(name).join("loop/backing_file");
    let image = disk.image().to_owned();
    let is_ours = || {
        let backing = std::fs::read_to_string(&state).unwrap_or_default();
        backing.trim() == image.to_str().unwrap()
    };
    assert!(is_ours());
    drop(disk);
    assert!(!is_ours());
}

fn loop_a_loop_on_top_shows_the_rest_of_a_disk() {
    let disk = LoopDisk::new(2 * MIB);
    disk.write_at(MIB, b"behind the header");
    let upper = Loop::over_rest_of(disk.device(), MIB);
    let content = std::fs::read(upper.path()).unwrap();
    assert_eq!(content.len() as u64, MIB);
    assert!(content.starts_with(b"behind the header"));
    assert_ne!(upper.number(), disk.attachment().number());
}

fn loop_a_corrupted_range_changes_the_hash() {
    let disk = LoopDisk::new(MIB);
    let before = disk.hash();
    disk.write_at(4096, b"x");
    assert_ne!(disk.hash(), before);
    disk.zero(4096, 1);
    assert_eq!(disk.hash(), before);
    assert_eq!(disk.read_at(4096, 1), [0]);
}

fn loop_every_filesystem_can_be_made_and_mounted() {
    for fs_type in ["ext4", "xfs", "btrfs"] {
        let disk = LoopDisk::with_filesystem(fs_type, &[("file", b"content")]);
        let content = disk.mounted(|root| std::fs::read(root.join("file")).unwrap());
        assert_eq!(content, b"content", "{fs_type}");
    }
}
