//! Devices that are shared, gone, empty, read-only or free.

use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mount_guard::claims::{Claim, Gone};
use mount_guard::facts::device::{Node, Target};
use mount_guard::volume::DevNumber;

use super::scene::{Nodes, number_of};
use crate::support::disk::{Loop, LoopDisk, MIB};

pub fn tests() -> Vec<libtest_mimic::Trial> {
    crate::tests![
        loop_a_device_that_nobody_uses_is_free,
        loop_what_is_no_device_is_said_so,
        loop_a_loop_on_top_is_found_by_number,
        loop_a_loop_over_a_node_that_was_removed_is_found,
        loop_a_loop_over_a_file_is_none_on_top,
        loop_a_second_node_of_the_same_number_is_named,
        loop_a_node_without_a_device_is_gone,
        loop_a_device_without_content_is_gone,
        loop_a_device_that_takes_no_writes_is_said_so,
    ]
}

fn loop_a_device_that_nobody_uses_is_free() {
    let disk = LoopDisk::new(3 * MIB);
    let (nodes, node) = Nodes::of(disk.device());
    let facts = nodes.facts(&node);
    assert_eq!(nodes.claim(&node), Claim::Free, "{facts:?}");
    assert_eq!(facts.number, number_of(disk.device()));
    assert_eq!(facts.size_bytes, Some(3 * MIB));
    assert_eq!(facts.name.as_deref(), disk.device().file_name().unwrap().to_str());
    assert_eq!(facts.target, Some(Target::NotIscsi));
}

fn loop_what_is_no_device_is_said_so() {
    let nodes = Nodes::new();
    let path = nodes.dir.path().join("pvc-1");
    assert_eq!(nodes.node(&path).0, Node::Absent);
    assert_eq!(nodes.node(&path.join("below")).0, Node::Absent);
    std::fs::write(&path, "a file").unwrap();
    assert_eq!(nodes.node(&path).0, Node::NotADevice);
    assert_eq!(nodes.node(nodes.dir.path()).0, Node::NotADevice);
}

#[track_caller]
fn assert_loop_on_top(nodes: &Nodes, node: &Path, upper: &Loop) {
    let claim = nodes.claim(node);
    let Claim::LoopOnTop { loops } = &claim else { panic!("{claim:?}") };
    let names: Vec<PathBuf> =
        loops.iter().map(|found| Path::new("/dev").join(&found.name)).collect();
    assert_eq!(names, [upper.path()]);
}

fn loop_a_loop_on_top_is_found_by_number() {
    let disk = LoopDisk::new(2 * MIB);
    let (nodes, node) = Nodes::of(disk.device());
    assert_loop_on_top(&nodes, &node, &Loop::over(disk.device()));
    // Another disk: a loop device that was dropped may be there for an instant longer.
    let disk = LoopDisk::new(2 * MIB);
    let (nodes, node) = Nodes::of(disk.device());
    assert_loop_on_top(&nodes, &node, &Loop::over(&node));
}

fn loop_a_loop_over_a_node_that_was_removed_is_found() {
    let disk = LoopDisk::new(2 * MIB);
    let (nodes, node) = Nodes::of(disk.device());
    let upper = Loop::over(&node);
    std::fs::remove_file(&node).unwrap();
    // Longhorn makes its nodes anew; this one is another device's.
    let other = LoopDisk::new(MIB);
    nodes.add("pvc-1", number_of(other.device()));
    assert_loop_on_top(&nodes, disk.device(), &upper);
    assert_eq!(nodes.claim(&node), Claim::Free);
}

fn loop_a_loop_over_a_file_is_none_on_top() {
    let disk = LoopDisk::with_filesystem("ext4", &[]);
    let (nodes, node) = Nodes::of(disk.device());
    assert_eq!(nodes.facts(&node).loops, Some(vec![]));
}

fn loop_a_second_node_of_the_same_number_is_named() {
    let disk = LoopDisk::new(MIB);
    let (nodes, node) = Nodes::of(disk.device());
    let other = nodes.add("pvc-2", number_of(disk.device()));
    nodes.add("pvc-3", number_of(LoopDisk::new(MIB).device()));
    // A link is a name for the same node.
    std::os::unix::fs::symlink(&node, nodes.dir.path().join("link")).unwrap();
    assert_eq!(nodes.claim(&node), Claim::SharedNode { others: vec![other] });
}

fn loop_a_node_without_a_device_is_gone() {
    let nodes = Nodes::new();
    // A major for local use: no driver has it (devices.txt).
    let node = nodes.add("pvc-1", DevNumber { major: 240, minor: 7 });
    assert_eq!(nodes.claim(&node), Claim::Gone { why: Gone::NoDevice });
}

/// A loop device over nothing. Its number is so high that nobody takes it for a free one.
struct EmptyLoop(i32);

impl EmptyLoop {
    fn new() -> Self {
        let number = 4000 + i32::try_from(std::process::id() % 1000).unwrap();
        control(number, true).unwrap();
        Self(number)
    }
}

impl Drop for EmptyLoop {
    fn drop(&mut self) {
        // A test that forks at this moment has it open until its child executes a tool.
        let gone = (0..100).any(|_| {
            std::thread::sleep(Duration::from_millis(20));
            control(self.0, false).is_ok()
        });
        if !gone {
            eprintln!("/dev/loop{} stays", self.0);
        }
    }
}

fn control(number: i32, add: bool) -> nix::Result<i32> {
    nix::ioctl_write_int_bad!(loop_add, 0x4c80);
    nix::ioctl_write_int_bad!(loop_remove, 0x4c81);
    let file = OpenOptions::new().read(true).write(true).open("/dev/loop-control").unwrap();
    // SAFETY: the descriptor is open, and the kernel takes a number and no pointer.
    unsafe {
        if add { loop_add(file.as_raw_fd(), number) } else { loop_remove(file.as_raw_fd(), number) }
    }
}

fn loop_a_device_without_content_is_gone() {
    let empty = EmptyLoop::new();
    let (nodes, node) = Nodes::of(&PathBuf::from(format!("/dev/loop{}", empty.0)));
    assert_eq!(nodes.claim(&node), Claim::Gone { why: Gone::Empty });
}

fn loop_a_device_that_takes_no_writes_is_said_so() {
    let disk = LoopDisk::new(MIB);
    let (nodes, node) = Nodes::of(disk.device());
    disk.attachment().set_read_only(true);
    assert_eq!(nodes.claim(&node), Claim::ReadOnlyDevice);
    disk.attachment().set_read_only(false);
    assert_eq!(nodes.claim(&node), Claim::Free);
}
