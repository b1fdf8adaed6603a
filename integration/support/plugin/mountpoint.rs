//! Mount points as longhorn-csi-plugin looks after them (`csi/util.go`, k8s.io/mount-utils).

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;

use super::process::Life;
use super::tools::Ended;
use crate::support::disk::path_str;
use crate::support::mounts;

/// The file the write test makes, and leaves nothing of.
const TEST_FILE: &str = ".longhorn-volume-mount-point-test.tmp";

/// After this the plugin adds `-f` to its umount (`unmountTimeout`).
const UMOUNT_PATIENCE: Duration = Duration::from_secs(30);

/// Errors of stat(2) that mean "corrupt" to k8s.io/mount-utils.
const CORRUPT: [Errno; 7] = [
    Errno::ENOTCONN,
    Errno::ESTALE,
    Errno::EIO,
    Errno::EACCES,
    Errno::EHOSTDOWN,
    Errno::EWOULDBLOCK,
    Errno::ENODEV,
];

impl Life {
    /// Whether something healthy is mounted at `path`. What is not healthy is unmounted and
    /// counts as not mounted; what is not there is made.
    ///
    /// # Errors
    /// A text, as the plugin puts it into its INTERNAL.
    pub async fn ensure_mount_point(&self, volume: &str, path: &Path) -> Result<bool, String> {
        let corrupt = match stat(path).await {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let made = std::fs::create_dir_all(path);
                return made.map(|()| false).map_err(|error| error.to_string());
            }
            Err(error) if is_corrupt(&error) => Some(error),
            Err(error) => return Err(error.to_string()),
            Ok(()) if self.habits().write_test_in_ensure_mount_point => self.write_test(path).await,
            Ok(()) => None,
        };
        let Some(why) = corrupt else { return Ok(mounts::is_mounted(path)) };
        match self.unmount(volume, path).await {
            Ok(()) => Ok(false),
            Err(error) => Err(format!(
                "failed to unmount corrupt mount point {} umount error: {error} eval error: {why}",
                path.display()
            )),
        }
    }

    /// A full or read-only filesystem fails this as a dead one does, and a bare directory passes.
    async fn write_test(&self, path: &Path) -> Option<io::Error> {
        let dir = path.to_owned();
        let tried = tokio::task::spawn_blocking(move || sync_directory(&dir)).await;
        let error = tried.expect("the write test").err()?;
        self.shared.counts.note_failed_write_test();
        Some(error)
    }

    /// Unmounts once; what is not mounted is fine. Busy or hung: by force, then lazily.
    ///
    /// # Errors
    /// What umount(8) said at last.
    pub async fn unmount(&self, volume: &str, path: &Path) -> Result<(), String> {
        let path = path_str(path);
        let args = [path];
        let plain = self.run(volume, "umount", &args);
        let ended = match tokio::time::timeout(UMOUNT_PATIENCE, plain).await {
            Ok(ended) => ended,
            Err(_) => self.run(volume, "umount", &["-f", path]).await,
        };
        if is_unmounted(&ended) {
            return Ok(());
        }
        let lazy = self.run(volume, "umount", &["-l", path]).await;
        if is_unmounted(&lazy) { Ok(()) } else { Err(lazy.output) }
    }

    /// Unmounts `path` and removes the directory or file it was.
    ///
    /// # Errors
    /// What umount(8) or rmdir(2) said.
    pub async fn unmount_and_remove(&self, volume: &str, path: &Path) -> Result<(), String> {
        match stat(path).await {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Ok(()) | Err(_) => self.unmount(volume, path).await?,
        }
        let is_dir = std::fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir());
        let removed = if is_dir { std::fs::remove_dir(path) } else { std::fs::remove_file(path) };
        removed.map_err(|error| format!("remove {}: {error}", path.display()))
    }

    /// Runs mount(8) and remembers the target for the clean-up.
    ///
    /// # Errors
    /// The plugin's wording of mount(8)'s failure.
    pub async fn mount(&self, volume: &str, target: &Path, args: &[&str]) -> Result<(), String> {
        let ended = self.run(volume, "mount", args).await;
        if ended.is_ok() {
            self.shared.host.note_mount(target);
            return Ok(());
        }
        Err(format!(
            "mount failed: {}\nMounting command: mount\nMounting arguments: {}\nOutput: {}",
            ended.status(),
            args.join(" "),
            ended.output
        ))
    }
}

/// stat(2), off the runtime's threads: it may hang on a dead device.
async fn stat(path: &Path) -> io::Result<()> {
    tokio::fs::metadata(path).await.map(drop)
}

fn is_corrupt(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(|raw| CORRUPT.contains(&Errno::from_raw(raw)))
}

fn is_unmounted(ended: &Ended) -> bool {
    let harmless = ["not mounted", "no mount point specified"];
    ended.is_ok() || harmless.iter().any(|words| ended.output.contains(words))
}

fn sync_directory(dir: &Path) -> io::Result<()> {
    let opened = File::open(dir)?;
    if let Some(entry) = std::fs::read_dir(dir)?.next() {
        entry?;
    }
    let test = dir.join(TEST_FILE);
    let written = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .custom_flags(nix::libc::O_SYNC)
        .open(&test)
        .and_then(|mut file| file.write_all(b"test"));
    let removed = std::fs::remove_file(&test);
    drop(opened);
    written.and(removed)
}
