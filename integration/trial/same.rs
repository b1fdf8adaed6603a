//! A repair by way of a trial is the repair a direct run makes.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use mount_guard::facts::tool::End;
use mount_guard::host::tool::{Cancel, Tool};
use mount_guard::host::trial::{Mounting, Room, Trial};

use super::disks::{DAMAGES, Lab, path, run};
use super::word::{apply_of, hold, mark, trials, volume};

pub fn tests() -> Vec<libtest_mimic::Trial> {
    crate::tests![
        loop_preening_in_a_trial_gives_the_same_bytes_and_code,
        loop_repairing_in_a_trial_gives_the_same_bytes_and_code,
        loop_a_private_mount_point_and_a_store_in_memory_change_nothing,
        loop_a_dirty_journal_is_replayed_in_the_trial,
        loop_the_trial_is_in_nobodys_mount_table,
    ]
}

/// What e2fsck takes for the time of day: two runs write the same.
const NOW: (&str, &str) = ("E2FSCK_TIME", "1700000000");

const DEADLINE: Duration = Duration::from_secs(60);

fn loop_preening_in_a_trial_gives_the_same_bytes_and_code() {
    check_all(&["-f", "-p"], Room::StateDir, Mounting::Detached);
}

fn loop_repairing_in_a_trial_gives_the_same_bytes_and_code() {
    check_all(&["-f", "-y"], Room::StateDir, Mounting::Detached);
}

fn loop_a_private_mount_point_and_a_store_in_memory_change_nothing() {
    check_all(&["-f", "-y"], Room::Memory { limit_bytes: 64 << 20 }, Mounting::Private);
}

fn check_all(args: &[&str], room: Room, mounting: Mounting) {
    let lab = Lab::with_ext4();
    let sound = std::fs::read(lab.disk()).unwrap();
    let direct = lab.path("direct.img");
    let mut repaired = 0;
    for damage in DAMAGES {
        std::fs::write(lab.disk(), &sound).unwrap();
        damage.inflict(&lab.disk());
        std::fs::copy(lab.disk(), &direct).unwrap();
        let expected = run_directly(args, &direct);
        let code = run_in_trial(&lab, args, room, mounting);
        assert_eq!(code, expected, "{damage:?} {args:?}");
        assert_same(&lab.disk(), &direct, &format!("{damage:?} {args:?}"));
        repaired += u32::from(code == 1);
    }
    println!("{repaired} of {} repaired by {args:?}", DAMAGES.len());
    assert!(repaired >= 5, "only {repaired} were damaged and repaired");
    assert_eq!(lab.left(), [""; 0]);
}

fn loop_a_dirty_journal_is_replayed_in_the_trial() {
    let lab = Lab::with_ext4();
    let (mnt, direct) = (lab.path("mnt"), lab.path("direct.img"));
    let mounted = super::disks::Mount::of_image(&lab.disk(), "rw", &mnt);
    for name in 0..200 {
        std::fs::write(mnt.join(format!("new{name}")), "new").unwrap();
    }
    run("/usr/sbin/xfs_io", &["-x", "-c", "shutdown -f", path(&mnt)]);
    drop(mounted);
    std::fs::copy(lab.disk(), &direct).unwrap();
    let expected = run_directly(&["-p"], &direct);
    assert_eq!(run_in_trial(&lab, &["-p"], Room::StateDir, Mounting::Auto), expected);
    assert_same(&lab.disk(), &direct, "a dirty journal");
    run("/sbin/debugfs", &["-R", "stat /new199", path(&lab.disk())]);
}

fn loop_the_trial_is_in_nobodys_mount_table() {
    for mounting in [Mounting::Detached, Mounting::Private] {
        let lab = Lab::with_ext4();
        let trial = begin(&lab, Room::StateDir, mounting);
        for table in ["/proc/self/mountinfo", "/proc/1/mountinfo"] {
            let table = std::fs::read_to_string(table).unwrap();
            // Another test has one of its own, called "silent".
            let mut fuse = table.lines().filter(|line| line.contains(" - fuse "));
            assert!(fuse.all(|line| line.contains(" silent ")), "{mounting:?}: {table}");
        }
        drop(trial);
    }
}

pub fn begin(lab: &Lab, room: Room, mounting: Mounting) -> Trial {
    let device = hold(&lab.disk());
    trials(&lab.state()).begin(volume(), device, room, mounting).unwrap()
}

fn run_directly(args: &[&str], disk: &Path) -> i32 {
    let status =
        Command::new("/sbin/e2fsck").args(args).arg(disk).env(NOW.0, NOW.1).output().unwrap();
    status.status.code().unwrap()
}

fn run_in_trial(lab: &Lab, args: &[&str], room: Room, mounting: Mounting) -> i32 {
    let trial = begin(lab, room, mounting);
    let tool = Tool::new("/sbin/e2fsck", DEADLINE).args(args.iter().copied());
    let tool = tool.arg(trial.path()).environment(NOW.0, NOW.1);
    let exit = trial.run(tool, &Cancel::new().unwrap()).unwrap();
    let difference = trial.finish().unwrap();
    difference.apply(&apply_of(Some(mark()), false), &mut |_| {}).unwrap();
    match exit.end {
        End::Exited(code) => code,
        end => panic!("{end:?}: {}", exit.stderr.text()),
    }
}

/// Compares two images but for what counts or dates the writing itself: `s_wtime`,
/// `s_kbytes_written` and the checksum over them, in each copy of the superblock.
fn assert_same(left: &Path, right: &Path, what: &str) {
    let (left, right) = (std::fs::read(left).unwrap(), std::fs::read(right).unwrap());
    assert_eq!(left.len(), right.len(), "{what}");
    let differ: Vec<usize> = (0..left.len()).filter(|&at| left[at] != right[at]).collect();
    let left_over: Vec<usize> = differ.into_iter().filter(|&at| !is_count(&left, at)).collect();
    assert!(left_over.is_empty(), "{what}: {left_over:x?}");
}

fn is_count(image: &[u8], at: usize) -> bool {
    let superblock = at / 1024 * 1024;
    let is_superblock = image[superblock + 0x38..superblock + 0x3a] == [0x53, 0xef];
    let field = at - superblock;
    is_superblock && [0x30..0x38, 0x178..0x180, 0x3fc..0x400].iter().any(|f| f.contains(&field))
}
