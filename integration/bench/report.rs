//! All numbers of one run.

use std::fs;

use serde::Serialize;

use super::arguments::Plan;
use super::caller::{Mode, Wrong};
use super::contestants::{Absent, MemoryUse, Name};
use super::gates::{self, Gate, Verdict};
use super::guard::GuardAlone;
use super::rounds::{Batch, Batches, Kind, SCENARIOS, Scenario};
use super::statistics::{Spread, quantile};

#[derive(Serialize)]
pub struct Report {
    pub conditions: Conditions,
    pub rows: Vec<Row>,
    pub memory: Vec<MemoryUse>,
    pub absent: Vec<Absent>,
    pub guard: Option<GuardAlone>,
    pub gates: Vec<Gate>,
    pub verdict: Verdict,
}

#[derive(Serialize)]
pub struct Conditions {
    pub quick: bool,
    pub rounds: usize,
    pub calls: usize,
    pub large_calls: usize,
    pub processors: usize,
    pub kernel: String,
    /// Numbers of a debug build say nothing about the product.
    pub debug_build: bool,
    pub pinned: bool,
    /// What others took of the processors during the rounds.
    pub others_share: f64,
}

/// One contestant in one scenario. Ratios and what is added: medians over the rounds, each
/// compared with the direct calls of its own round.
#[derive(Serialize)]
pub struct Row {
    pub mode: Mode,
    pub kind: Kind,
    pub contestant: Name,
    pub p50_us: f64,
    pub added_p50_us: f64,
    pub ratio: Spread,
    pub p99_us: f64,
    pub processor_us_per_call: f64,
    /// Processor time over that of the byte copy.
    pub processor_over_copy: Option<f64>,
    pub calls: usize,
    pub wrong: Wrong,
}

impl Report {
    pub fn new(
        conditions: Conditions,
        mut batches: Batches,
        memory: Vec<MemoryUse>,
        absent: Vec<Absent>,
        guard: Option<GuardAlone>,
    ) -> Self {
        let rows: Vec<Row> = SCENARIOS.into_iter().flat_map(|s| rows(s, &mut batches)).collect();
        let gates = gates::judge(&rows, guard.as_ref());
        let verdict = match conditions.quick {
            true => gates::quick_verdict(&rows, guard.as_ref()),
            false => gates::verdict(gates::noise(&rows), &gates),
        };
        Self { conditions, rows, memory, absent, guard, gates, verdict }
    }

    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("numbers and names have a JSON form")
    }
}

impl Conditions {
    pub fn read(plan: &Plan, others_share: f64) -> Self {
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self {
            quick: plan.quick,
            rounds: plan.rounds,
            calls: plan.calls,
            large_calls: plan.large_calls,
            processors: std::thread::available_parallelism().map_or(0, usize::from),
            kernel: kernel.trim().to_owned(),
            debug_build: cfg!(debug_assertions),
            pinned: false,
            others_share,
        }
    }
}

fn rows(scenario: Scenario, batches: &mut Batches) -> Vec<Row> {
    let names =
        [Name::Direct, Name::DirectAgain, Name::Copy, Name::Guard, Name::Nginx, Name::Haproxy];
    let taken = names.map(|name| Some((name, batches.remove(&(scenario, name))?)));
    let present: Vec<(Name, Vec<Batch>)> = taken.into_iter().flatten().collect();
    let direct: Vec<f64> = p50s(&present[0].1);
    let copy = present.iter().find(|(name, _)| *name == Name::Copy);
    let copy = copy.map(|(_, batches)| processor_us_per_call(batches));
    present.into_iter().map(|(name, batches)| row(scenario, name, batches, &direct, copy)).collect()
}

fn row(
    (mode, kind): Scenario,
    contestant: Name,
    batches: Vec<Batch>,
    direct: &[f64],
    copy_us_per_call: Option<f64>,
) -> Row {
    let p50s = p50s(&batches);
    let paired = || p50s.iter().zip(direct);
    let latencies = sorted_us(batches.iter().flat_map(|batch| &batch.latencies));
    let processor_us_per_call = processor_us_per_call(&batches);
    let mut wrong = Wrong::default();
    batches.into_iter().for_each(|batch| wrong.add(batch.wrong));
    Row {
        mode,
        kind,
        contestant,
        p50_us: quantile(&latencies, 0.5),
        added_p50_us: Spread::of(paired().map(|(own, direct)| own - direct).collect()).median,
        ratio: Spread::of(paired().map(|(own, direct)| own / direct).collect()),
        p99_us: quantile(&latencies, 0.99),
        processor_us_per_call,
        processor_over_copy: copy_us_per_call.map(|copy| processor_us_per_call / copy),
        calls: latencies.len(),
        wrong,
    }
}

fn p50s(batches: &[Batch]) -> Vec<f64> {
    batches.iter().map(|batch| quantile(&sorted_us(&batch.latencies), 0.5)).collect()
}

fn processor_us_per_call(batches: &[Batch]) -> f64 {
    let calls: usize = batches.iter().map(|batch| batch.latencies.len()).sum();
    let time: f64 = batches.iter().map(|batch| batch.processor_time.as_secs_f64()).sum();
    time * 1e6 / calls as f64
}

fn sorted_us<'a>(latencies: impl IntoIterator<Item = &'a std::time::Duration>) -> Vec<f64> {
    let mut us: Vec<f64> = latencies.into_iter().map(|time| time.as_secs_f64() * 1e6).collect();
    us.sort_by(f64::total_cmp);
    us
}
