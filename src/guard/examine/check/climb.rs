//! Climbs a ladder: each step on the trial, and what it came to.

use std::time::{Duration, Instant};

use super::super::{Doing, Examiner, Subject};
use super::{CheckRun, Found};
use crate::facts::memory::Stage;
use crate::facts::tool::{End, Outcome, Ran};
use crate::fsck::{Ladder, Next, Step, Tool, Verdict, Which};
use crate::host::{Held, Host, Room, Trial};
use crate::volume::FsType;

/// How long the kernel may take to replay a log in a trial.
///
/// A 2 GiB log takes half a minute on a slow volume. At half, a busy node would not end it; at
/// double, a kernel that hangs keeps the volume that much longer for nothing.
const REPLAY_DEADLINE: Duration = Duration::from_secs(600);

/// How much of an encrypted volume's plain text a trial may keep in memory: a 1 GiB journal
/// changes 480 MiB (facts/trial.md), and a node has more than two of those to spare.
const MEMORY_BYTES: u64 = 512 << 20;

/// The end of a ladder, with the trial it leaves, if it leaves one.
pub(super) struct Climbed<T> {
    pub verdict: Verdict,
    pub trial: Option<T>,
    /// What it was about at its end.
    pub stage: Stage,
}

impl<H: Host> Examiner<'_, H> {
    pub(super) async fn climb(
        &self,
        subject: &Subject,
        found: &Found<'_>,
        mut ladder: Ladder,
        exclusive: H::Exclusive,
        runs: &mut Vec<CheckRun>,
    ) -> Climbed<H::Trial> {
        let mut stage = ladder.stage();
        self.began(subject, stage).await;
        let room = match subject.is_plain_text {
            true => Room::Memory { limit_bytes: MEMORY_BYTES },
            false => Room::StateDir,
        };
        let held = Held { path: &found.facts.path, number: found.facts.number, exclusive };
        let (mut trial, mut failed) = match self.host.begin_trial(&subject.volume, held, room).await
        {
            Ok(trial) => (Some(trial), None),
            Err(outcome) => (None, Some(outcome)),
        };
        let mut step = ladder.first();
        loop {
            let outcome = match (&mut trial, failed.take()) {
                (_, Some(outcome)) => outcome,
                (Some(trial), None) => self.take(trial, &step, runs).await,
                (None, None) => Outcome::NoTrial,
            };
            match ladder.next(&outcome) {
                Next::Done(verdict) => return Climbed { verdict, trial, stage },
                Next::Go { ladder: next, trial: which, step: then } => {
                    (ladder, step) = (next, then);
                    if stage != ladder.stage() {
                        stage = ladder.stage();
                        self.began(subject, stage).await;
                    }
                    if let (Which::New, Some(renewed)) = (which, &mut trial) {
                        failed = renewed.renew().await.err();
                    }
                }
            }
        }
    }

    async fn take(&self, trial: &mut H::Trial, step: &Step, runs: &mut Vec<CheckRun>) -> Outcome {
        let mut called_off = self.activity.called_off();
        let begun = Instant::now();
        let (tool, arguments, outcome) = match step {
            Step::Run(command) => {
                let tool = command.tool.name();
                self.activity.begin(Doing::Checking { tool, progress: None });
                let progress = self.activity.progress();
                let outcome = trial.run(&command.launch(), &mut called_off, progress).await;
                (tool, command.options.clone(), outcome)
            }
            Step::Replay { fs } => {
                let tool = Tool::XfsRepair.name();
                self.activity.begin(Doing::Checking { tool, progress: None });
                let fs_type = FsType::parse(fs).expect("a name of our own");
                let outcome = trial.replay(&fs_type, REPLAY_DEADLINE, &mut called_off).await;
                ("mount", vec!["-t".to_owned(), (*fs).to_owned()], outcome)
            }
        };
        tracing::info!(tool, ?arguments, ended = ended(&outcome), "check step");
        let exit = match &outcome {
            Outcome::Ran(Ran { end: End::Exited(exit), .. }) => Some(*exit),
            Outcome::Replayed => Some(0),
            _ => None,
        };
        let seconds = begun.elapsed().as_secs_f64();
        runs.push(CheckRun { tool, arguments, exit, seconds, changed_bytes: None, applied: false });
        outcome
    }
}

/// How a step ended, without a word of what the tool printed: that may name files.
fn ended(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Ran(ran) => format!("{:?}", ran.end),
        other => format!("{other:?}"),
    }
}

/// What a check was about when it ended.
pub(super) fn died_at(verdict: &Verdict) -> Option<Stage> {
    match verdict {
        Verdict::Died { stage, .. } => Some(*stage),
        _ => None,
    }
}
