//! Tables. `CASES.md` numbers a case; `M` numbers a measurement in it.

mod ends;
mod ladder;
mod plans;
mod xfs_and_btrfs;

use std::time::Duration;

use super::{Backup, Findings, Ladder, Mode, Next, Question, Step, Verdict, Wanted, Which};
use crate::facts::memory::{Kills, Marks};
use crate::facts::tool::{End, Outcome, Ran};

macro_rules! recorded {
    ($name:literal) => {
        crate::fsck::tests::parse(include_str!(concat!("../testdata/", $name, ".txt")))
    };
}
use recorded;

/// Reads a recording: a comment, `exit N`, and the two streams.
fn parse(text: &str) -> Ran {
    let (head, rest) = text.split_once("--- stdout\n").unwrap();
    let (stdout, stderr) = rest.split_once("--- stderr\n").unwrap();
    let exit = head.lines().find_map(|line| line.strip_prefix("exit ")).unwrap();
    Ran {
        end: End::Exited(exit.parse().unwrap()),
        stdout: stdout.to_owned(),
        stderr: stderr.to_owned(),
        took: Duration::from_secs(10),
    }
}

fn said(exit: i32, stdout: &str, stderr: &str) -> Ran {
    Ran {
        end: End::Exited(exit),
        stdout: stdout.to_owned(),
        stderr: stderr.to_owned(),
        took: Duration::from_secs(1),
    }
}

fn ended(end: End) -> Ran {
    Ran { end, ..said(0, "", "") }
}

fn question(mode: Mode) -> Question {
    Question {
        wanted: Wanted::ReadWrite,
        mode,
        backup: Backup::Undo,
        encrypted: false,
        marks: Marks::default(),
        kills: Kills::default(),
    }
}

/// What a step is, in one line.
fn words(step: &Step) -> String {
    match step {
        Step::Run(command) => format!("{} {}", command.tool.name(), command.options.join(" ")),
        Step::Replay { fs } => format!("replay {fs}"),
    }
}

/// Climbs a ladder to its end; `+` marks a step in a new trial.
fn climb(ladder: Ladder, outcomes: Vec<Outcome>) -> (Vec<String>, Verdict) {
    let mut steps = vec![words(&ladder.first())];
    let mut ladder = ladder;
    let mut outcomes = outcomes.into_iter();
    loop {
        let outcome = outcomes.next().expect("an outcome for every step");
        match ladder.next(&outcome) {
            Next::Go { ladder: higher, trial, step } => {
                let mark = if trial == Which::New { "+" } else { "" };
                steps.push(format!("{mark}{}", words(&step)));
                ladder = higher;
            }
            Next::Done(verdict) => {
                assert_eq!(outcomes.len(), 0, "the ladder ended early: {verdict:?}");
                return (steps, verdict);
            }
        }
    }
}

fn found(line: &str) -> Findings {
    Findings::of([line])
}
