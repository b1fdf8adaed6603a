//! Disks for tests: loop devices that go away by themselves.
//!
//! A [`Loop`] is attached with `losetup -f`, opened, and at once detached again: with an opener
//! the kernel keeps the device and marks it to be cleared on its last close (loop(4),
//! `LO_FLAGS_AUTOCLEAR`). So it is gone once the handle is dropped *and* nothing mounts it, also
//! after a panic or SIGKILL, and no device of anybody else is ever detached.

#![allow(dead_code, reason = "part of the kit: not every test asks for everything")]

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};
use tempfile::TempDir;

use super::mounts;

pub const MIB: u64 = 1 << 20;

/// A loop device over a file or another device.
#[derive(Debug)]
pub struct Loop {
    path: PathBuf,
    /// Keeps the device attached.
    _held: File,
}

impl Loop {
    pub fn over(backing: &Path) -> Self {
        Self::over_rest_of(backing, 0)
    }

    /// A loop device over what lies behind the first `offset_bytes` of `backing`.
    pub fn over_rest_of(backing: &Path, offset_bytes: u64) -> Self {
        let offset = offset_bytes.to_string();
        let shown = run("losetup", &["-f", "--show", "-o", &offset, path_str(backing)]);
        let path = PathBuf::from(shown.trim());
        let held = File::open(&path).expect("the new loop device");
        run("losetup", &["-d", path_str(&path)]);
        // A device keeps `--setro` when it is detached: whoever had this one may have left it so.
        run("blockdev", &["--setrw", path_str(&path)]);
        Self { path, _held: held }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// `major:minor`, as the mount table prints it.
    pub fn number(&self) -> String {
        mounts::device_number(&self.path).expect("the loop device")
    }

    /// Makes the device refuse writes, or take them again.
    pub fn set_read_only(&self, read_only: bool) {
        let how = if read_only { "--setro" } else { "--setrw" };
        run("blockdev", &[how, path_str(&self.path)]);
    }

    /// Drops what the kernel remembers of the device's content.
    pub fn forget_cache(&self) {
        run("blockdev", &["--flushbufs", path_str(&self.path)]);
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        // The next user of this number gets a device that takes writes.
        let args = ["--setrw", path_str(&self.path)];
        let _ = Command::new("blockdev").args(args).status();
    }
}

/// A sparse image in a directory of its own, and the loop device over it.
#[derive(Debug)]
pub struct LoopDisk {
    // Dropped in this order: the device lets go of the image before the image is removed.
    device: Loop,
    image: PathBuf,
    _dir: TempDir,
}

impl LoopDisk {
    pub fn new(size_bytes: u64) -> Self {
        let dir = tempfile::tempdir().expect("a directory for the image");
        let image = dir.path().join("image");
        File::create(&image).expect("the image").set_len(size_bytes).expect("its size");
        Self { device: Loop::over(&image), image, _dir: dir }
    }

    /// A disk that holds a filesystem with `files` (name, content) in its root.
    pub fn with_filesystem(fs_type: &str, files: &[(&str, &[u8])]) -> Self {
        let disk = Self::new(smallest_bytes(fs_type));
        disk.make_filesystem(fs_type);
        disk.mounted(|root| {
            for (name, content) in files {
                std::fs::write(root.join(name), content).expect("a file on the disk");
            }
        });
        disk
    }

    pub fn device(&self) -> &Path {
        self.device.path()
    }

    pub fn attachment(&self) -> &Loop {
        &self.device
    }

    pub fn image(&self) -> &Path {
        &self.image
    }

    pub fn make_filesystem(&self, fs_type: &str) {
        let quiet = if fs_type == "ext4" { "-Fq" } else { "-fq" };
        run(&format!("mkfs.{fs_type}"), &[quiet, path_str(self.device())]);
    }

    /// Mounts the disk for as long as `work` runs.
    pub fn mounted<T>(&self, work: impl FnOnce(&Path) -> T) -> T {
        let root = tempfile::tempdir().expect("a mount point");
        run("mount", &[path_str(self.device()), path_str(root.path())]);
        let done = work(root.path());
        run("umount", &[path_str(root.path())]);
        done
    }

    /// Overwrites a range of the *device*, so that its readers see it at once.
    pub fn write_at(&self, offset_bytes: u64, content: &[u8]) {
        let device = OpenOptions::new().write(true).open(self.device()).expect("the device");
        device.write_all_at(content, offset_bytes).expect("a write to the device");
        device.sync_all().expect("the device to sync");
    }

    pub fn zero(&self, offset_bytes: u64, length_bytes: usize) {
        self.write_at(offset_bytes, &vec![0; length_bytes]);
    }

    pub fn read_at(&self, offset_bytes: u64, length_bytes: usize) -> Vec<u8> {
        let mut content = vec![0; length_bytes];
        let device = File::open(self.device()).expect("the device");
        device.read_exact_at(&mut content, offset_bytes).expect("a read from the device");
        content
    }

    /// SHA-256 of the whole device.
    pub fn hash(&self) -> String {
        let mut device = File::open(self.device()).expect("the device");
        let (mut hasher, mut buffer) = (Sha256::new(), vec![0; MIB as usize]);
        loop {
            match device.read(&mut buffer).expect("a read from the device") {
                0 => return hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect(),
                length => hasher.update(&buffer[..length]),
            }
        }
    }

    /// Makes image and device larger, as an expanded volume is.
    pub fn grow_to(&self, size_bytes: u64) {
        OpenOptions::new()
            .write(true)
            .open(&self.image)
            .and_then(|image| image.set_len(size_bytes))
            .expect("a larger image");
        run("losetup", &["-c", path_str(self.device())]);
    }
}

/// A size each tool still makes a filesystem of: mkfs.xfs wants 300 MiB, mkfs.btrfs 109 MiB.
pub fn smallest_bytes(fs_type: &str) -> u64 {
    match fs_type {
        "xfs" => 320 * MIB,
        "btrfs" => 128 * MIB,
        _ => 32 * MIB,
    }
}

/// Runs a tool that has to succeed and returns what it printed.
pub fn run(tool: &str, args: &[&str]) -> String {
    let done = Command::new(tool).args(args).env("LC_ALL", "C").output().expect(tool);
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{tool} {args:?}: {}: {said}{complaint}", done.status);
    said
}

pub fn path_str(path: &Path) -> &str {
    path.to_str().expect("test paths are text")
}
