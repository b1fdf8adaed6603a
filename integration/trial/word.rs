//! `integration run-trial DEVICE STATE [WORDS] -- e2fsck ARGS`: one trial from begin to apply, in a
//! process that a test may kill.
//!
//! Words: `bare-dev` (a `/dev` with nothing but `null` in it), `private`, `memory`, `undo`, `discard` (no apply), `timing`, `crash=N` (abort in the N-th
//! step of the apply), `replay` (let the kernel replay an xfs log first), `redo` (do again what is pending instead), `undo-record` (put it back).

use std::path::Path;
use std::time::{Duration, Instant};

use mount_guard::facts::tool::End;
use mount_guard::host::tool::{Cancel, Tool};
use mount_guard::host::trial::{
    Apply, HeldDevice, HoldError, Identity, Mark, Mounting, Quota, Room, Step, Trials,
};
use mount_guard::volume::{FsType, VolumeId};

/// What all trials of the tests are of.
pub const VOLUME: &str = "pvc-trial";
const QUOTA_BYTES: u64 = 2 << 30;
const DEADLINE: Duration = Duration::from_secs(300);

pub fn volume() -> VolumeId {
    VolumeId::parse(VOLUME).unwrap()
}

pub fn identity() -> Identity {
    Identity { volume: VOLUME.into(), fs_uuid: None }
}

/// An apply as the guard makes it: the superblock last, and marked before.
pub fn apply_of(mark: Option<Mark>, keep_undo: bool) -> Apply {
    Apply { fs_uuid: None, marks: mark.into_iter().collect(), last: vec![1024], keep_undo }
}

/// The superblock as it would say of itself "not clean": here only a text nobody reads, the
/// volume's label, so that e2fsck finds what it would find without.
pub fn mark() -> Mark {
    Mark { offset: 1024 + 0x78, bytes: b"needs a check\0\0\0".to_vec() }
}

/// Holds a disk of the test's. Tests that run beside this one fork, and each of their children has
/// a copy of our descriptors for a moment.
pub fn hold(path: &Path) -> HeldDevice {
    let begun = Instant::now();
    loop {
        match HeldDevice::hold(path) {
            Err(HoldError::InUse { .. }) if begun.elapsed() < Duration::from_secs(2) => {
                std::thread::sleep(Duration::from_millis(1));
            }
            held => return held.unwrap(),
        }
    }
}

pub fn trials(state: &Path) -> Trials {
    Trials::open(state, Quota::new(QUOTA_BYTES)).unwrap()
}

/// Aborts the process in the step that is asked for: SIGKILL's work, at a place of our choice.
pub fn crash_at(number: Option<u32>) -> impl FnMut(Step) {
    let mut steps = 0;
    move |step| {
        steps += 1;
        if Some(steps) == number {
            eprintln!("crash in step {steps}: {step:?}");
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)
                .unwrap();
            std::thread::sleep(DEADLINE);
        }
    }
}

/// Takes hold of the device. Whoever was killed just now may have left a child that has not
/// executed its tool yet, and still has the descriptor.
fn hold_soon(device: &Path) -> HeldDevice {
    for _ in 0..200 {
        match HeldDevice::hold(device) {
            Err(HoldError::InUse { .. }) => std::thread::sleep(Duration::from_millis(10)),
            held => return held.unwrap(),
        }
    }
    panic!("{} is held", device.display());
}

pub fn run(args: &[String]) {
    let (device, state) = (Path::new(&args[0]), Path::new(&args[1]));
    let split = args.iter().position(|arg| arg == "--").unwrap_or(args.len());
    let (words, checker) = (&args[2..split], &args[(split + 1).min(args.len())..]);
    let has = |word: &str| words.iter().any(|given| given == word);
    let number = |key: &str| words.iter().find_map(|word| word.strip_prefix(key)?.parse().ok());
    let mut crash = crash_at(number("crash="));
    if has("bare-dev") {
        empty_dev();
    }
    let trials = trials(state);
    let held = hold_soon(device);
    if has("redo") {
        for pending in trials.pending().unwrap() {
            trials.redo(&pending, &held, &identity(), &mut crash).unwrap();
        }
        return;
    }
    if has("undo-record") {
        let record = trials.undo_records().unwrap().remove(0);
        trials.undo(&record, &held, &identity(), &mut crash).unwrap();
        return;
    }
    let mounting = if has("private") { Mounting::Private } else { Mounting::Detached };
    let room = match has("memory") {
        true => Room::Memory { limit_bytes: 256 << 20 },
        false => Room::StateDir,
    };
    let begun = Instant::now();
    let mut trial = trials.begin(volume(), held, room, mounting).unwrap();
    let set_up = begun.elapsed();
    let cancel = Cancel::new().unwrap();
    if has("replay") {
        let fs = FsType::parse("xfs").unwrap();
        trial = trial.replay(&fs, DEADLINE, &cancel).unwrap().0;
    }
    let mut tool = Tool::new("/sbin/e2fsck", DEADLINE).args(checker).arg(trial.path());
    if let Some(now) = std::env::var_os("E2FSCK_TIME") {
        tool = tool.environment("E2FSCK_TIME", now);
    }
    let exit = trial.run(tool, &cancel).unwrap();
    // What a checker left that did not end by itself is nobody's repair.
    let End::Exited(code) = exit.end else { panic!("{exit:?}") };
    let checked = begun.elapsed();
    let difference = trial.finish().unwrap();
    let compared = begun.elapsed();
    let changed_bytes = difference.changed_bytes();
    if !has("discard") {
        difference.apply(&apply_of(Some(mark()), has("undo")), &mut crash).unwrap();
    }
    if has("timing") {
        let applied = begun.elapsed();
        println!(
            "set-up {set_up:?} check {:?} compare {:?} apply {:?} changed {changed_bytes} B, rss {}",
            checked - set_up,
            compared - checked,
            applied - compared,
            peak_rss(),
        );
    }
    std::process::exit(code);
}

/// Only this process sees it: it has a mount namespace of its own.
fn empty_dev() {
    use nix::sys::stat::{Mode, SFlag, makedev, mknod};
    let flags = nix::mount::MsFlags::empty();
    nix::mount::mount(Some("none"), "/dev", Some("tmpfs"), flags, None::<&str>).unwrap();
    mknod("/dev/null", SFlag::S_IFCHR, Mode::from_bits_truncate(0o666), makedev(1, 3)).unwrap();
}

fn peak_rss() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().skip(1).collect::<Vec<_>>().join(" ")
}
