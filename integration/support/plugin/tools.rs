//! Child processes, counted, and killed with all their children when the plugin dies.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Stdio;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::process::Command;

use super::process::Life;

/// How a tool ended.
#[derive(Debug)]
pub struct Ended {
    /// `None`: killed, or not installed.
    pub exit: Option<i32>,
    pub missing: bool,
    pub output: String,
}

impl Ended {
    pub fn is_ok(&self) -> bool {
        self.exit == Some(0)
    }

    /// As Go prints it.
    pub fn status(&self) -> String {
        match self.exit {
            _ if self.missing => "executable file not found in $PATH".to_owned(),
            Some(exit) => format!("exit status {exit}"),
            None => "signal: killed".to_owned(),
        }
    }
}

/// The process group of a running tool: `fsck` runs the real checker as its own child.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(leader) = self.0 {
            let _ = killpg(leader, Signal::SIGKILL);
        }
    }
}

impl Life {
    /// Runs a tool to its end on behalf of `volume`.
    pub async fn run(&self, volume: &str, tool: &str, args: &[&str]) -> Ended {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let began = self.shared.counts.begin_run(volume, tool, &args);
        let habits = self.habits();
        let other = habits.tools_from.map(|dir| dir.join(tool)).filter(|path| path.exists());
        let ended = match other {
            _ if habits.missing_tools.iter().any(|missing| missing == tool) => missing(),
            Some(path) => spawn_and_wait(path.as_os_str(), &args).await,
            None => spawn_and_wait(OsStr::new(tool), &args).await,
        };
        self.shared.counts.end_run(began, &args, ended.exit, &ended.output);
        ended
    }

    /// Notes a step of a model as if a tool had been run.
    pub fn note_run(&self, volume: &str, tool: &str, device: &Path, exit: i32, output: &str) {
        let args = [device.display().to_string()];
        let began = self.shared.counts.begin_run(volume, tool, &args);
        self.shared.counts.end_run(began, &args, Some(exit), output);
    }
}

async fn spawn_and_wait(tool: &OsStr, args: &[String]) -> Ended {
    let spawned = Command::new(tool)
        .args(args)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn();
    let Ok(child) = spawned else { return missing() };
    let leader = child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw);
    let mut group = Group(leader);
    let done = child.wait_with_output().await;
    group.0 = None;
    let done = done.expect("a child's output");
    let mut output = String::from_utf8_lossy(&done.stdout).into_owned();
    output.push_str(&String::from_utf8_lossy(&done.stderr));
    Ended { exit: done.status.code(), missing: false, output }
}

fn missing() -> Ended {
    Ended { exit: None, missing: true, output: String::new() }
}
