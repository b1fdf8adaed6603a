//! Sound images that the damaged ones are copies of.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::hand::mounts;
use super::tree::Tree;
use crate::trial::disks::{Mount, path, run};

/// What kind of filesystem, as the tests call it, and how it is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    pub name: &'static str,
    pub options: &'static str,
    pub mib: u64,
}

/// Sizes that give three groups at least: all copies of the superblock are in their usual places.
#[rustfmt::skip]
pub const EXT: [Kind; 15] = [
    Kind { name: "1k", options: "-b 1024", mib: 32 },
    Kind { name: "2k", options: "-b 2048", mib: 80 },
    Kind { name: "4k", options: "-b 4096", mib: 272 },
    Kind { name: "1k-plain", options: "-b 1024 -O ^metadata_csum,^64bit,^flex_bg", mib: 32 },
    Kind { name: "4k-plain", options: "-b 4096 -O ^metadata_csum,uninit_bg,^64bit", mib: 272 },
    Kind { name: "2k-no-flex", options: "-b 2048 -O ^flex_bg", mib: 80 },
    Kind { name: "1k-inline", options: "-b 1024 -O inline_data", mib: 32 },
    Kind { name: "4k-inline", options: "-b 4096 -O inline_data", mib: 272 },
    Kind { name: "1k-quota", options: "-b 1024 -O quota", mib: 32 },
    Kind { name: "1k-casefold", options: "-b 1024 -O casefold -E encoding=utf8", mib: 32 },
    Kind { name: "2k-encrypt", options: "-b 2048 -O encrypt", mib: 80 },
    Kind { name: "1k-mmp", options: "-b 1024 -O mmp", mib: 32 },
    Kind { name: "1k-orphans", options: "-b 1024 -O orphan_file", mib: 32 },
    Kind { name: "2k-bigalloc", options: "-b 2048 -O bigalloc", mib: 80 },
    Kind { name: "1k-ext3", options: "-b 1024 -O ^extent,^flex_bg,^metadata_csum,^64bit", mib: 32 },
];

/// `--unsupported` lets mkfs.xfs make one of less than 300 MiB.
#[rustfmt::skip]
pub const XFS: [Kind; 3] = [
    Kind { name: "xfs", options: "", mib: 64 },
    Kind { name: "xfs-1k", options: "-b size=1024 -m rmapbt=1", mib: 64 },
    Kind { name: "xfs-4kn", options: "-s size=4096 -i sparse=0", mib: 64 },
];

/// A sound image, and the tree it holds. It says of itself that it was not unmounted: a kernel that
/// meets damage leaves a filesystem like that.
pub struct Base {
    pub kind: Kind,
    pub is_xfs: bool,
    /// Whether this kernel mounts the kind at all.
    pub mounts: bool,
    image: PathBuf,
}

impl Base {
    /// Makes an image in `dir`.
    pub fn make(kind: Kind, dir: &Path, tree: &Tree) -> Self {
        let mut base = Self {
            kind,
            mounts: false,
            is_xfs: kind.name.starts_with("xfs"),
            image: dir.join(format!("{}.img", kind.name)),
        };
        std::fs::File::create(&base.image).unwrap().set_len(kind.mib << 20).unwrap();
        if base.is_xfs {
            base.make_xfs(tree, dir)
        } else {
            base.make_ext(tree, dir)
        }
        let copied = dir.join("copy.img");
        copy(base.image(), &copied);
        base.mounts = mounts(&base, &copied, dir);
        std::fs::remove_file(copied).unwrap();
        base
    }

    fn make_ext(&self, tree: &Tree, dir: &Path) {
        let root = dir.join(format!("{}.tree", self.kind.name));
        tree.plant(&root);
        let image = path(&self.image);
        let journal = ["-q", "-F", "-t", "ext4", "-J", "size=4", "-d", path(&root)];
        run("/sbin/mke2fs", &[&journal[..], &words(self.kind.options), &[image]].concat());
        let value = dir.join("value");
        std::fs::write(&value, "an attribute that fits into no inode ".repeat(20)).unwrap();
        let attribute = format!("ea_set -f {} /dir1/file6 user.large", path(&value));
        run("/sbin/debugfs", &["-w", "-R", &attribute, image]);
        // Makes indexes for the directories, and counts the attribute's block.
        let made = Command::new("/sbin/e2fsck").args(["-f", "-y", "-D", image]).output().unwrap();
        assert!(matches!(made.status.code(), Some(0 | 1)), "{}: {made:?}", self.kind.name);
        run("/sbin/e2fsck", &["-f", "-n", image]);
        run("/sbin/debugfs", &["-w", "-R", "ssv state 0", image]);
        std::fs::remove_dir_all(root).unwrap();
    }

    fn make_xfs(&self, tree: &Tree, dir: &Path) {
        let image = path(&self.image);
        let first = ["--unsupported", "-q", "-f"];
        run("/sbin/mkfs.xfs", &[&first[..], &words(self.kind.options), &[image]].concat());
        let at = dir.join(format!("{}.mnt", self.kind.name));
        let mounted = Mount::of_image(&self.image, "rw", &at);
        tree.plant(&at);
        drop(mounted);
        run("/sbin/xfs_repair", &["-n", "-f", image]);
    }

    pub fn image(&self) -> &Path {
        &self.image
    }

    /// Whatever its superblock says, a kernel that meets damage goes on; and a copy may be mounted
    /// beside another one.
    pub fn mount_options(&self) -> &'static str {
        if self.is_xfs { "rw,nouuid" } else { "rw,errors=continue" }
    }

    /// What a tool says of the sound image.
    pub fn told(&self, program: &str, args: &[&str]) -> String {
        let output = Command::new(program).args(args).arg(&self.image).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

/// Copies an image with its holes.
pub fn copy(from: &Path, to: &Path) {
    run("/bin/cp", &["--sparse=auto", path(from), path(to)]);
}

/// Feeds lines to a tool that works on `image`. What it says is of interest only if a test fails.
pub fn feed(program: &str, args: &[&str], image: &Path, lines: &str) -> String {
    use std::io::Write;
    let mut command = Command::new(program);
    command.args(args).arg(image).stdin(Stdio::piped());
    let mut tool = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    writeln!(tool.stdin.take().unwrap(), "{lines}").unwrap();
    let output = tool.wait_with_output().unwrap();
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}
