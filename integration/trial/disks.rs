//! Disks for trials: small ext4 images, ways to damage them, loop devices.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use sha2::{Digest, Sha256};

/// The name of a file on every image, and in no message and no file of ours.
pub const PLANTED: &str = "planted-name-of-a-secret";

/// A directory with a `disk.img` and a `state` directory, gone with the test.
pub struct Lab {
    dir: tempfile::TempDir,
}

impl Lab {
    pub fn new() -> Self {
        let lab = Self { dir: tempfile::tempdir().unwrap() };
        std::fs::create_dir(lab.state()).unwrap();
        lab
    }

    /// A lab whose disk is an ext4 filesystem with blocks of 1 KiB: many groups, many backups.
    pub fn with_ext4() -> Self {
        let lab = Self::new();
        make_ext4(&lab.disk(), &lab.path("tree"));
        lab
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn disk(&self) -> PathBuf {
        self.path("disk.img")
    }

    pub fn state(&self) -> PathBuf {
        self.path("state")
    }

    /// The names in the state directory.
    pub fn left(&self) -> Vec<String> {
        let names = std::fs::read_dir(self.state()).unwrap();
        let mut names: Vec<String> =
            names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn make_ext4(disk: &Path, tree: &Path) {
    for dir in 0..8 {
        let dir = tree.join(format!("dir{dir}"));
        std::fs::create_dir_all(&dir).unwrap();
        for file in 0..24 {
            std::fs::write(dir.join(format!("file{file}")), vec![file; 3000]).unwrap();
        }
    }
    std::fs::write(tree.join(PLANTED), "content").unwrap();
    std::fs::write(tree.join("large"), vec![7; 600_000]).unwrap();
    std::fs::File::create(disk).unwrap().set_len(32 << 20).unwrap();
    let disk = disk.to_str().unwrap();
    run("/sbin/mke2fs", &["-q", "-F", "-t", "ext4", "-b", "1024", "-d", path(tree), disk]);
}

/// Does something to an ext4 image.
#[derive(Debug, Clone, Copy)]
pub enum Damage {
    /// One command of debugfs.
    Debugfs(&'static str),
    /// Bytes of this value over so many blocks of 1 KiB.
    Fill { block: u64, count: usize, value: u8 },
}

use Damage::{Debugfs, Fill};

/// What a disk has suffered; the numbers are of the images [`Lab::with_ext4`] makes.
pub const DAMAGES: [Damage; 28] = [
    Debugfs("dirty"),
    Debugfs("clri /dir1/file1"),
    Debugfs("clri /dir2"),
    Debugfs("sif /dir3/file3 links_count 9"),
    Debugfs("sif /large size 99999999"),
    Debugfs("sif /dir4 mode 0100644"),
    Debugfs("sif /large blocks 3"),
    Debugfs("sif /dir5/file5 block[2] 0x7fffffff"),
    Debugfs("sif <8> mode 0"),
    Debugfs("sif <2> mode 0"),
    Debugfs("freeb 1400 200"),
    Debugfs("setb 20000 500"),
    Debugfs("freei <20>"),
    Debugfs("seti <1900>"),
    Debugfs("kill_file /dir6/file6"),
    Debugfs("unlink /dir7/file7"),
    Debugfs("unlink /dir0"),
    Debugfs("link /dir1 /dir2/again"),
    Debugfs("ssv free_blocks_count 3"),
    Debugfs("ssv free_inodes_count 3"),
    Debugfs("ssv last_orphan 15"),
    Debugfs("ssv state 2"),
    Debugfs("set_bg 1 free_blocks_count 9999"),
    Debugfs("set_bg 2 inode_bitmap 0"),
    // The superblock, the descriptors, a bitmap, a part of the inode table.
    Fill { block: 1, count: 1, value: 0 },
    Fill { block: 2, count: 1, value: 0 },
    Fill { block: 258, count: 1, value: 0xff },
    Fill { block: 300, count: 8, value: 0x5a },
];

impl Damage {
    pub fn inflict(self, disk: &Path) {
        match self {
            Debugfs(command) => {
                run("/sbin/debugfs", &["-w", "-R", command, path(disk)]);
            }
            Fill { block, count, value } => {
                let file = std::fs::File::options().write(true).open(disk).unwrap();
                file.write_all_at(&vec![value; count * 1024], block * 1024).unwrap();
            }
        }
    }
}

/// The damage the tests use that need one repair of several blocks, here and there.
pub fn damage_some(disk: &Path) {
    Debugfs("unlink /dir7/file7").inflict(disk);
    Debugfs("freeb 1400 200").inflict(disk);
    Debugfs("clri /dir1/file1").inflict(disk);
    Debugfs("setb 20000 500").inflict(disk);
}

pub fn hash(path: &Path) -> String {
    format!("{:x?}", Sha256::digest(std::fs::read(path).unwrap()))
}

pub fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Runs a program that must succeed.
pub fn run(program: &str, args: &[&str]) -> Output {
    let output = Command::new(program).args(args).output().unwrap();
    assert!(output.status.success(), "{program} {args:?}: {output:?}");
    output
}

/// A loop device of the test's own.
pub struct Loop(pub PathBuf);

impl Loop {
    pub fn on(file: &Path) -> Self {
        Self::set_up(&["-f", "--show", path(file)])
    }

    /// Not by `blockdev --setro`: that stays with the number, for whoever gets it next.
    pub fn read_only_on(file: &Path) -> Self {
        Self::set_up(&["-r", "-f", "--show", path(file)])
    }

    fn set_up(args: &[&str]) -> Self {
        let output = run("/sbin/losetup", args);
        Self(String::from_utf8(output.stdout).unwrap().trim().into())
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("/sbin/losetup").arg("-d").arg(&self.0).status();
    }
}

/// A mount of the test's own.
pub struct Mount {
    target: PathBuf,
    /// The image, if it is mounted by way of a loop device.
    image: Option<PathBuf>,
}

impl Mount {
    pub fn new(args: &[&str], target: &Path) -> Self {
        std::fs::create_dir_all(target).unwrap();
        run("/bin/mount", &[args, &[path(target)]].concat());
        Self { target: target.into(), image: None }
    }

    pub fn of_image(image: &Path, options: &str, target: &Path) -> Self {
        Self::try_of_image(image, options, target)
            .unwrap_or_else(|| panic!("{} does not mount", image.display()))
    }

    /// `None` if the kernel does not mount it.
    pub fn try_of_image(image: &Path, options: &str, target: &Path) -> Option<Self> {
        std::fs::create_dir_all(target).unwrap();
        let args = ["-o", &format!("loop,{options}"), path(image), path(target)];
        let mounted = Command::new("/bin/mount").args(args).output().unwrap();
        mounted.status.success().then(|| Self { target: target.into(), image: Some(image.into()) })
    }
}

impl Drop for Mount {
    /// Returns once the filesystem is down. A test beside this one that makes a mount namespace
    /// has a copy of the mount for a moment, and what is written last comes after that.
    fn drop(&mut self) {
        // A fork of another test may hold a file of it until it executes its tool.
        for _ in 0..100 {
            let done = Command::new("/bin/umount").arg(&self.target).output();
            if done.is_ok_and(|done| done.status.success()) {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let Some(image) = &self.image else { return };
        for _ in 0..2000 {
            if run("/sbin/losetup", &["-j", path(image)]).stdout.is_empty() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}
