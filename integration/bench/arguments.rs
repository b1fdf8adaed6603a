//! The words after `integration bench`, and what they ask for.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

#[derive(Parser)]
#[command(about = "Measures what the guard adds to a call, against other proxies, in one run")]
pub struct Arguments {
    /// Rounds; every contestant answers every kind of call in each.
    #[arg(long)]
    rounds: Option<usize>,
    /// Calls per contestant, kind of call and round (a twentieth of it for the 2 MiB reply).
    #[arg(long)]
    calls: Option<usize>,
    /// Only show that everything runs: few calls, no gate is judged.
    #[arg(long)]
    quick: bool,
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// The guard to measure, such as one built with the image's profile.
    #[arg(long, default_value = env!("CARGO_BIN_EXE_mount-guard"))]
    pub guard: PathBuf,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum Format {
    Text,
    Json,
}

/// How much of everything is done.
pub struct Plan {
    pub quick: bool,
    pub rounds: usize,
    pub calls: usize,
    pub large_calls: usize,
    /// Mixed calls before memory is read for the first and for the last time.
    pub mixed_calls: (usize, usize),
    pub starts: usize,
    /// Mixed calls answered while strace counts new programs. It slows every call, so few.
    pub traced_calls: usize,
}

impl Arguments {
    pub fn plan(&self) -> Plan {
        // 24 rounds: 4 in every place of the order for six contestants; with half, the median of
        // two direct runs against each other still wanders by 5 %.
        let (rounds, calls) = if self.quick { (2, 20) } else { (24, 300) };
        let calls = self.calls.unwrap_or(calls).max(1);
        Plan {
            quick: self.quick,
            rounds: self.rounds.unwrap_or(rounds).max(1),
            calls,
            large_calls: calls.div_ceil(20),
            mixed_calls: if self.quick { (100, 400) } else { (1_000, 100_000) },
            starts: if self.quick { 3 } else { 20 },
            traced_calls: if self.quick { 100 } else { 1_000 },
        }
    }
}
