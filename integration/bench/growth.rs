//! Whether memory grows: a day of calls of all kinds, and what the guard kept of them.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use super::arguments::Plan;
use super::caller::{Caller, Mode, Wrong};
use super::error::BenchError;
use super::messages::{self, ABSENT, Call, SLOW, Volume, Volumes};
use super::process::Process;

/// How long a call that is given up was waited for.
///
/// One millisecond, the timer's grain: by then it is at the plugin, ten times over.
const PATIENCE: Duration = Duration::from_millis(1);

#[derive(Serialize)]
pub struct Growth {
    pub first_calls: usize,
    pub first_anonymous_kib: u64,
    pub last_calls: usize,
    pub last_anonymous_kib: u64,
    pub wrong: Wrong,
}

impl Growth {
    pub async fn measure(guard: &Process, socket: &Path, plan: &Plan) -> Result<Self, BenchError> {
        let (first_calls, last_calls) = plan.mixed_calls;
        let mut load = Load::new(socket);
        load.run(0..first_calls).await;
        let first = guard.memory()?;
        load.run(first_calls..last_calls).await;
        let last = guard.memory()?;
        Ok(Self {
            first_calls,
            first_anonymous_kib: first.anonymous_kib,
            last_calls,
            last_anonymous_kib: last.anonymous_kib,
            wrong: load.finish().await,
        })
    }

    /// What was not given back. Less memory than at first is no growth.
    pub fn grown_kib(&self) -> u64 {
        self.last_anonymous_kib.saturating_sub(self.first_anonymous_kib)
    }
}

/// Calls of all kinds, most over one kept connection.
pub struct Load<'a> {
    kept: Caller<'a>,
    fresh: Caller<'a>,
    volumes: Volumes,
    /// What a volume that was begun still has to go through.
    life: Vec<Call>,
}

impl<'a> Load<'a> {
    pub fn new(socket: &'a Path) -> Self {
        Self {
            kept: Caller::new(socket, Mode::Kept),
            fresh: Caller::new(socket, Mode::Fresh),
            volumes: Volumes::default(),
            life: Vec::new(),
        }
    }

    /// Of 100 calls: 1 reply of 2 MiB, 2 given up, 2 that fail, 47 guarded, 48 unguarded; every
    /// tenth of the last two kinds over a connection of its own.
    pub async fn run(&mut self, numbers: std::ops::Range<usize>) {
        for number in numbers {
            match number % 100 {
                0 => self.kept.call(&messages::statistics("large")).await,
                34 | 66 => {
                    self.kept.call_and_give_up(&messages::statistics(SLOW), PATIENCE).await;
                }
                24 | 76 => self.kept.call(&messages::statistics(ABSENT)).await,
                step => {
                    let guarded = step % 2 == 1;
                    let call = if guarded { self.next_of_life() } else { messages::capabilities() };
                    let own_connection = step % 10 < 2;
                    let caller = if own_connection { &mut self.fresh } else { &mut self.kept };
                    caller.call(&call).await;
                }
            }
        }
    }

    pub async fn finish(self) -> Wrong {
        let mut wrong = self.kept.close().await;
        wrong.add(self.fresh.close().await);
        wrong
    }

    fn next_of_life(&mut self) -> Call {
        if self.life.is_empty() {
            self.life = life_backwards(&self.volumes.next());
        }
        self.life.pop().expect("a life has four calls")
    }
}

fn life_backwards(volume: &Volume) -> Vec<Call> {
    vec![
        messages::unstage(volume),
        messages::unpublish(volume),
        messages::publish(volume),
        messages::stage(volume),
    ]
}
