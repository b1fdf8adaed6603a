//! Climbs a ladder over trials, as the guard does.

use std::path::Path;
use std::time::Duration;

use mount_guard::facts::tool as facts;
use mount_guard::fsck::{Command, Ladder, Next, Step, Verdict, Which};
use mount_guard::host::tool::{Cancel, End, Tool, ToolExit, Why};
use mount_guard::host::trial::{Mounting, Replay, ReplayError, Room, RunError, Trial, Trouble};
use mount_guard::volume::FsType;

use crate::trial::word::{hold, trials, volume};

/// How long one step may take here. A small image is checked within a second; a minute says that
/// it would have gone on.
const LIMIT: Duration = Duration::from_secs(60);

pub struct Climb {
    pub verdict: Verdict,
    /// What the checkers made of the image, unless it went with a replay.
    pub trial: Option<Trial>,
}

pub fn climb(image: &Path, state: &Path, ladder: Ladder) -> Climb {
    let (mut step, mut ladder) = (ladder.first(), ladder);
    let mut trial = Some(begin(image, state));
    loop {
        let outcome = take(&mut trial, &step);
        match ladder.next(&outcome) {
            Next::Done(verdict) => return Climb { verdict, trial },
            Next::Go { ladder: later, trial: which, step: next } => {
                (ladder, step) = (later, next);
                if which == Which::New {
                    drop(trial.take());
                    trial = Some(begin(image, state));
                }
            }
        }
    }
}

fn begin(image: &Path, state: &Path) -> Trial {
    trials(state).begin(volume(), hold(image), Room::StateDir, Mounting::Auto).unwrap()
}

fn take(trial: &mut Option<Trial>, step: &Step) -> facts::Outcome {
    match step {
        Step::Run(command) => run(trial.as_ref().expect("no step follows a lost one"), command),
        Step::Replay { fs } => {
            let fs = FsType::parse(fs).unwrap();
            let begun = trial.take().expect("no step follows a lost one");
            match begun.replay(&fs, LIMIT, &Cancel::new().unwrap()) {
                Ok((same, replay)) => {
                    *trial = Some(same);
                    match replay {
                        Replay::Replayed => facts::Outcome::Replayed,
                        Replay::Refused { errno } => facts::Outcome::ReplayRefused { errno },
                    }
                }
                Err(ReplayError::Spoiled(trouble)) => facts::Outcome::Spoiled(named(trouble)),
                Err(ReplayError::Deadline) => facts::Outcome::ReplayHung,
                Err(other) => panic!("{other:?}"),
            }
        }
    }
}

fn run(trial: &Trial, command: &Command) -> facts::Outcome {
    let program = command.tool.candidates().iter().find(|path| Path::new(path).exists()).unwrap();
    let tool = Tool::new(*program, command.bounds.deadline.min(LIMIT))
        .output_limit_bytes(command.bounds.output_limit_bytes)
        .args(command.args(&trial.path(), None));
    match trial.run(tool, &Cancel::new().unwrap()) {
        Ok(exit) => facts::Outcome::Ran(ran(exit)),
        Err(RunError::Spoiled(trouble)) => facts::Outcome::Spoiled(named(trouble)),
        Err(other) => panic!("{other:?}"),
    }
}

fn ran(exit: ToolExit) -> facts::Ran {
    let why = |why| match why {
        Why::Deadline => facts::Why::Deadline,
        Why::Cancelled => facts::Why::Cancelled,
        Why::Flood => facts::Why::Flood,
    };
    facts::Ran {
        end: match exit.end {
            End::Exited(code) => facts::End::Exited(code),
            End::Signalled(signal) => facts::End::Signalled(signal),
            End::Killed(by) => facts::End::Killed(why(by)),
            End::Stuck { why: by, .. } => facts::End::Stuck(why(by)),
        },
        stdout: exit.stdout.text(),
        stderr: exit.stderr.text(),
        took: exit.took,
    }
}

fn named(trouble: Trouble) -> facts::Trouble {
    match trouble {
        Trouble::StoreFull | Trouble::Store { .. } => facts::Trouble::NoRoom,
        Trouble::DeviceRead { offset, errno } => {
            facts::Trouble::DeviceRead { offset_bytes: offset, errno }
        }
        Trouble::DeviceChanged { offset } => facts::Trouble::DeviceChanged { offset_bytes: offset },
        Trouble::BeyondEnd { offset } => facts::Trouble::BeyondEnd { offset_bytes: offset },
    }
}
