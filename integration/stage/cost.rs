//! What the guard's own part of a Stage costs where nothing is wrong.
//!
//! `integration stage-cost` prints it of many rounds. The way through the guard without a look, two
//! sockets included, is measured with a shared volume and taken off.

use std::time::{Duration, Instant};

use super::scene::Staged;
use crate::support::disk::LoopDisk;
use crate::support::plugin::{Act, Method};
use crate::support::run;

pub fn tests() -> Vec<libtest_mimic::Trial> {
    crate::tests![loop_case_9_a_clean_volume_costs_milliseconds_and_no_process]
}

/// The aims: of the look before an ext4, and before an xfs, is mounted.
const AIMS: [(&str, Duration); 2] =
    [("ext4", Duration::from_millis(1)), ("xfs", Duration::from_millis(2))];

/// A test's machine is busy: only a different order of magnitude is news.
const SLACK: u32 = 50;

/// One Stage, seen from both sides of the guard.
#[derive(Debug, Clone, Copy)]
struct Round {
    /// From kubelet's call to its arrival at the plugin.
    before: Duration,
    /// From the plugin's answer to its arrival at kubelet.
    after: Duration,
}

fn round(staged: &Staged) -> Round {
    let (kubelet, counts) = (&staged.scene.kubelet, staged.scene.plugin.counts());
    kubelet.paths().make_staging(&staged.scene.volume);
    let request = kubelet.stage_request(&staged.scene.volume, 0);
    run(async {
        let begun = Instant::now();
        let until = tokio::time::Instant::now() + Duration::from_secs(60);
        let answer = kubelet.call(Method::Stage, request, until).await;
        let ended = Instant::now();
        let arrived = counts.calls(Method::Stage).last().expect("it came to the plugin").at;
        let answered = counts.answered_at().expect("it was answered");
        assert!(answer.is_ok() || answer.is_err_and(|why| why.message() == NOT_DONE));
        Round { before: arrived - begun, after: ended - answered }
    })
}

const NOT_DONE: &str = "not done";

/// The middle and the best of `times`.
fn middle_and_best(mut times: Vec<Duration>) -> (Duration, Duration) {
    times.sort_unstable();
    (times[times.len() / 2], times[0])
}

/// The middle and the best of what the look takes, and the middle of what the proof takes.
fn measure(fs_type: &str, rounds: usize) -> [Duration; 3] {
    let staged = Staged::new(LoopDisk::with_filesystem(fs_type, &[]), fs_type, &[]);
    let mut through = Staged::new(LoopDisk::with_filesystem("ext4", &[]), "ext4", &[]);
    through.scene.volume.access =
        mount_guard::csi::volume_capability::access_mode::Mode::MultiNodeMultiWriter;
    let act = Act::fail(tonic::Status::unavailable(NOT_DONE));
    through.scene.plugin.script().always(Method::Stage, None, act);
    let plain: Vec<Round> = (0..rounds).map(|_| round(&through)).collect();
    let rounds: Vec<Round> = (0..rounds)
        .map(|_| {
            let round = round(&staged);
            staged.unstages();
            round
        })
        .collect();
    assert_eq!(staged.checks(), 0, "{}", staged.guard.log());
    let times = |of: fn(&Round) -> Duration, rounds: &[Round]| {
        middle_and_best(rounds.iter().map(of).collect())
    };
    let (plain_before, plain_best) = times(|round| round.before, &plain);
    let (plain_after, _) = times(|round| round.after, &plain);
    let (before, best) = times(|round| round.before, &rounds);
    let (after, _) = times(|round| round.after, &rounds);
    [
        before.saturating_sub(plain_before),
        best.saturating_sub(plain_best),
        after.saturating_sub(plain_after),
    ]
}

/// The best of a few rounds is what it costs; the others say how busy the machine was.
fn loop_case_9_a_clean_volume_costs_milliseconds_and_no_process() {
    for (fs_type, aim) in AIMS {
        let [_, best, _] = measure(fs_type, 7);
        assert!(best <= aim * SLACK, "{fs_type}: {best:?}, and {aim:?} is aimed at");
    }
}

/// The program: prints what many rounds take.
pub fn run_word() {
    for (fs_type, aim) in AIMS {
        let [before, best, after] = measure(fs_type, 50);
        println!(
            "{fs_type}: the look takes {before:.2?} (p50; best {best:.2?}, aim {aim:?}), the proof \
             with its write {after:.2?} (p50); 0 processes"
        );
    }
}
