//! What would lose data is refused, in words that an operator can act on.

use super::scene::Staged;
use super::sound::{debugfs, zero_group_descriptors};
use crate::support::disk::LoopDisk;

pub fn tests() -> Vec<libtest_mimic::Trial> {
    crate::tests![
        loop_group_descriptors_that_are_gone_are_refused_untouched,
        loop_a_lost_primary_superblock_is_refused_untouched,
        loop_the_wrong_type_is_refused_with_both_names,
    ]
}

/// 1
fn loop_group_descriptors_that_are_gone_are_refused_untouched() {
    let disk = LoopDisk::with_filesystem("ext4", &[("a", b"1")]);
    zero_group_descriptors(&disk);
    debugfs(&disk, "ssv state 0");
    let staged = Staged::new(disk, "ext4", &[]);
    staged.is_refused_untouched(&["damaged", "e2fsck", " --repair` in the guard's container"]);
    staged.is_refused_untouched(&["damaged"]);
}

fn loop_a_lost_primary_superblock_is_refused_untouched() {
    let disk = LoopDisk::with_filesystem("ext4", &[("a", b"1")]);
    disk.zero(1024, 1024);
    let staged = Staged::new(disk, "ext4", &[]);
    staged.is_refused_untouched(&["superblock is gone", "a copy lies at byte"]);
}

fn loop_the_wrong_type_is_refused_with_both_names() {
    let staged = Staged::new(LoopDisk::with_filesystem("xfs", &[]), "ext4", &[]);
    staged.is_refused_untouched(&["it holds xfs", "and ext4 was asked for"]);
}
