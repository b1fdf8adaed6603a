//! What can stop a bench, or keep a contestant out of it.

use std::error::Error;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    #[error("no program {program} on this machine")]
    Missing { program: &'static str },
    #[error("cannot start {program}")]
    Start { program: String, source: io::Error },
    #[error("{program} ended before it answered ({status}): {log}")]
    Ended { program: String, status: ExitStatus, log: String },
    #[error("{program} did not answer within {seconds} s: {log}")]
    Silent { program: String, seconds: u64, log: String },
    #[error("cannot read {path}")]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write {path}")]
    Write { path: PathBuf, source: io::Error },
    #[error("no processor time of process {pid}")]
    ProcessorTime { pid: i32, source: nix::Error },
    #[error("no {field} in {path}")]
    Field { path: PathBuf, field: &'static str },
    #[error("no ELF program headers in {path}")]
    NotElf { path: PathBuf },
    #[error("cannot listen on {path}")]
    Listen { path: PathBuf, source: io::Error },
    #[error("cannot serve on {path}")]
    Serve { path: PathBuf, source: tonic::transport::Error },
}

impl BenchError {
    /// The error and all that caused it, on one line.
    pub fn with_causes(&self) -> String {
        let mut text = self.to_string();
        let mut cause = self.source();
        while let Some(error) = cause {
            text = format!("{text}: {error}");
            cause = error.source();
        }
        text
    }
}
