//! A program the bench started: its processor time, its memory, its end.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;
use serde::Serialize;

use super::error::BenchError;

/// How long a program may take to end itself before it is killed.
///
/// Two seconds: nginx and the guard end at once with no call in flight; more would only make a
/// broken run slow.
const GRACE: Duration = Duration::from_secs(2);

/// A process and the processes it started. Ended, by their ids, when dropped.
pub struct Process {
    child: Child,
    log: PathBuf,
}

#[derive(Clone, Copy, Default, Serialize)]
pub struct Memory {
    pub rss_kib: u64,
    /// Heap and stacks: what grows when something leaks.
    pub anonymous_kib: u64,
}

impl Process {
    /// Starts `command`; what it prints goes to `log`.
    pub fn start(name: &str, mut command: Command, log: PathBuf) -> Result<Self, BenchError> {
        let open = |path: &Path| {
            File::options()
                .create(true)
                .append(true)
                .open(path)
                .map_err(|source| BenchError::Write { path: path.to_owned(), source })
        };
        let child = command
            .stdin(Stdio::null())
            .stdout(open(&log)?)
            .stderr(open(&log)?)
            .spawn()
            .map_err(|source| BenchError::Start { program: name.to_owned(), source })?;
        Ok(Self { child, log })
    }

    /// How it ended, if it did.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// The end of what it printed.
    pub fn last_words(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().rev().take(3).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join(" | ")
    }

    /// Processor time used so far, to the nanosecond, threads that have ended included.
    pub fn processor_time(&self) -> Result<Duration, BenchError> {
        self.pids().into_iter().try_fold(Duration::ZERO, |sum, pid| {
            let time = clock_getcpuclockid(pid).and_then(clock_gettime);
            let time =
                time.map_err(|source| BenchError::ProcessorTime { pid: pid.as_raw(), source })?;
            Ok(sum + Duration::from(time))
        })
    }

    pub fn memory(&self) -> Result<Memory, BenchError> {
        self.pids().into_iter().try_fold(Memory::default(), |sum, pid| {
            let path = PathBuf::from(format!("/proc/{pid}/smaps_rollup"));
            let text = fs::read_to_string(&path)
                .map_err(|source| BenchError::Read { path: path.clone(), source })?;
            let field = |field| {
                kib(&text, field).ok_or_else(|| BenchError::Field { path: path.clone(), field })
            };
            Ok(Memory {
                rss_kib: sum.rss_kib + field("Rss:")?,
                anonymous_kib: sum.anonymous_kib + field("Anonymous:")?,
            })
        })
    }

    /// The process and its descendants, itself first.
    fn pids(&self) -> Vec<Pid> {
        let own = i32::try_from(self.child.id()).expect("a pid is a positive i32");
        let mut pids = vec![own];
        let mut next = 0;
        while let Some(pid) = pids.get(next) {
            pids.extend(children(*pid));
            next += 1;
        }
        pids.into_iter().map(Pid::from_raw).collect()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The youngest first: strace must see its tracee end, not be cut off from it.
        for pid in self.pids().into_iter().rev() {
            let _ = kill(pid, Signal::SIGTERM);
        }
        let deadline = Instant::now() + GRACE;
        while self.ended().is_none() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(2));
        }
        for pid in self.pids().into_iter().rev() {
            let _ = kill(pid, Signal::SIGKILL);
        }
        let _ = self.child.wait();
    }
}

fn children(pid: i32) -> Vec<i32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks
        .filter_map(|task| fs::read_to_string(task.path().join("children")).ok())
        .flat_map(|text| text.split_whitespace().filter_map(|p| p.parse().ok()).collect::<Vec<_>>())
        .collect()
}

fn kib(rollup: &str, field: &str) -> Option<u64> {
    let line = rollup.lines().find(|line| line.starts_with(field))?;
    line.split_whitespace().nth(1)?.parse().ok()
}
