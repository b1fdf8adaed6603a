//! Reading past the page cache.

use mount_guard::facts::bytes::{ByteRange, DeviceBytes, Failure, Read};
use mount_guard::format::{Content, Step, identify};
use mount_guard::host::{Host, HostError};
use mount_guard::volume::DevNumber;
use nix::errno::Errno;

use super::scene::{Nodes, number_of};
use crate::support::disk::{LoopDisk, MIB};

pub fn tests() -> Vec<libtest_mimic::Trial> {
    crate::tests![
        loop_a_filesystem_is_identified_by_what_is_read,
        loop_a_range_need_not_be_aligned,
        loop_what_is_behind_the_end_comes_short,
        loop_a_device_that_cannot_be_opened_is_an_outcome,
        loop_a_node_that_was_made_anew_is_not_read,
    ]
}

fn loop_a_filesystem_is_identified_by_what_is_read() {
    for fs in ["ext4", "xfs", "btrfs"] {
        let disk = LoopDisk::with_filesystem(fs, &[]);
        let (nodes, node) = Nodes::of(disk.device());
        let facts = nodes.facts(&node);
        let mut bytes = DeviceBytes::new(facts.size_bytes.unwrap());
        let content = loop {
            match identify(&bytes) {
                Step::Is(content) => break content,
                Step::Needs(plan) => crate::support::run(nodes.host().read_content(
                    &node,
                    facts.number,
                    plan.ranges(),
                    &mut bytes,
                ))
                .unwrap(),
            }
        };
        assert!(matches!(content, Content::Filesystem(_)), "{fs}: {content:?}");
    }
}

fn read(disk: &LoopDisk, ranges: &[ByteRange]) -> DeviceBytes {
    let (nodes, node) = Nodes::of(disk.device());
    let mut bytes = DeviceBytes::new(1 << 40);
    let number = number_of(disk.device());
    crate::support::run(nodes.host().read_content(&node, number, ranges, &mut bytes)).unwrap();
    bytes
}

fn loop_a_range_need_not_be_aligned() {
    let disk = LoopDisk::new(MIB);
    disk.write_at(4090, b"across a boundary");
    let bytes = read(&disk, &[ByteRange::new(4090, 17), ByteRange::new(4096, 3)]);
    assert_eq!(bytes.at(4090, 17), Read::Bytes(b"across a boundary"));
    assert_eq!(bytes.at(4096, 3), Read::Bytes(b" a "));
}

fn loop_what_is_behind_the_end_comes_short() {
    let disk = LoopDisk::new(MIB + 512);
    let bytes = read(&disk, &[ByteRange::new(MIB, 4096), ByteRange::new(2 * MIB, 4096)]);
    assert_eq!(bytes.at(MIB, 512), Read::Bytes(&[0; 512]));
    for offset_bytes in [MIB + 512, 2 * MIB] {
        let short = Read::Failed { failure: Failure::Short, offset_bytes };
        assert_eq!(bytes.at(offset_bytes, 512), short);
    }
}

fn loop_a_device_that_cannot_be_opened_is_an_outcome() {
    let nodes = Nodes::new();
    let number = DevNumber { major: 240, minor: 7 };
    let node = nodes.add("pvc-1", number);
    let mut bytes = DeviceBytes::new(MIB);
    let ranges = [ByteRange::new(0, 4096)];
    crate::support::run(nodes.host().read_content(&node, number, &ranges, &mut bytes)).unwrap();
    let failure = Failure::Errno(Errno::ENXIO);
    assert_eq!(bytes.at(0, 4096), Read::Failed { failure, offset_bytes: 0 });
}

fn loop_a_node_that_was_made_anew_is_not_read() {
    let disk = LoopDisk::new(MIB);
    let (nodes, node) = Nodes::of(disk.device());
    let was = DevNumber { major: 8, minor: 0 };
    let mut bytes = DeviceBytes::new(MIB);
    let ranges = [ByteRange::new(0, 4096)];
    let read = crate::support::run(nodes.host().read_content(&node, was, &ranges, &mut bytes));
    assert!(matches!(read, Err(HostError::Changed { .. })), "{read:?}");
}
