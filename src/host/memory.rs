//! What is remembered of each volume: one file each, in `volumes/` of the state directory.
//!
//! A file is replaced, never changed: written beside, fsynced, renamed, and the directory fsynced.
//! So it is the old or the new one, whenever the guard or the node dies. Writers take turns by a
//! lock on the directory, because the commands write beside a running guard.

#![expect(clippy::disallowed_methods, reason = "host/ is the room that touches files")]

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg, OFlag};
use sha2::{Digest, Sha256};

use super::HostError;
use crate::facts::memory::{Event, Record, Remembered, Unreadable};
use crate::volume::VolumeId;

/// The longest volume id that is used as a file name as it is, in bytes: `.json` makes it 255.
const MAX_PLAIN_NAME_BYTES: usize = 250;

/// The largest record that is read, in bytes: a hundred times what one has.
const MAX_RECORD_BYTES: u64 = 65_536;

/// Where the next record is written; no volume's file has a `~` in such a place.
const PART: &str = "~part";

/// What is known of `volume`.
///
/// # Errors
/// The state directory cannot be looked into. A record that is there and cannot be read is
/// [`Remembered::Unreadable`].
pub fn recall(state_dir: &Path, volume: &VolumeId) -> Result<Remembered, HostError> {
    let path = volumes(state_dir).join(file_name(volume));
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW;
    let opened = OpenOptions::new().read(true).custom_flags(flags.bits()).open(&path);
    let file = match opened {
        Ok(file) => file,
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => {
            return Ok(Remembered::Nothing);
        }
        // A link has no business there; whatever it is, it stands for a record.
        Err(link) if link.raw_os_error() == Some(nix::errno::Errno::ELOOP as i32) => {
            return Ok(Remembered::Unreadable(Unreadable::NotRead));
        }
        Err(source) => return Err(HostError::Read { path, source }),
    };
    let mut bytes = Vec::new();
    Ok(match file.take(MAX_RECORD_BYTES).read_to_end(&mut bytes) {
        Ok(_) => Remembered::parse(&bytes),
        Err(_) => Remembered::Unreadable(Unreadable::NotRead),
    })
}

/// Remembers that `event` happened to `volume`. Returns once it is on disk.
///
/// # Errors
/// It could not be written; what was remembered before still is.
pub fn remember(state_dir: &Path, volume: &VolumeId, event: &Event) -> Result<(), HostError> {
    let dir = volumes(state_dir);
    let locked = lock(&dir)?;
    let before = recall(state_dir, volume)?;
    let after = before.clone().into_record().after(event);
    if before == Remembered::Record(after.clone()) {
        return Ok(());
    }
    replace(&dir, &locked, &file_name(volume), &after)
}

/// Forgets `volume`, and remembers that what is on it was given up. Tells whether there was
/// something to forget.
///
/// # Errors
/// It could not be forgotten; or it is, and that it was given up could not be written.
pub fn forget(state_dir: &Path, volume: &VolumeId) -> Result<bool, HostError> {
    let dir = volumes(state_dir);
    let given_up = Record::default().after(&Event::Forgotten);
    let locked = lock(&dir)?;
    let before = recall(state_dir, volume)?;
    if before == Remembered::Record(given_up.clone()) {
        return Ok(false);
    }
    // Removed first: that makes the room which the new one takes.
    let path = dir.join(file_name(volume));
    match fs::remove_file(&path) {
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => {}
        removed => removed.map_err(|source| HostError::Remove { path, source })?,
    }
    replace(&dir, &locked, &file_name(volume), &given_up)?;
    Ok(before != Remembered::Nothing)
}

/// Counts the checks that were under way when the last run of the guard ended. To be called once,
/// before the first check.
///
/// # Errors
/// The records could not be listed, or one not be written.
pub fn resume(state_dir: &Path, boot: &str) -> Result<(), HostError> {
    let dir = volumes(state_dir);
    let read = |source| HostError::Read { path: dir.clone(), source };
    let entries = match fs::read_dir(&dir) {
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(read)?,
    };
    let locked = lock(&dir)?;
    for entry in entries {
        let name = entry.map_err(read)?.file_name();
        let bytes = fs::read(dir.join(&name)).unwrap_or_default();
        let Remembered::Record(record) = Remembered::parse(&bytes) else { continue };
        if record.running.is_some() && name != PART {
            replace(&dir, &locked, &name.to_string_lossy(), &record.resumed(boot))?;
        }
    }
    Ok(())
}

fn volumes(state_dir: &Path) -> PathBuf {
    state_dir.join("volumes")
}

/// A name longer than a file's may be is told by its digest; `~` is in no volume id.
fn file_name(volume: &VolumeId) -> String {
    let id = volume.as_str();
    if id.len() <= MAX_PLAIN_NAME_BYTES {
        return format!("{id}.json");
    }
    let digest: String = Sha256::digest(id).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}~{digest}.json", &id[..64])
}

/// The directory, made if it is not there, and ours until dropped.
fn lock(dir: &Path) -> Result<Flock<File>, HostError> {
    let create = |source| HostError::Create { path: dir.into(), source };
    let opened = match File::open(dir) {
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => {
            fs::create_dir_all(dir).map_err(create)?;
            sync_parents(dir).map_err(create)?;
            File::open(dir)
        }
        opened => opened,
    };
    let file = opened.map_err(|source| HostError::Read { path: dir.into(), source })?;
    Flock::lock(file, FlockArg::LockExclusive)
        .map_err(|(_, errno)| HostError::Write { path: dir.into(), source: errno.into() })
}

/// Makes the directory itself last, and the state directory that it may have been made with.
fn sync_parents(dir: &Path) -> io::Result<()> {
    dir.ancestors().skip(1).take(2).try_for_each(|parent| File::open(parent)?.sync_all())
}

fn replace(dir: &Path, locked: &File, name: &str, record: &Record) -> Result<(), HostError> {
    let part = dir.join(PART);
    let path = dir.join(name);
    let written = write_part(&part, &record.to_bytes()).and_then(|()| fs::rename(&part, &path));
    written.map_err(|source| {
        // It takes room that a full disk does not have; the next write would replace it too.
        let _ = fs::remove_file(&part);
        HostError::Write { path: path.clone(), source }
    })?;
    locked.sync_all().map_err(|source| HostError::Write { path, source })
}

fn write_part(part: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(part)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::memory::Held;

    fn volume(id: &str) -> VolumeId {
        VolumeId::parse(id).unwrap()
    }

    fn seen() -> Event {
        Event::Seen(Held { name: "ext4".to_owned(), uuid: None })
    }

    #[test]
    fn what_is_remembered_is_recalled_until_it_is_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let state_dir = dir.path().join("a/b");
        let longest = "v".repeat(253);
        for id in ["pvc-1", ".hidden", longest.as_str()] {
            let volume = volume(id);
            assert_eq!(recall(&state_dir, &volume).unwrap(), Remembered::Nothing);
            remember(&state_dir, &volume, &seen()).unwrap();
            let record = Record::default().after(&seen());
            assert_eq!(recall(&state_dir, &volume).unwrap(), Remembered::Record(record));
            assert!(forget(&state_dir, &volume).unwrap());
            let given_up = Record { format_allowed: true, ..Record::default() };
            assert_eq!(recall(&state_dir, &volume).unwrap(), Remembered::Record(given_up.clone()));
            remember(&state_dir, &volume, &seen()).unwrap();
            let record = given_up.after(&seen());
            assert!(!record.format_allowed);
            assert_eq!(recall(&state_dir, &volume).unwrap(), Remembered::Record(record));
        }
    }

    #[test]
    fn a_damaged_record_is_known_to_have_held_data_until_it_is_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let volume = volume("pvc-1");
        remember(dir.path(), &volume, &seen()).unwrap();
        let path = dir.path().join("volumes/pvc-1.json");
        let damages: [fn(&Path); 5] = [
            |path| fs::write(path, "").unwrap(),
            |path| fs::write(path, "{\"version\":1,\"crc").unwrap(),
            |path| fs::write(path, "{\"version\":9}").unwrap(),
            |path| std::os::unix::fs::symlink("/dev/zero", path).unwrap(),
            |path| fs::create_dir(path).unwrap(),
        ];
        for damage in damages {
            fs::remove_file(&path).unwrap();
            damage(&path);
            let recalled = recall(dir.path(), &volume).unwrap();
            assert!(matches!(recalled, Remembered::Unreadable(_)), "{recalled:?}");
            if path.is_dir() {
                continue;
            }
            remember(dir.path(), &volume, &Event::Recheck).unwrap();
            let record = recall(dir.path(), &volume).unwrap().into_record();
            assert_eq!(record.held, Some(Held::lost()));
            assert!(record.marks.recheck);
        }
    }

    #[test]
    fn a_state_directory_that_is_none_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(recall(&file, &volume("v")).is_err());
        assert!(remember(&file, &volume("v"), &seen()).is_err());
        assert!(forget(&file, &volume("v")).is_err());
    }

    #[test]
    fn a_check_under_way_in_this_boot_is_counted_once() {
        use crate::facts::memory::{Kills, Running, Stage};
        let dir = tempfile::tempdir().unwrap();
        let running = Running { boot: "now".to_owned(), stage: Stage::Check };
        remember(dir.path(), &volume("v"), &Event::CheckBegan(running)).unwrap();
        resume(dir.path(), "now").unwrap();
        resume(dir.path(), "now").unwrap();
        let record = recall(dir.path(), &volume("v")).unwrap().into_record();
        assert_eq!(record.kills, Kills { check: 1, repair: 0 });
    }
}
