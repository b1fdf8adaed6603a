//! What the guard costs: the same calls directly, through a byte copy, the guard, nginx, haproxy.
//!
//! All contestants stand in one run before one plugin; their order changes every round and each
//! is compared with the direct calls of the same round, because absolute times drift with the
//! machine. Client, proxy and plugin are processes of their own, none pinned to a processor:
//! with two of them, pinning would decide who shares one with the client.

mod arguments;
mod caller;
mod client;
mod contestants;
mod copy;
mod elf;
mod error;
mod gates;
mod growth;
mod guard;
mod machine;
mod messages;
mod plugin;
mod process;
mod proxies;
mod report;
mod rounds;
mod smoke;
mod statistics;
mod text;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

use arguments::{Arguments, Format};
use contestants::Field;
use error::BenchError;
use guard::GuardAlone;
use machine::Reading;
use report::{Conditions, Report};

pub use copy::run as run_copy;
pub use plugin::run as run_plugin;

pub fn tests() -> Vec<libtest_mimic::Trial> {
    [
        elf::tests(),
        gates::tests(),
        machine::tests(),
        rounds::tests(),
        smoke::tests(),
        statistics::tests(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// `integration bench`: measures and prints. Exit 0: passed, 1: failed, 3: inconclusive.
pub fn run(words: impl Iterator<Item = OsString>) -> ExitCode {
    let arguments = Arguments::parse_from(std::iter::once("integration bench".into()).chain(words));
    match client::runtime().block_on(measure(&arguments)) {
        Ok(report) => {
            match arguments.format {
                Format::Text => print!("{}", text::render(&report)),
                Format::Json => println!("{}", report.json()),
            }
            report.verdict.exit_code()
        }
        Err(error) => {
            eprintln!("bench: {}", error.with_causes());
            ExitCode::FAILURE
        }
    }
}

async fn measure(arguments: &Arguments) -> Result<Report, BenchError> {
    let plan = arguments.plan();
    let mut field = Field::start(&arguments.guard).await?;
    let before = Reading::take(&field)?;
    let batches = rounds::run(&field, &plan).await?;
    let others_share = Reading::take(&field)?.share_of_others_since(&before);
    let memory = field.memory()?;
    let has_guard = field.has_guard();
    // Idle ones too would wake up now and then beside what comes next.
    field.contestants.clear();
    let guard = match has_guard {
        true => Some(GuardAlone::measure(&arguments.guard, &field.place, &plan).await?),
        false => None,
    };
    Ok(Report::new(Conditions::read(&plan, others_share), batches, memory, field.absent, guard))
}
