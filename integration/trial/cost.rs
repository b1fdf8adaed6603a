//! `integration trial-cost DIR`: what a trial costs beside a direct run, for `integration/test full`.
//!
//! Two filesystems: one with a million inodes for a forced check, one with a full journal of 1 GiB
//! for a replay. Rounds alternate; the medians count. It exits 1 if a ratio is over its limit.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::disks::{Mount, path, run};

/// Forced check, trial to direct.
const CHECK_LIMIT: f64 = 1.3;

/// Replay of a 1 GiB journal, trial and apply to direct.
const REPLAY_LIMIT: f64 = 4.0;

const ROUNDS: usize = 5;
const INODES: u32 = 1_000_000;

pub fn run_word(args: &[String]) {
    let bench = Bench { dir: Path::new(&args[0]).into() };
    std::fs::create_dir_all(bench.dir.join("state")).unwrap();
    let check = bench.compare(bench.make_inodes(), &["-f", "-n"]);
    let replay = bench.compare(bench.make_journal(), &["-p"]);
    println!("forced check, {INODES} inodes: {check:.2} x direct (limit {CHECK_LIMIT})");
    println!("replay of a 1 GiB journal: {replay:.2} x direct (limit {REPLAY_LIMIT})");
    std::process::exit(i32::from(check > CHECK_LIMIT || replay > REPLAY_LIMIT));
}

struct Bench {
    dir: PathBuf,
}

impl Bench {
    fn make_inodes(&self) -> PathBuf {
        let image = self.dir.join("inodes.img");
        std::fs::File::create(&image).unwrap().set_len(20 << 30).unwrap();
        run("/sbin/mkfs.ext4", &["-q", "-F", "-N", "1100000", path(&image)]);
        let mnt = self.dir.join("mnt");
        let _mounted = Mount::of_image(&image, "rw", &mnt);
        for number in 0..INODES {
            let dir = mnt.join(format!("dir{}", number / 1000));
            if number % 1000 == 0 {
                std::fs::create_dir(&dir).unwrap();
            }
            std::fs::File::create(dir.join(format!("file{number}"))).unwrap();
        }
        image
    }

    /// The image is copied while it is mounted: what lies in the journal has not been written
    /// home yet.
    fn make_journal(&self) -> PathBuf {
        let (mounted, image) = (self.dir.join("mounted.img"), self.dir.join("journal.img"));
        std::fs::File::create(&mounted).unwrap().set_len(4 << 30).unwrap();
        run("/sbin/mkfs.ext4", &["-q", "-F", "-J", "size=1024", path(&mounted)]);
        let mnt = self.dir.join("mnt");
        let mount = Mount::of_image(&mounted, "data=journal,commit=1", &mnt);
        let to = format!("of={}", path(&mnt.join("data")));
        run("/bin/dd", &["if=/dev/urandom", &to, "bs=1M", "count=480"]);
        std::thread::sleep(Duration::from_secs(3));
        copy(&mounted, &image);
        drop(mount);
        std::fs::remove_file(mounted).unwrap();
        image
    }

    /// The ratio of the medians.
    fn compare(&self, image: PathBuf, args: &[&str]) -> f64 {
        let subject = self.dir.join("subject.img");
        let (mut direct, mut trial) = (Vec::new(), Vec::new());
        for round in 0..=ROUNDS {
            for is_trial in [round % 2 == 0, round % 2 != 0] {
                // A check that only reads leaves the image as it was.
                let is_replay = args == ["-p"];
                if is_replay || !subject.exists() {
                    copy(&image, &subject);
                }
                let took = if is_trial {
                    self.run_trial(&subject, args)
                } else {
                    run_directly(&subject, args)
                };
                // The first round warms the caches.
                if round > 0 {
                    if is_trial { trial.push(took) } else { direct.push(took) }
                }
            }
        }
        std::fs::remove_file(image).unwrap();
        std::fs::remove_file(subject).unwrap();
        let (direct, trial) = (median(direct), median(trial));
        println!("{args:?}: direct {direct:?}, trial {trial:?}");
        trial.as_secs_f64() / direct.as_secs_f64()
    }

    fn run_trial(&self, subject: &Path, args: &[&str]) -> Duration {
        let mut guard = Command::new(std::env::current_exe().unwrap());
        guard.arg("run-trial").arg(subject).arg(self.dir.join("state"));
        time(guard.args(["timing", "--"]).args(args))
    }
}

fn run_directly(subject: &Path, args: &[&str]) -> Duration {
    let took = time(Command::new("/sbin/e2fsck").args(args).arg(subject).stdout(Stdio::null()));
    let begun = Instant::now();
    std::fs::File::open(subject).unwrap().sync_all().unwrap();
    took + begun.elapsed()
}

fn time(command: &mut Command) -> Duration {
    let begun = Instant::now();
    let status = command.stderr(Stdio::null()).status().unwrap();
    assert_eq!(status.code(), Some(0), "{command:?}");
    begun.elapsed()
}

/// Copies an image with its holes, onto the disk and into the cache.
fn copy(from: &Path, to: &Path) {
    run("/bin/cp", &["--sparse=always", path(from), path(to)]);
    std::fs::File::open(to).unwrap().sync_all().unwrap();
}

fn median(mut durations: Vec<Duration>) -> Duration {
    durations.sort_unstable();
    durations[durations.len() / 2]
}
