//! Runs a program of the node's: bounded in time and output, killed with its group, never waited
//! for beyond its deadline.

mod cancel;
mod output;
mod progress;
mod spawn;
mod watch;

use std::ffi::OsString;
use std::io;
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::time::Duration;

pub use cancel::{Cancel, CancelOnDrop};
pub use output::Output;
pub use progress::ProgressPipe;

use crate::facts::tool::End;

/// How long a killed tool may take to die before it is left to itself.
///
/// 5 s: a process that is not stuck in the kernel dies within milliseconds, even under load; a
/// caller's own margin before its deadline is 5 s too.
const GRACE: Duration = Duration::from_secs(5);

/// A program to run, and the bounds it runs in. It gets no shell, no environment but a fixed PATH
/// and locale, `/dev/null` to read from, and no descriptor that is not named here.
#[derive(Debug)]
pub struct Tool {
    program: PathBuf,
    args: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    kept: Vec<RawFd>,
    progress: Option<ProgressPipe>,
    deadline: Duration,
    output_limit_bytes: u64,
    grace: Duration,
}

/// What became of a tool. What its exit code means belongs to the caller.
#[derive(Debug, Clone)]
pub struct ToolExit {
    pub end: End,
    pub stdout: Output,
    pub stderr: Output,
    pub took: Duration,
}

#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    #[error("{program} is not an absolute path")]
    Relative { program: PathBuf },
    #[error("cannot start {program}")]
    Start { program: PathBuf, source: io::Error },
    #[error("cannot watch {program}")]
    Watch { program: PathBuf, source: io::Error },
}

impl Tool {
    #[must_use]
    pub fn new(program: impl Into<PathBuf>, deadline: Duration) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            environment: Vec::new(),
            kept: Vec::new(),
            progress: None,
            deadline,
            output_limit_bytes: u64::MAX,
            grace: GRACE,
        }
    }

    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    #[must_use]
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    #[must_use]
    pub fn environment(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Lets the tool have the descriptor `fd`, under the same number. It must stay open until the
    /// tool has been started.
    #[must_use]
    pub fn keep(mut self, fd: RawFd) -> Self {
        self.kept.push(fd);
        self
    }

    /// Lets the tool report its steps; the caller names [`ProgressPipe::number`] in an argument.
    #[must_use]
    pub fn progress(mut self, pipe: ProgressPipe) -> Self {
        self.progress = Some(pipe);
        self
    }

    /// Kills the tool once it has printed more than this on one stream.
    #[must_use]
    pub fn output_limit_bytes(mut self, limit: u64) -> Self {
        self.output_limit_bytes = limit;
        self
    }

    /// How long the tool may take to die, once killed, before it is left to itself.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Runs the tool until it ends, or is killed: at its deadline, for a flood of output, or as
    /// soon as one of `cancels` is raised. Blocks, at most for deadline and grace.
    ///
    /// What is left of its process group when it ends is killed too.
    ///
    /// # Errors
    /// It could not be started or watched. A non-zero exit, a signal and a missed deadline are
    /// `Ok`: their meaning belongs to the caller.
    pub fn run(self, cancels: &[&Cancel]) -> Result<ToolExit, ToolError> {
        if !self.program.is_absolute() {
            return Err(ToolError::Relative { program: self.program });
        }
        let mut kept = self.kept.clone();
        kept.extend(self.progress.as_ref().map(ProgressPipe::number));
        match spawn::spawn(&self.program, &self.args, &self.environment, &kept) {
            Ok(child) => watch::watch(self, child, cancels),
            Err(source) => Err(ToolError::Start { program: self.program, source }),
        }
    }
}
