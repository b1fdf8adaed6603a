//! What else went on while the bench ran.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use nix::unistd::{SysconfVar, sysconf};

use super::contestants::Field;
use super::error::BenchError;

/// Processor time up to one moment.
pub struct Reading {
    at: Instant,
    everybody: Duration,
    bench: Duration,
}

impl Reading {
    pub fn take(field: &Field) -> Result<Self, BenchError> {
        let own = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)
            .map_err(|source| BenchError::ProcessorTime { pid: 0, source })?;
        let bench = Duration::from(own) + field.processor_time()?;
        Ok(Self { at: Instant::now(), everybody: busy()?, bench })
    }

    /// The share of the machine's processor time since `earlier` that went to others.
    ///
    /// Paired medians hide a busy machine: direct calls lose as much to it as direct calls, but
    /// a proxy is one process more that has to wait for its turn.
    pub fn share_of_others_since(&self, earlier: &Self) -> f64 {
        let everybody = self.everybody.saturating_sub(earlier.everybody);
        let others = everybody.saturating_sub(self.bench.saturating_sub(earlier.bench));
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        others.as_secs_f64() / (self.at - earlier.at).as_secs_f64() / processors as f64
    }
}

/// Processor time of the whole machine: proc_stat(5), all but `idle` and `iowait`.
fn busy() -> Result<Duration, BenchError> {
    let path = PathBuf::from("/proc/stat");
    let text = fs::read_to_string(&path)
        .map_err(|source| BenchError::Read { path: path.clone(), source })?;
    let ticks = busy_ticks(&text).ok_or(BenchError::Field { path, field: "cpu" })?;
    let per_second = sysconf(SysconfVar::CLK_TCK).ok().flatten().unwrap_or(100);
    Ok(Duration::from_secs_f64(ticks as f64 / per_second as f64))
}

fn busy_ticks(stat: &str) -> Option<u64> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let fields: Vec<u64> = line.split_whitespace().map_while(|f| f.parse().ok()).collect();
    // user, nice, system, (idle, iowait,) irq, softirq, steal; what guests use is in user.
    Some(fields.get(..3)?.iter().chain(fields.get(5..8)?).sum())
}

pub fn tests() -> Vec<libtest_mimic::Trial> {
    crate::tests![an_idle_processor_is_not_busy]
}

fn an_idle_processor_is_not_busy() {
    let stat = "cpu  1 2 4 1000 1000 8 16 32 1000 1000\ncpu0 9 9 9 9 9 9 9 9 9 9\n";
    assert_eq!(busy_ticks(stat), Some(63));
}
