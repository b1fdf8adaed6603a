//! The commands other than `serve`: done by hand, on the node, beside a running guard.

mod check;
mod report;
mod undo;
mod version;

use std::error::Error;
use std::io::Write;
use std::process::ExitCode;

use crate::config::{ByHand, Places};
use crate::facts::memory::Event;
use crate::host::linux::LinuxHost;
use crate::host::{Roots, memory};

/// Carries a command out: 0 it is done, 1 it could not be done. `check` has more to say.
#[must_use]
pub fn run(command: &ByHand) -> ExitCode {
    match command {
        ByHand::Check(check) => check::run(check, host(&check.places)),
        ByHand::Undo { record, device, places } => {
            end(undo::run(record, device.as_deref(), places, &host(places)))
        }
        ByHand::Forget { volume, state_dir } => {
            let given_up = "whatever is on its device may be formatted when it is staged next";
            end(memory::forget(state_dir, volume).map(|known| match known {
                true => format!("{volume} is forgotten: {given_up}"),
                false => format!("nothing was remembered of {volume} on this node: {given_up}"),
            }))
        }
        ByHand::Recheck { volume, state_dir } => {
            let done = memory::remember(state_dir, volume, &Event::Recheck);
            end(done.map(|()| format!("{volume} is checked when it is staged next on this node")))
        }
    }
}

/// Waits for `work`, and for nothing that a silent device keeps from ending.
fn wait_for<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a process that has just started gets a runtime");
    let done = runtime.block_on(work);
    runtime.shutdown_background();
    done
}

fn end<E: Error>(done: Result<String, E>) -> ExitCode {
    match done {
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

/// The node as a person sees it who runs a command: by its own /proc, where the guard's is not.
fn host(places: &Places) -> LinuxHost {
    let proc = match crate::host::is_directory(&places.host_proc) {
        true => places.host_proc.clone(),
        false => "/proc".into(),
    };
    let roots = Roots { proc, sys: places.host_sys.clone() };
    LinuxHost::new(&places.state_dir).with_roots(roots)
}

fn with_causes(error: &dyn Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| (*cause).source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
