//! What is remembered of volumes, on real disks and under a guard that is killed.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use mount_guard::facts::memory::{Event, Held, Record, Remembered};
use mount_guard::host::HostError;
use mount_guard::host::memory::{forget, recall, remember};
use mount_guard::volume::VolumeId;
use nix::mount::{MsFlags, mount, umount};

pub fn tests() -> Vec<libtest_mimic::Trial> {
    crate::tests![
        a_record_is_the_old_or_the_new_one_whenever_the_writer_is_killed,
        the_commands_forget_and_recheck,
        loop_a_full_disk_keeps_what_was_remembered,
        loop_a_read_only_disk_is_an_error_and_still_read,
    ]
}

/// How often the writer is killed. 200: each kill lands somewhere else in some 100 us of writing.
const KILLS: u32 = 200;

fn volume() -> VolumeId {
    VolumeId::parse("pvc-1").unwrap()
}

fn seen() -> Event {
    Event::Seen(Held { name: "ext4".to_owned(), uuid: None })
}

fn forwarded(at_seconds: u64) -> Event {
    Event::FormatForwarded { at_seconds }
}

/// The program `memory-writer DIR FROM`: remembers one number after the other, and says each that
/// is on disk.
pub fn write(mut words: impl Iterator<Item = OsString>) -> ExitCode {
    let dir = words.next().expect("a directory");
    let from = words.next().expect("a number");
    let from: u64 = from.to_str().and_then(|text| text.parse().ok()).expect("a number");
    let mut stdout = std::io::stdout();
    for number in from.. {
        remember(Path::new(&dir), &volume(), &forwarded(number)).expect("it can be written");
        if writeln!(stdout, "{number}").and_then(|()| stdout.flush()).is_err() {
            break;
        }
    }
    ExitCode::SUCCESS
}

fn a_record_is_the_old_or_the_new_one_whenever_the_writer_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let mut last = 0;
    for kill in 0..KILLS {
        let program = std::env::current_exe().unwrap();
        let mut writer = Command::new(program)
            .args([OsString::from("memory-writer"), dir.path().into()])
            .arg((last + 1).to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(writer.stdout.take().unwrap()).lines();
        let first = said.next().unwrap().unwrap();
        // A number that shares no factor with the length of a write: every moment has its turn.
        std::thread::sleep(Duration::from_micros(u64::from(kill) * 37 % 3000));
        writer.kill().unwrap();
        writer.wait().unwrap();
        let acknowledged = said.map_while(Result::ok).last().unwrap_or(first);
        let acknowledged: u64 = acknowledged.parse().unwrap();
        let recalled = recall(dir.path(), &volume()).unwrap();
        let record = |number| Remembered::Record(Record::default().after(&forwarded(number)));
        assert!(
            [record(acknowledged), record(acknowledged + 1)].contains(&recalled),
            "kill {kill}: {acknowledged} was on disk, and now {recalled:?}"
        );
        last = acknowledged + 1;
    }
    assert!(last > u64::from(KILLS), "the writer wrote between its deaths");
}

fn the_commands_forget_and_recheck() {
    let dir = tempfile::tempdir().unwrap();
    let run = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mount-guard"));
        let output = command.args(words).arg("--state-dir").arg(dir.path()).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    };
    remember(dir.path(), &volume(), &seen()).unwrap();
    let (exit, text) = run(&["recheck", "pvc-1"]);
    assert_eq!(exit, Some(0), "{text}");
    let record = recall(dir.path(), &volume()).unwrap().into_record();
    assert!(record.marks.recheck && record.held.is_some(), "{record:?}");
    for said in ["is forgotten", "nothing was remembered"] {
        let (exit, text) = run(&["forget", "pvc-1"]);
        assert_eq!(exit, Some(0), "{text}");
        assert!(text.contains(said), "{text}");
        let record = recall(dir.path(), &volume()).unwrap().into_record();
        assert_eq!(record, Record::default().after(&Event::Forgotten));
    }
    assert_eq!(run(&["forget", "../pvc-1"]).0, Some(2));
    assert_eq!(run(&["recheck"]).0, Some(2));
    std::fs::remove_dir_all(dir.path().join("volumes")).unwrap();
    std::fs::write(dir.path().join("volumes"), "no directory").unwrap();
    for command in ["forget", "recheck"] {
        let (exit, text) = run(&[command, "pvc-1"]);
        assert_eq!(exit, Some(1), "{text}");
        assert!(text.starts_with("mount-guard: cannot ") && text.contains("volumes"), "{text}");
    }
}

/// A small filesystem in memory, gone when dropped.
struct Tmpfs(tempfile::TempDir);

impl Tmpfs {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let options = Some("size=64k");
        mount(Some("tmpfs"), dir.path(), Some("tmpfs"), MsFlags::empty(), options).unwrap();
        Self(dir)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = umount(self.path());
    }
}

fn loop_a_full_disk_keeps_what_was_remembered() {
    let disk = Tmpfs::new();
    remember(disk.path(), &volume(), &seen()).unwrap();
    let filler = std::fs::write(disk.path().join("filler"), vec![1; 1 << 20]);
    assert!(filler.is_err(), "the disk is full");
    let full = remember(disk.path(), &volume(), &Event::Recheck);
    assert!(matches!(full, Err(HostError::Write { .. })), "{full:?}");
    let record = Record::default().after(&seen());
    assert_eq!(recall(disk.path(), &volume()).unwrap(), Remembered::Record(record));
    assert!(forget(disk.path(), &volume()).unwrap(), "to forget takes no room");
    std::fs::remove_file(disk.path().join("filler")).unwrap();
    remember(disk.path(), &volume(), &seen()).unwrap();
}

fn loop_a_read_only_disk_is_an_error_and_still_read() {
    let disk = Tmpfs::new();
    remember(disk.path(), &volume(), &seen()).unwrap();
    let flags = MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
    mount(None::<&str>, disk.path(), None::<&str>, flags, None::<&str>).unwrap();
    let written = remember(disk.path(), &volume(), &Event::Incident);
    assert!(matches!(written, Err(HostError::Write { .. })), "{written:?}");
    // What is remembered already needs no writing.
    remember(disk.path(), &volume(), &seen()).unwrap();
    let forgotten = forget(disk.path(), &volume());
    assert!(matches!(forgotten, Err(HostError::Remove { .. })), "{forgotten:?}");
    let record = Record::default().after(&seen());
    assert_eq!(recall(disk.path(), &volume()).unwrap(), Remembered::Record(record));
}
