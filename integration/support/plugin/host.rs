//! What outlives the plugin's process: the kernel's mounts and mapped devices.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use tempfile::TempDir;

use crate::support::disk::Loop;
use crate::support::mounts;

/// The node's state that a restart of the plugin leaves alone.
#[derive(Debug)]
pub struct Host {
    mapper_dir: TempDir,
    mapped: Mutex<HashMap<String, Mapped>>,
    mounted: Mutex<Vec<PathBuf>>,
}

/// An opened encrypted volume.
#[derive(Debug)]
struct Mapped {
    plain: Loop,
    link: PathBuf,
    /// dm-crypt claims the device it maps; so does this descriptor.
    _claim: File,
}

impl Default for Host {
    fn default() -> Self {
        Self {
            mapper_dir: tempfile::tempdir().expect("a directory for mapped devices"),
            mapped: Mutex::default(),
            mounted: Mutex::default(),
        }
    }
}

impl Host {
    pub fn mapper_dir(&self) -> &Path {
        self.mapper_dir.path()
    }

    /// Maps what lies behind the header of `device` under the name `name`; the plain device is
    /// returned.
    ///
    /// # Errors
    /// The device is claimed by somebody else.
    pub fn map(
        &self,
        volume: &str,
        name: &str,
        device: &Path,
        offset_bytes: u64,
    ) -> std::io::Result<PathBuf> {
        let mut mapped = self.mapped.lock().expect("mapped devices");
        if let Some(open) = mapped.get(volume) {
            return Ok(open.plain.path().to_owned());
        }
        let exclusive = nix::libc::O_EXCL;
        let claim = OpenOptions::new().read(true).custom_flags(exclusive).open(device)?;
        let plain = Loop::over_rest_of(device, offset_bytes);
        let path = plain.path().to_owned();
        let link = self.mapper_dir().join(name);
        symlink(&path, &link)?;
        mapped.insert(volume.to_owned(), Mapped { plain, link, _claim: claim });
        Ok(path)
    }

    /// Whether there was something to unmap.
    pub fn unmap(&self, volume: &str) -> bool {
        let closed = self.mapped.lock().expect("mapped devices").remove(volume);
        closed.is_some_and(|open| std::fs::remove_file(open.link).is_ok())
    }

    pub fn is_mapped(&self, volume: &str) -> Option<PathBuf> {
        let mapped = self.mapped.lock().expect("mapped devices");
        mapped.get(volume).map(|open| open.plain.path().to_owned())
    }

    pub fn note_mount(&self, target: &Path) {
        self.mounted.lock().expect("mounts").push(target.to_owned());
    }

    /// Takes away every mount the plugin made, the newest first, and every mapped device.
    pub fn clean_up(&self) {
        let targets = std::mem::take(&mut *self.mounted.lock().expect("mounts"));
        targets.iter().rev().for_each(|target| mounts::clear(target));
        self.mapped.lock().expect("mapped devices").clear();
    }
}
