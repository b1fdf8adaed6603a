//! The commands other than `serve`: done by hand, on the node, beside a running guard.

use std::error::Error;
use std::io::Write;
use std::process::ExitCode;

use crate::config::ByHand;
use crate::facts::memory::Event;
use crate::host::{HostError, memory};

/// Carries a command out: 0 it is done, 1 it could not be done.
#[must_use]
pub fn run(command: &ByHand) -> ExitCode {
    match carry_out(command) {
        Ok(said) => {
            // Whoever closed the output does not want to hear it.
            let _ = writeln!(std::io::stdout(), "{said}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "mount-guard: {}", with_causes(&error));
            ExitCode::FAILURE
        }
    }
}

fn carry_out(command: &ByHand) -> Result<String, HostError> {
    match command {
        ByHand::Forget { volume, state_dir } => Ok(if memory::forget(state_dir, volume)? {
            format!("{volume} is forgotten: if its device is blank, it may be formatted")
        } else {
            format!("nothing was remembered of {volume} on this node")
        }),
        ByHand::Recheck { volume, state_dir } => {
            memory::remember(state_dir, volume, &Event::Recheck)?;
            Ok(format!("{volume} is checked when it is staged next on this node"))
        }
    }
}

fn with_causes(error: &dyn Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| (*cause).source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
