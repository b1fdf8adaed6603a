//! Whom a kill hits.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// What is killed, and after which moment the delay begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Victim {
    /// The whole process, at any moment of its life.
    Guard,
    /// The whole process, once its log has a file: in an apply.
    Applying,
    /// The checker alone, once it runs.
    Checker,
}

/// Runs a command and kills its victim `delay` after the moment. What had ended before was quicker.
pub fn run_and_kill(
    command: &mut Command,
    victim: Victim,
    delay: Duration,
    state: &Path,
) -> ExitStatus {
    let mut guard = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    match victim {
        Victim::Guard => {}
        Victim::Applying => wait_for(&mut guard, |_| any_file_in(state)),
        Victim::Checker => wait_for(&mut guard, |pid| checker_of(pid).is_some()),
    }
    std::thread::sleep(delay);
    match victim {
        Victim::Guard | Victim::Applying => {
            let _ = guard.kill();
        }
        Victim::Checker => {
            if let Some(checker) = checker_of(guard.id()) {
                let _ = kill_process(checker, Signal::KILL);
            }
        }
    }
    guard.wait().unwrap()
}

/// Polls without rest: what is waited for lasts a few milliseconds.
fn wait_for(guard: &mut Child, happened: impl Fn(u32) -> bool) {
    let begun = Instant::now();
    while !happened(guard.id()) && guard.try_wait().unwrap().is_none() {
        assert!(begun.elapsed() < Duration::from_secs(60));
    }
}

fn any_file_in(state: &Path) -> bool {
    fs::read_dir(state).unwrap().next().is_some()
}

/// The e2fsck that a process started. The process is a child of this one that was not waited for,
/// so its number is nobody else's.
fn checker_of(guard: u32) -> Option<Pid> {
    let threads = fs::read_dir(format!("/proc/{guard}/task")).ok()?;
    let children = threads
        .flatten()
        .filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let numbers: Vec<i32> = children
        .flat_map(|list| {
            list.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<_>>()
        })
        .collect();
    let is_checker = |pid: &i32| {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "e2fsck")
    };
    Pid::from_raw(numbers.into_iter().find(is_checker)?)
}
