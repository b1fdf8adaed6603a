//! Filesystems that a kernel left dirty, on loop devices of the tests' own.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mount_guard::facts::superblock::ext::Journal;
use mount_guard::facts::superblock::ext::health::Health;
use mount_guard::facts::superblock::xfs::log::LogState;
use mount_guard::format::{Content, Filesystem};
use nix::errno::Errno;
use nix::mount::{MsFlags, mount, umount};

use super::image::{Image, MIB, look, run};

pub fn tests() -> Vec<libtest_mimic::Trial> {
    crate::tests![
        loop_a_shut_down_ext4_has_a_journal_to_replay,
        loop_a_shut_down_xfs_has_a_dirty_log_until_it_was_mounted_again,
        loop_an_xfs_log_that_went_round_is_read_as_xfs_logprint_reads_it,
        loop_an_external_journal_is_said_so,
    ]
}

/// A loop device over an image; let go of when dropped.
pub struct Loop {
    device: PathBuf,
}

impl Loop {
    pub fn over(image: &Image) -> Self {
        let (text, success) = run("losetup -f --show", &image.path(), "");
        assert!(success, "this test needs loop devices: {text}");
        Self { device: PathBuf::from(text.trim()) }
    }

    pub fn path(&self) -> &Path {
        &self.device
    }

    fn mounted(&self, fs: &str, work: impl FnOnce(&Path)) {
        let dir = tempfile::tempdir().unwrap();
        mount(Some(&self.device), dir.path(), Some(fs), MsFlags::empty(), None::<&str>).unwrap();
        work(dir.path());
        unmount(dir.path());
    }

    fn filesystem(&self) -> Filesystem {
        match look(&self.device).0 {
            Content::Filesystem(fs) => fs,
            other => panic!("{other:?}"),
        }
    }

    fn log(&self) -> LogState {
        match self.filesystem() {
            Filesystem::Xfs { log, .. } => log,
            other => panic!("{other:?}"),
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let (text, success) = run("losetup -d", &self.device, "");
        if !success {
            eprintln!("{}: {text}", self.device.display());
        }
    }
}

/// Unmounts `dir`. Another test that forks at this moment holds a file of it for an instant, until
/// its child executes a tool.
fn unmount(dir: &Path) {
    for _ in 0..100 {
        match umount(dir) {
            Err(Errno::EBUSY) => std::thread::sleep(Duration::from_millis(20)),
            other => return other.unwrap(),
        }
    }
    panic!("{} stays busy", dir.display());
}

/// Writes `files` files, each on disk before the next.
fn write_files(dir: &Path, files: usize) {
    for file in 0..files {
        let file = File::create(dir.join(format!("file-{file}"))).unwrap();
        file.set_len(4096).unwrap();
        file.sync_all().unwrap();
    }
}

/// Ends the filesystem as a lost device would, its log on disk (`EXT4_IOC_SHUTDOWN` and
/// `XFS_IOC_GOINGDOWN` are one number; 1 is "flush the log").
fn shut_down(dir: &Path) {
    use std::os::fd::AsRawFd;
    nix::ioctl_read!(going_down, b'X', 125, u32);
    let mut flush_log = 1;
    let root = File::open(dir).unwrap();
    // SAFETY: the descriptor is open, and the kernel reads one u32 at the pointer.
    unsafe { going_down(root.as_raw_fd(), &raw mut flush_log) }.unwrap();
}

fn loop_a_shut_down_ext4_has_a_journal_to_replay() {
    let image = Image::made(300 * MIB, "mkfs.ext4 -qF -b 4096");
    let device = Loop::over(&image);
    let health = || match device.filesystem() {
        Filesystem::Ext(superblock) => Health::of(&superblock, 0),
        other => panic!("{other:?}"),
    };
    assert!(health().is_clean());
    device.mounted("ext4", |dir| {
        write_files(dir, 10);
        shut_down(dir);
    });
    assert!(health().journal_to_replay && !health().is_clean(), "{:?}", health());
    assert!(run("dumpe2fs -h", device.path(), "").0.contains("needs_recovery"));
    device.mounted("ext4", |dir| write_files(dir, 1));
    assert!(health().is_clean(), "{:?}", health());
}

fn loop_a_shut_down_xfs_has_a_dirty_log_until_it_was_mounted_again() {
    for line in ["mkfs.xfs -qf", "mkfs.xfs -qf -ssize=4096 -bsize=4096", "mkfs.xfs -qf -l su=256k"]
    {
        let device = Loop::over(&Image::made(400 * MIB, line));
        device.mounted("xfs", |dir| write_files(dir, 3));
        assert_eq!(device.log(), LogState::Clean, "{line}");
        device.mounted("xfs", |dir| {
            write_files(dir, 50);
            shut_down(dir);
        });
        assert!(matches!(device.log(), LogState::Dirty { .. }), "{line}: {:?}", device.log());
        assert_logprint_agrees(&device);
        device.mounted("xfs", |_| {});
        assert_eq!(device.log(), LogState::Clean, "{line}");
    }
}

/// A log of 64 MiB, the smallest there is, goes round after 256 synchronous changes where each
/// record takes 256 KiB (`su`).
fn loop_an_xfs_log_that_went_round_is_read_as_xfs_logprint_reads_it() {
    let device = Loop::over(&Image::made(400 * MIB, "mkfs.xfs -qf -l size=64m,su=256k"));
    for round in 0..8 {
        device.mounted("xfs", |dir| {
            write_files(dir, 100 + round * 37);
            if round % 2 == 1 {
                shut_down(dir);
            }
        });
        assert_logprint_agrees(&device);
    }
}

/// Head, tail and state as xfs_logprint has them.
fn assert_logprint_agrees(device: &Loop) {
    let (said, _) = run("xfs_logprint -t", device.path(), "");
    match device.log() {
        LogState::Clean => assert!(said.contains("<CLEAN>"), "{said}"),
        LogState::Dirty { head_block, tail_block } => {
            let expected = format!("log tail: {tail_block} head: {head_block} state: <DIRTY>");
            assert!(said.contains(&expected), "{expected}: {said}");
        }
        other => panic!("{other:?}: {said}"),
    }
}

fn loop_an_external_journal_is_said_so() {
    let journal = Loop::over(&Image::made(64 * MIB, "mkfs.ext4 -qF -b 4096 -O journal_dev"));
    let line = format!("mkfs.ext4 -qF -b 4096 -J device={}", journal.path().display());
    let image = Image::made(300 * MIB, &line);
    let Filesystem::Ext(superblock) = image.filesystem() else { panic!() };
    assert!(matches!(superblock.journal, Journal::External { .. }));
    assert!(Health::of(&superblock, 0).external_journal);
}
