//! Calls that went to the plugin and were not answered yet, one small file each.
//!
//! The files must survive the guard's own death and nothing more: a node that went down took the
//! plugin's work with it. So they are named for the boot, and never fsynced.

#![expect(clippy::disallowed_methods, reason = "host/ is the room that touches files")]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use sha2::{Digest, Sha256};

use super::HostError;
use crate::facts::call::{Effect, SentCall};

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

pub(super) fn record(dir: &Path, call: &SentCall) -> Result<(), HostError> {
    let text = serde_json::to_vec(call).expect("two names, a path and numbers always serialize");
    let path = file_of(dir, call)?;
    match fs::write(&path, &text) {
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => {
            let parent = path.parent().unwrap_or(dir);
            fs::create_dir_all(parent)
                .map_err(|source| HostError::Create { path: parent.into(), source })?;
            fs::write(&path, &text)
        }
        written => written,
    }
    .map_err(|source| HostError::Write { path, source })
}

pub(super) fn erase(dir: &Path, call: &SentCall) -> Result<(), HostError> {
    let path = file_of(dir, call)?;
    match fs::remove_file(&path) {
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(|source| HostError::Remove { path, source }),
    }
}

/// The records of this boot. Those of earlier boots are removed afterwards, where they can be: a
/// disk that has become read-only must not cost the memory of this one.
pub(super) fn read_all(dir: &Path) -> Result<Vec<SentCall>, HostError> {
    let boot = boot_dir(dir)?;
    let texts = list(&boot)?.into_iter().filter_map(|path| fs::read(path).ok());
    let calls = texts.filter_map(|text| serde_json::from_slice(&text).ok()).collect();
    for other in list(dir)?.into_iter().filter(|path| *path != boot) {
        // Left behind it is in nobody's way: it is never read again.
        let _ = fs::remove_dir_all(&other);
    }
    Ok(calls)
}

fn list(dir: &Path) -> Result<Vec<PathBuf>, HostError> {
    let read = |source| HostError::Read { path: dir.into(), source };
    match fs::read_dir(dir) {
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        entries => entries
            .map_err(read)?
            .map(|entry| entry.map(|entry| entry.path()).map_err(read))
            .collect(),
    }
}

fn boot_dir(dir: &Path) -> Result<PathBuf, HostError> {
    Ok(dir.join(read_boot()?))
}

/// What this boot of the node is called. It does not change while a process lives.
pub(super) fn read_boot() -> Result<&'static str, HostError> {
    static BOOT: OnceLock<String> = OnceLock::new();
    if let Some(boot) = BOOT.get() {
        return Ok(boot);
    }
    let boot = fs::read_to_string(BOOT_ID)
        .map_err(|source| HostError::Read { path: BOOT_ID.into(), source })?;
    Ok(BOOT.get_or_init(|| boot.trim().to_owned()))
}

/// A digest names the file: a volume id and a path together may be longer than a file name.
fn file_of(dir: &Path, call: &SentCall) -> Result<PathBuf, HostError> {
    let mut hash = Sha256::new();
    hash.update(call.volume.as_str());
    hash.update([0]);
    hash.update(call.path.as_os_str().as_encoded_bytes());
    // A mount and an unmount of one path can both be in doubt.
    hash.update(match call.method.effect() {
        Effect::Mounts => [0, b'm'],
        Effect::Unmounts => [0, b'u'],
        Effect::Neither => [0, b'n'],
    });
    let name: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(boot_dir(dir)?.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::call::Method;
    use crate::volume::VolumeId;

    fn call(volume: &str, path: &str) -> SentCall {
        let volume = VolumeId::parse(volume).unwrap();
        SentCall { volume, method: Method::Stage, path: path.into(), plugin: None }
    }

    fn call_of(method: Method) -> SentCall {
        SentCall { method, ..call("pvc-1", "/k/globalmount") }
    }

    #[test]
    fn what_is_recorded_is_read_back_until_it_is_erased() {
        let dir = tempfile::tempdir().unwrap();
        let dir = &dir.path().join("state/sent");
        assert_eq!(read_all(dir).unwrap(), []);
        let (one, other) = (call("v", "/one"), call("v", "/other"));
        for sent in [&one, &other, &one] {
            record(dir, sent).unwrap();
        }
        assert_eq!(read_all(dir).unwrap().len(), 2);
        erase(dir, &one).unwrap();
        assert_eq!(read_all(dir).unwrap(), [other]);
        erase(dir, &one).unwrap();
    }

    #[test]
    fn the_longest_names_fit() {
        let dir = tempfile::tempdir().unwrap();
        let long = call(&"v".repeat(253), &format!("/{}", "p/".repeat(2040)));
        record(dir.path(), &long).unwrap();
        assert_eq!(read_all(dir.path()).unwrap(), [long]);
    }

    #[test]
    fn records_of_another_boot_are_removed_and_torn_ones_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let old = dir.path().join("another-boot");
        fs::create_dir(&old).unwrap();
        fs::write(old.join("record"), "{}").unwrap();
        record(dir.path(), &call("v", "/one")).unwrap();
        let here = boot_dir(dir.path()).unwrap();
        fs::write(here.join("empty"), "").unwrap();
        fs::write(here.join("climbs"), r#"{"volume":"../x","method":"Stage","path":"/"}"#).unwrap();
        assert_eq!(read_all(dir.path()).unwrap(), [call("v", "/one")]);
        assert!(!old.exists());
    }

    #[test]
    fn a_mount_and_an_unmount_of_one_path_are_two_records() {
        let dir = tempfile::tempdir().unwrap();
        record(dir.path(), &call_of(Method::Stage)).unwrap();
        record(dir.path(), &call_of(Method::Stage)).unwrap();
        record(dir.path(), &call_of(Method::Unstage)).unwrap();
        assert_eq!(read_all(dir.path()).unwrap().len(), 2);
        erase(dir.path(), &call_of(Method::Unstage)).unwrap();
        assert_eq!(read_all(dir.path()).unwrap(), [call_of(Method::Stage)]);
    }

    #[test]
    fn what_cannot_be_removed_does_not_hide_the_records_of_this_boot() {
        let dir = tempfile::tempdir().unwrap();
        record(dir.path(), &call_of(Method::Stage)).unwrap();
        fs::create_dir(dir.path().join("another-boot")).unwrap();
        fs::write(dir.path().join("no-directory"), "").unwrap();
        assert_eq!(read_all(dir.path()).unwrap(), [call_of(Method::Stage)]);
        assert!(!dir.path().join("another-boot").exists());
    }
}
