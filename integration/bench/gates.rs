//! What the guard has to keep to.

use std::process::ExitCode;

use serde::Serialize;

use super::caller::Mode;
use super::contestants::Name;
use super::guard::GuardAlone;
use super::report::Row;
use super::rounds::Kind;

/// Above what hyper on one thread was measured to need (1.15 to 1.32), below tonic (1.57).
const FRESH_RATIO: f64 = 1.35;

/// Reading and writing HTTP/2 takes 2.5 times what moving its bytes takes.
const PROCESSOR_OVER_COPY: f64 = 3.0;

/// Ten bytes per call would be a leak; what an allocator keeps of a large reply is less.
const GROWTH_KIB: f64 = 1024.0;

/// Kubelet's registrar gives a call one second, and a node starts all its plugins at once.
const START_MS: f64 = 10.0;

/// Two direct runs further apart than this say that the machine was not still.
const NOISE: std::ops::RangeInclusive<f64> = 0.93..=1.07;

#[derive(Debug, Serialize)]
pub struct Gate {
    pub name: &'static str,
    pub limit: f64,
    /// Nothing: it could not be measured, which is no pass.
    pub measured: Option<f64>,
    pub passed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Passed,
    Failed,
    /// The machine was not still: neither passed nor failed.
    Inconclusive,
    /// A quick run in which everybody answered: nothing was judged.
    Ran,
}

impl Verdict {
    pub fn exit_code(self) -> ExitCode {
        match self {
            Self::Passed | Self::Ran => ExitCode::SUCCESS,
            Self::Failed => ExitCode::FAILURE,
            Self::Inconclusive => ExitCode::from(3),
        }
    }
}

pub fn judge(rows: &[Row], guard: Option<&GuardAlone>) -> Vec<Gate> {
    let row = |mode| find(rows, mode, Kind::Unguarded, Name::Guard);
    vec![
        gate(
            "p50 over direct, fresh connection",
            FRESH_RATIO,
            row(Mode::Fresh).map(|r| r.ratio.median),
        ),
        gate(
            "processor time over byte copy, kept connection",
            PROCESSOR_OVER_COPY,
            row(Mode::Kept).and_then(|row| row.processor_over_copy),
        ),
        gate("growth in KiB", GROWTH_KIB, guard.map(|guard| guard.growth.grown_kib() as f64)),
        gate(
            "start to first answer in ms, p50",
            START_MS,
            guard.map(|guard| guard.start_ms.median),
        ),
        gate("programs run", 0.0, guard.and_then(|guard| guard.programs_run).map(|n| n as f64)),
        gate(
            "answers that were not the plugin's",
            0.0,
            guard.map(|guard| wrong(rows, guard) as f64),
        ),
    ]
}

/// The verdict of a run whose direct calls were `noise` apart from each other.
pub fn verdict(noise: impl IntoIterator<Item = f64>, gates: &[Gate]) -> Verdict {
    let still = noise.into_iter().all(|ratio| NOISE.contains(&ratio));
    match (still, gates.iter().all(|gate| gate.passed)) {
        (false, _) => Verdict::Inconclusive,
        (true, true) => Verdict::Passed,
        (true, false) => Verdict::Failed,
    }
}

/// The verdict of a run too short for numbers.
pub fn quick_verdict(rows: &[Row], guard: Option<&GuardAlone>) -> Verdict {
    let all_answered = rows.iter().all(|row| row.wrong.count == 0)
        && guard.is_none_or(|guard| guard.growth.wrong.count == 0);
    if all_answered { Verdict::Ran } else { Verdict::Failed }
}

/// How far two direct runs were apart, per scenario.
pub fn noise(rows: &[Row]) -> impl Iterator<Item = f64> {
    rows.iter().filter(|row| row.contestant == Name::DirectAgain).map(|row| row.ratio.median)
}

fn wrong(rows: &[Row], guard: &GuardAlone) -> usize {
    let rows = rows.iter().filter(|row| row.contestant == Name::Guard);
    guard.growth.wrong.count + rows.map(|row| row.wrong.count).sum::<usize>()
}

fn find(rows: &[Row], mode: Mode, kind: Kind, contestant: Name) -> Option<&Row> {
    rows.iter().find(|row| (row.mode, row.kind, row.contestant) == (mode, kind, contestant))
}

fn gate(name: &'static str, limit: f64, measured: Option<f64>) -> Gate {
    Gate { name, limit, measured, passed: measured.is_some_and(|measured| measured <= limit) }
}

pub fn tests() -> Vec<libtest_mimic::Trial> {
    crate::tests![
        what_was_not_measured_has_not_passed,
        a_limit_may_be_reached,
        noise_makes_a_failed_run_inconclusive,
        a_still_run_is_judged_by_its_gates,
    ]
}

fn what_was_not_measured_has_not_passed() {
    assert!(!gate("growth in KiB", GROWTH_KIB, None).passed);
}

fn a_limit_may_be_reached() {
    assert!(gate("programs run", 0.0, Some(0.0)).passed);
    assert!(!gate("programs run", 0.0, Some(1.0)).passed);
}

fn noise_makes_a_failed_run_inconclusive() {
    check(1.08, None, Verdict::Inconclusive);
    check(0.92, Some(0.0), Verdict::Inconclusive);
}

fn a_still_run_is_judged_by_its_gates() {
    check(1.02, None, Verdict::Failed);
    check(1.02, Some(0.0), Verdict::Passed);
}

fn check(direct_to_direct: f64, measured: Option<f64>, expected: Verdict) {
    assert_eq!(verdict([1.0, direct_to_direct], &[gate("any", 1.0, measured)]), expected);
}
