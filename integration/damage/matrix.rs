//! Every damaged image in every mode, and what must hold.

use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mount_guard::fsck::Mode;

use super::base::{Base, EXT, Kind, XFS, copy};
use super::examine::{Answer, Examined, examine};
use super::hand::{Best, best, is_clean, mounts, saved};
use super::image::fingerprint;
use super::inflict::{Harm, Row, inflict};
use super::tree::Tree;

const MODES: [(&str, Mode); 3] =
    [("check", Mode::Check), ("preen", Mode::Preen), ("repair", Mode::Repair)];

/// How long the answer for a small image may take, with every step in it.
const ANSWER_LIMIT: Duration = Duration::from_secs(120);

/// Images at once: there is waiting in each of them.
const WORKERS: usize = 2;

/// One image.
#[derive(Debug, Clone, Copy)]
pub struct Job {
    pub row: &'static Row,
    pub kind: &'static str,
}

/// The images of these rows: of every kind, or of each row's first.
pub fn jobs(rows: impl Iterator<Item = &'static Row>, every_kind: bool) -> Vec<Job> {
    let kinds = |row: &'static Row| row.kinds.iter().take(if every_kind { usize::MAX } else { 1 });
    rows.flat_map(|row| kinds(row).map(move |kind| Job { row, kind })).collect()
}

/// Puts every image before the guard and prints a line for each.
///
/// # Panics
/// If a rule was broken; after the last image, with all that broke one.
pub fn run(jobs: &[Job]) {
    let dir = tempfile::tempdir().unwrap();
    let tree = Tree::new();
    let bases = bases(jobs, dir.path(), &tree);
    let (next, tally) = (AtomicUsize::new(0), Mutex::new(Tally::default()));
    std::thread::scope(|scope| {
        for worker in 0..WORKERS {
            let (next, tally, bases, tree) = (&next, &tally, &bases, &tree);
            let dir = dir.path().join(format!("worker-{worker}"));
            std::fs::create_dir(&dir).unwrap();
            scope.spawn(move || {
                while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    // One that cannot be made, or read, must not hide what the others show.
                    let look = || Seen::of(*job, &bases[job.kind], tree, &dir);
                    let seen = catch_unwind(AssertUnwindSafe(look));
                    let mut tally = tally.lock().unwrap();
                    match seen {
                        Ok(seen) => tally.add(&seen),
                        Err(_) => {
                            tally.broken.push(format!("{} {}: panicked", job.kind, job.row.name))
                        }
                    }
                }
            });
        }
    });
    let tally = tally.into_inner().unwrap();
    tally.print();
    assert!(tally.broken.is_empty(), "{}", tally.broken.join("\n"));
}

fn bases(jobs: &[Job], dir: &Path, tree: &Tree) -> HashMap<&'static str, Base> {
    let needed = |kind: &&Kind| jobs.iter().any(|job| job.kind == kind.name);
    let kinds = EXT.iter().chain(&XFS).filter(needed);
    let bases: HashMap<_, _> =
        kinds.map(|kind| (kind.name, Base::make(*kind, dir, tree))).collect();
    let foreign: Vec<&str> =
        bases.values().filter(|base| !base.mounts).map(|base| base.kind.name).collect();
    println!("kinds this kernel does not mount: {foreign:?}");
    bases
}

/// What became of one image.
struct Seen {
    job: Job,
    by_hand: Best,
    answers: Vec<Answered>,
}

/// What became of it in one mode.
struct Answered {
    mode: &'static str,
    examined: Examined,
    /// Of an image that was written to.
    saved: Option<usize>,
    broken: Vec<String>,
}

impl Seen {
    fn of(job: Job, base: &Base, tree: &Tree, dir: &Path) -> Self {
        let damaged = dir.join("damaged.img");
        inflict(base, job.row.harms, &damaged, tree, dir);
        let before = fingerprint(&damaged);
        assert_ne!(before, fingerprint(base.image()), "{job:?} damages nothing");
        let files = tree.count(job.row.harms.contains(&Harm::Shutdown));
        let by_hand = best(base, &damaged, files, tree, dir);
        let answers = MODES.map(|(name, mode)| {
            let image = dir.join("image");
            copy(&damaged, &image);
            let state = tempfile::tempdir_in(dir).unwrap();
            let examined = examine(&image, base.is_xfs, mode, state.path());
            let unchanged = fingerprint(&image) == before;
            let mut broken = broken_rules(&examined, mode, unchanged);
            let saved = examined.applied.then(|| {
                let clean = is_clean(base, &image);
                broken.extend(clean.err().map(|said| format!("applied and not clean: {said}")));
                let saved = saved(base, &image, tree, dir);
                if base.mounts && !mounts(base, &image, dir) {
                    broken.push("applied and does not mount".into());
                }
                saved
            });
            if saved.is_some_and(|saved| saved < by_hand.saved) {
                broken
                    .push(format!("{saved:?} files saved, and {} {}", by_hand.how, by_hand.saved));
            }
            Answered { mode: name, examined, saved, broken }
        });
        Self { job, by_hand, answers: answers.into() }
    }
}

fn broken_rules(examined: &Examined, mode: Mode, unchanged: bool) -> Vec<String> {
    let rules = [
        (examined.applied && examined.answer != Answer::Go, "written to and not handed on"),
        (!examined.applied && !unchanged, "written to without a word"),
        (mode == Mode::Check && !unchanged, "written to in mode check"),
        (examined.answer == Answer::Format, "would be formatted"),
        (examined.took > ANSWER_LIMIT, "took too long"),
    ];
    rules.iter().filter(|(broken, _)| *broken).map(|(_, rule)| (*rule).to_owned()).collect()
}

/// The sums over all images.
#[derive(Default)]
struct Tally {
    images: BTreeMap<&'static str, usize>,
    answers: BTreeMap<(&'static str, &'static str), usize>,
    saved: usize,
    saved_by_hand: usize,
    more_than_by_hand: usize,
    lost_by_hand_only: usize,
    slowest: Duration,
    broken: Vec<String>,
}

impl Tally {
    fn add(&mut self, seen: &Seen) {
        let Seen { job, by_hand, answers } = seen;
        *self
            .images
            .entry(if job.kind.starts_with("xfs") { "xfs" } else { "ext4" })
            .or_default() += 1;
        let mut line = format!(
            "{:<12} {:<46} by hand {:>3} ({:<9})",
            job.kind, job.row.name, by_hand.saved, by_hand.how
        );
        for answered in answers {
            let examined = &answered.examined;
            *self.answers.entry((answered.mode, word(examined))).or_default() += 1;
            self.slowest = self.slowest.max(examined.took);
            let saved = answered.saved.map_or_else(String::new, |saved| saved.to_string());
            line += &format!("  {} {:<7}{saved:>3}", answered.mode, word(examined));
            for rule in &answered.broken {
                self.broken.push(format!(
                    "{} {}, mode {}: {rule} ({})",
                    job.kind, job.row.name, answered.mode, examined.reason
                ));
            }
            if answered.mode == "repair"
                && let Some(saved) = answered.saved
            {
                self.saved += saved;
                self.saved_by_hand += by_hand.saved;
                self.more_than_by_hand += usize::from(saved > by_hand.saved);
            } else if answered.mode == "repair" && examined.answer == Answer::Refuse {
                self.lost_by_hand_only += usize::from(by_hand.saved > 0);
                line += &format!("  ({})", examined.reason);
            }
        }
        println!("{line}");
    }

    fn print(&self) {
        println!("images: {:?}; slowest answer {:?}", self.images, self.slowest);
        for ((mode, answer), count) in &self.answers {
            println!("mode {mode:<7} {answer:<8} {count}");
        }
        println!(
            "repaired: {} files saved, {} by hand; more than by hand on {} images; refused in mode \
             repair though a hand saves files: {}; rules broken: {}",
            self.saved,
            self.saved_by_hand,
            self.more_than_by_hand,
            self.lost_by_hand_only,
            self.broken.len()
        );
    }
}

fn word(examined: &Examined) -> &'static str {
    match (examined.answer, examined.applied) {
        (Answer::Go, true) => "applied",
        (Answer::Go, false) => "go",
        (Answer::Refuse, _) => "refused",
        (Answer::Wait, _) => "wait",
        (Answer::Format, _) => "format",
    }
}
