//! What is measured of the guard alone: growth, start, programs it runs, size.

use std::fs;
use std::path::Path;
use std::time::Instant;

use serde::Serialize;

use super::arguments::Plan;
use super::contestants::start;
use super::elf;
use super::error::BenchError;
use super::growth::{Growth, Load};
use super::proxies::{self, Place};
use super::statistics::Spread;

#[derive(Serialize)]
pub struct GuardAlone {
    pub growth: Growth,
    /// From before fork to the first answer that came through the guard.
    pub start_ms: Spread,
    pub starts: usize,
    /// Programs it ran during that many mixed calls; nothing if there is no strace to see it.
    pub programs_run: Option<usize>,
    pub traced_calls: usize,
    pub binary_bytes: u64,
    /// What of it is loaded: its size without symbols and debug information.
    pub loaded_bytes: u64,
}

impl GuardAlone {
    pub async fn measure(binary: &Path, place: &Place, plan: &Plan) -> Result<Self, BenchError> {
        let bytes = fs::read(binary)
            .map_err(|source| BenchError::Read { path: binary.to_owned(), source })?;
        Ok(Self {
            start_ms: measure_start(binary, place, plan.starts).await?,
            starts: plan.starts,
            growth: measure_growth(binary, place, plan).await?,
            programs_run: count_programs(binary, place, plan.traced_calls).await?,
            traced_calls: plan.traced_calls,
            binary_bytes: bytes.len() as u64,
            loaded_bytes: elf::loaded_bytes(&bytes)
                .ok_or_else(|| BenchError::NotElf { path: binary.to_owned() })?,
        })
    }
}

async fn measure_start(binary: &Path, place: &Place, starts: usize) -> Result<Spread, BenchError> {
    let mut times = Vec::new();
    for number in 0..starts {
        let name = format!("start-{number}");
        let command = proxies::guard(binary, place, &name);
        let started = Instant::now();
        let guard = start(&name, command, &place.socket(&name), place).await?;
        times.push(started.elapsed().as_secs_f64() * 1e3);
        drop(guard);
    }
    Ok(Spread::of(times))
}

async fn measure_growth(binary: &Path, place: &Place, plan: &Plan) -> Result<Growth, BenchError> {
    let socket = place.socket("growth");
    let command = proxies::guard(binary, place, "growth");
    let guard = start("growth", command, &socket, place).await?;
    Growth::measure(&guard, &socket, plan).await
}

async fn count_programs(
    binary: &Path,
    place: &Place,
    calls: usize,
) -> Result<Option<usize>, BenchError> {
    let (socket, trace) = (place.socket("traced"), place.file("trace"));
    let Some(command) = proxies::traced_guard(binary, place, "traced", &trace) else {
        return Ok(None);
    };
    let traced = start("traced", command, &socket, place).await?;
    let mut load = Load::new(&socket);
    load.run(0..calls).await;
    load.finish().await;
    // The trace is complete once strace has ended.
    drop(traced);
    let text = fs::read_to_string(&trace)
        .map_err(|source| BenchError::Read { path: trace.clone(), source })?;
    // The first is the guard itself.
    Ok(text.matches(" exec").count().checked_sub(1))
}
