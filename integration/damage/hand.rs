//! What a person would do to the device without a guard, and how much that saves.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use mount_guard::facts::tool::End;
use mount_guard::host::tool::Tool;

use super::base::{Base, copy};
use super::place::Place;
use super::tree::Tree;
use crate::trial::disks::{Mount, path};

/// e2fsck does not end on every image.
const LIMIT: Duration = Duration::from_secs(60);
const OUTPUT_LIMIT_BYTES: u64 = 64 << 20;

/// The repair that saved most.
#[derive(Debug)]
pub struct Best {
    pub saved: usize,
    pub how: &'static str,
}

/// A repair by hand: its name, what it does to a copy of the image, and how its files are read.
type Way = (&'static str, fn(&Base, &Path), Reader);
type Reader = fn(&Base, &Path, &Tree, &Path) -> usize;

const EXT: [Way; 3] =
    [("-fy", straight, saved), ("-fy -b", from_copy, saved), ("mount", leave, shown_by_mount)];
const XFS: [Way; 3] = [
    ("xfs_repair", repair_xfs, saved),
    ("mount, xfs_repair", mount_and_repair_xfs, saved),
    ("mount", leave, shown_by_mount),
];

/// Tries them on copies of `image`, in `dir`, until one has saved all `files` that there are.
pub fn best(base: &Base, image: &Path, files: usize, tree: &Tree, dir: &Path) -> Best {
    let mut best = Best { saved: 0, how: "nothing" };
    for (how, repair, read) in if base.is_xfs { XFS } else { EXT } {
        let subject = dir.join("by-hand.img");
        copy(image, &subject);
        repair(base, &subject);
        let saved = read(base, &subject, tree, dir);
        if saved > best.saved {
            best = Best { saved, how };
        }
        if saved >= files {
            break;
        }
    }
    best
}

/// How many files a repaired image has whole. Not every kernel mounts every kind of ext4; debugfs
/// reads them all, but for data inside of inodes (1.47.0).
pub fn saved(base: &Base, image: &Path, tree: &Tree, dir: &Path) -> usize {
    if base.mounts {
        return shown_by_mount(base, image, tree, dir);
    }
    let out = tempfile::tempdir_in(dir).unwrap();
    let dump = format!("rdump / {}", path(out.path()));
    let done = Command::new("/sbin/debugfs").args(["-R", &dump]).arg(image).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    tree.saved_in(out.path())
}

/// How many files a mount of the image shows whole.
fn shown_by_mount(base: &Base, image: &Path, tree: &Tree, dir: &Path) -> usize {
    let at = dir.join("mnt");
    let mounted = Mount::try_of_image(image, base.mount_options(), &at);
    mounted.map_or(0, |_mounted| tree.saved_in(&at))
}

/// Whether the kernel mounts it.
pub fn mounts(base: &Base, image: &Path, dir: &Path) -> bool {
    Mount::try_of_image(image, base.mount_options(), &dir.join("mnt")).is_some()
}

/// Whether the checker finds nothing, forced and without writing.
pub fn is_clean(base: &Base, image: &Path) -> Result<(), String> {
    let (program, args): (_, &[&str]) = match base.is_xfs {
        true => ("/sbin/xfs_repair", &["-n", "-f"]),
        false => ("/sbin/e2fsck", &["-f", "-n"]),
    };
    match bounded(program, args, image) {
        (End::Exited(0), _) => Ok(()),
        (end, said) => Err(format!("{end:?}: {said}")),
    }
}

fn straight(_: &Base, image: &Path) {
    repair_twice(&["-f", "-y"], image);
}

fn from_copy(base: &Base, image: &Path) {
    let block_bytes = block_bytes(base);
    // One that has a single group has none.
    let copies = Place::Copies.find(base);
    let Some(copy) = copies.first() else { return };
    let block = (copy.offset / block_bytes).to_string();
    repair_twice(&["-f", "-y", "-b", &block, "-B", &block_bytes.to_string()], image);
}

/// Once more where the first one says that it left something.
fn repair_twice(args: &[&str], image: &Path) {
    if !matches!(bounded("/sbin/e2fsck", args, image).0, End::Exited(0 | 1)) {
        bounded("/sbin/e2fsck", &["-f", "-y"], image);
    }
}

fn block_bytes(base: &Base) -> u64 {
    let said = base.told("/sbin/dumpe2fs", &["-h"]);
    let line = said.lines().find_map(|line| line.strip_prefix("Block size:")).unwrap();
    line.trim().parse().unwrap()
}

fn leave(_: &Base, _: &Path) {}

fn repair_xfs(_: &Base, image: &Path) {
    bounded("/sbin/xfs_repair", &["-f"], image);
}

fn mount_and_repair_xfs(base: &Base, image: &Path) {
    let at = image.with_extension("mnt");
    drop(Mount::try_of_image(image, base.mount_options(), &at));
    bounded("/sbin/xfs_repair", &["-f"], image);
}

fn bounded(program: &str, args: &[&str], image: &Path) -> (End, String) {
    let tool = Tool::new(program, LIMIT).output_limit_bytes(OUTPUT_LIMIT_BYTES).args(args.to_vec());
    let exit = tool.arg(image).run(&[]).unwrap();
    (exit.end, exit.stdout.text() + &exit.stderr.text())
}
