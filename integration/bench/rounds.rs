//! The rounds: every contestant, every kind of call, in an order that changes.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::arguments::Plan;
use super::caller::{Caller, Mode, Wrong};
use super::contestants::{Contestant, Field, Name};
use super::error::BenchError;
use super::messages::{self, Call, Volume, Volumes};

/// Untimed calls before each batch: caches and branch predictors have just seen somebody else.
const WARM_UP_CALLS: usize = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// `NodeGetCapabilities`.
    Unguarded,
    /// `NodeStageVolume`, of another volume each time.
    Guarded,
    /// `NodeGetVolumeStats` with a reply of 2 MiB.
    Large,
}

pub type Scenario = (Mode, Kind);

pub const SCENARIOS: [Scenario; 6] = [
    (Mode::Fresh, Kind::Unguarded),
    (Mode::Fresh, Kind::Guarded),
    (Mode::Fresh, Kind::Large),
    (Mode::Kept, Kind::Unguarded),
    (Mode::Kept, Kind::Guarded),
    (Mode::Kept, Kind::Large),
];

/// What one contestant did with one kind of call in one round.
pub struct Batch {
    pub latencies: Vec<Duration>,
    pub processor_time: Duration,
    pub wrong: Wrong,
}

/// The batches of all rounds, in the order of the rounds.
pub type Batches = HashMap<(Scenario, Name), Vec<Batch>>;

pub async fn run(field: &Field, plan: &Plan) -> Result<Batches, BenchError> {
    let mut batches = Batches::new();
    let mut volumes = Volumes::default();
    for round in 0..plan.rounds {
        for scenario in SCENARIOS {
            for place in order(round, field.contestants.len()) {
                let contestant = &field.contestants[place];
                let batch = run_batch(contestant, scenario, plan, &mut volumes).await?;
                batches.entry((scenario, contestant.name)).or_default().push(batch);
            }
        }
    }
    Ok(batches)
}

/// Everybody at every place, and after each neighbour as often as before it.
fn order(round: usize, contestants: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..contestants).collect();
    order.rotate_left(round / 2 % contestants);
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

async fn run_batch(
    contestant: &Contestant,
    (mode, kind): Scenario,
    plan: &Plan,
    volumes: &mut Volumes,
) -> Result<Batch, BenchError> {
    let timed = if kind == Kind::Large { plan.large_calls } else { plan.calls };
    let fresh: Vec<Volume> = (0..WARM_UP_CALLS + timed).map(|_| volumes.next()).collect();
    let calls: Vec<Call> = fresh.iter().map(|volume| call_of(kind, volume)).collect();
    let mut caller = Caller::new(&contestant.socket, mode);
    for call in &calls[..WARM_UP_CALLS] {
        caller.call(call).await;
    }
    let before = contestant.processor_time()?;
    let mut latencies = Vec::with_capacity(timed);
    for call in &calls[WARM_UP_CALLS..] {
        let started = Instant::now();
        caller.call(call).await;
        latencies.push(started.elapsed());
    }
    let processor_time = contestant.processor_time()?.saturating_sub(before);
    if kind == Kind::Guarded {
        // Kubelet unstages what it staged: nobody is to pile up volumes.
        for volume in &fresh {
            caller.call(&messages::unstage(volume)).await;
        }
    }
    Ok(Batch { latencies, processor_time, wrong: caller.close().await })
}

fn call_of(kind: Kind, volume: &Volume) -> Call {
    match kind {
        Kind::Unguarded => messages::capabilities(),
        Kind::Guarded => messages::stage(volume),
        Kind::Large => messages::statistics("large"),
    }
}

pub fn tests() -> Vec<libtest_mimic::Trial> {
    crate::tests![everybody_stands_at_every_place_equally_often]
}

fn everybody_stands_at_every_place_equally_often() {
    let mut seen = HashMap::new();
    for round in 0..24 {
        for (place, contestant) in order(round, 6).into_iter().enumerate() {
            *seen.entry((place, contestant)).or_insert(0) += 1;
        }
    }
    assert_eq!(seen.len(), 36);
    assert!(seen.values().all(|times| *times == 4));
}
