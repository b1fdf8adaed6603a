//! Checks as the guard sees them: a trial that is moved to a thread for each step, and that speaks
//! in the words of `facts/`.

use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::watch;

use super::tool::{Cancel, ProgressPipe, Tool, ToolError, ToolExit};
use super::trial::{
    self, Apply, ApplyError, BeginError, FinishError, HeldDevice, Mounting, Replay, ReplayError,
    Room, RunError, Trials,
};
use super::{Applied, CalledOff, Exclusive, Orders, Unapplied};
use crate::facts::tool::{Launch, Outcome, Progress, Ran, Trouble};
use crate::volume::{DevNumber, FsType, VolumeId};

/// How often it is looked whether the device of a trial still answers.
const LOOK: Duration = Duration::from_secs(1);

/// How long a device may leave a read of a checker without an answer.
///
/// A minute: Longhorn's engine replaces a replica in half of it. At half, a volume that recovers
/// would lose its check; at double, two silent volumes keep all others of the node from theirs.
const PATIENCE: Duration = Duration::from_secs(60);

/// A trial on this node.
#[derive(Debug)]
pub struct LinuxTrial {
    /// `None` once a step has lost it: each step takes it along to its thread.
    trial: Option<trial::Trial>,
    begin: Begin,
}

/// What is needed to begin a trial once more.
#[derive(Debug, Clone)]
struct Begin {
    trials: Trials,
    volume: VolumeId,
    room: Room,
}

/// A device to be held for a trial.
pub(super) struct Subject {
    pub volume: VolumeId,
    pub path: PathBuf,
    pub number: DevNumber,
    pub exclusive: Exclusive,
}

/// Begins a trial.
///
/// # Errors
/// The outcome to tell whoever climbs the ladder.
pub(super) async fn begin(
    trials: Trials,
    subject: Subject,
    room: Room,
) -> Result<LinuxTrial, Outcome> {
    let begin = Begin { trials, volume: subject.volume.clone(), room };
    let trial = begin.on(move || hold(subject)).await?;
    Ok(LinuxTrial { trial: Some(trial), begin })
}

pub(super) fn hold(subject: Subject) -> Result<HeldDevice, Outcome> {
    let Subject { path, number, exclusive, .. } = subject;
    let held = HeldDevice::of(exclusive, &path, number);
    held.map_err(|source| spoiled(&trial::Trouble::DeviceRead { offset: 0, errno: errno(&source) }))
}

impl Begin {
    async fn on(
        &self,
        hold: impl FnOnce() -> Result<HeldDevice, Outcome> + Send + 'static,
    ) -> Result<trial::Trial, Outcome> {
        let Self { trials, volume, room } = self.clone();
        let begin = move || {
            let device = hold()?;
            trials.begin(volume, device, room, Mounting::Auto).map_err(|error| not_begun(&error))
        };
        on_thread(begin).await.unwrap_or(Err(Outcome::NoTrial))
    }
}

fn not_begun(error: &BeginError) -> Outcome {
    match error {
        BeginError::NoTrial(_) | BeginError::Alarm { .. } => Outcome::NoTrial,
        BeginError::Store { .. } => Outcome::Spoiled(Trouble::NoRoom),
    }
}

impl super::Trial for LinuxTrial {
    async fn run(
        &mut self,
        launch: &Launch,
        called_off: &mut CalledOff,
        progress: &watch::Sender<Option<Progress>>,
    ) -> Outcome {
        let (launch, progress) = (launch.clone(), progress.clone());
        let step = move |trial: trial::Trial, cancel: &Cancel| {
            let outcome = run(&trial, &launch, cancel, progress);
            (Some(trial), outcome)
        };
        self.step(called_off, step).await
    }

    async fn replay(
        &mut self,
        fs: &FsType,
        deadline: Duration,
        called_off: &mut CalledOff,
    ) -> Outcome {
        let fs = fs.clone();
        let step =
            move |trial: trial::Trial, cancel: &Cancel| match trial.replay(&fs, deadline, cancel) {
                Ok((trial, Replay::Replayed)) => (Some(trial), Outcome::Replayed),
                Ok((trial, Replay::Refused { errno })) => {
                    (Some(trial), Outcome::ReplayRefused { errno })
                }
                Err(error) => (None, not_replayed(&error)),
            };
        self.step(called_off, step).await
    }

    async fn renew(&mut self) -> Result<(), Outcome> {
        let trial = self.trial.take().ok_or(Outcome::NoTrial)?;
        let again = move || trial.discard().ok_or(Outcome::NoTrial);
        self.trial = Some(self.begin.on(again).await?);
        Ok(())
    }

    async fn discard(mut self) {
        if let Some(trial) = self.trial.take() {
            let _ = on_thread(move || drop(trial)).await;
        }
    }

    async fn read(&mut self, offset_bytes: u64, len_bytes: usize) -> Option<Vec<u8>> {
        let trial = self.trial.take()?;
        let read = move || {
            let read = trial.read(offset_bytes, len_bytes).ok();
            (trial, read)
        };
        let (trial, read) = on_thread(read).await?;
        self.trial = Some(trial);
        read
    }

    async fn apply(mut self, orders: &Orders) -> Result<Applied, Unapplied> {
        let trial = self.trial.take().ok_or(Unapplied::StillOpen)?;
        let apply = Apply {
            fs_uuid: orders.fs_uuid.map(|uuid| uuid.to_string()),
            marks: orders.mark.clone().into_iter().collect(),
            last: orders.last.clone(),
            keep_undo: orders.keep_undo,
        };
        let work = move || {
            let difference = trial.finish().map_err(|error| unfinished(&error))?;
            let applied =
                difference.apply(&apply, &mut |_| {}).map_err(|error| unapplied(&error))?;
            let trial::Applied { device, changed_bytes, undo } = applied;
            drop(device);
            Ok(Applied { changed_bytes, undo })
        };
        let lost = Unapplied::HalfWritten { why: "its thread was lost".into(), redoable: true };
        on_thread(work).await.unwrap_or(Err(lost))
    }
}

impl LinuxTrial {
    /// Takes one step on a thread; whoever calls it off gets its end, and the device is free then.
    async fn step(
        &mut self,
        called_off: &mut CalledOff,
        step: impl FnOnce(trial::Trial, &Cancel) -> (Option<trial::Trial>, Outcome) + Send + 'static,
    ) -> Outcome {
        let Some(trial) = self.trial.take() else { return Outcome::NoTrial };
        let Ok(cancel) = Cancel::new() else {
            self.trial = Some(trial);
            return Outcome::NoTrial;
        };
        let watchdog = trial.watchdog();
        // Whoever drops this future wants the checker gone too.
        let _gone = cancel.on_drop();
        let raised = cancel.clone();
        let mut ended = std::pin::pin!(on_thread(move || step(trial, &raised)));
        let mut off = false;
        let ended = loop {
            tokio::select! {
                ended = &mut ended => break ended,
                () = called_off.raised(), if !off => {
                    off = true;
                    cancel.raise();
                }
                () = tokio::time::sleep(LOOK) => watchdog.look(PATIENCE),
            }
        };
        let Some((trial, outcome)) = ended else { return Outcome::NoTrial };
        self.trial = trial;
        outcome
    }
}

fn run(
    trial: &trial::Trial,
    launch: &Launch,
    cancel: &Cancel,
    progress: watch::Sender<Option<Progress>>,
) -> Outcome {
    let there = |path: &&&str| rustix::fs::access(**path, rustix::fs::Access::EXEC_OK).is_ok();
    let Some(program) = launch.candidates.iter().find(there) else { return Outcome::NoTool };
    let mut tool = Tool::new(*program, launch.deadline)
        .args(launch.options.iter())
        .output_limit_bytes(launch.output_limit_bytes);
    if launch.reports_progress
        && let Ok(pipe) = ProgressPipe::new(progress)
    {
        tool = tool.arg("-C").arg(pipe.number().to_string()).progress(pipe);
    }
    match trial.run(tool.arg(trial.path()), cancel) {
        Ok(ToolExit { end, stdout, stderr, took }) => {
            Outcome::Ran(Ran { end, stdout: stdout.text(), stderr: stderr.text(), took })
        }
        Err(RunError::Tool(ToolError::Watch { .. })) => Outcome::NoTrial,
        Err(RunError::Tool(ToolError::Relative { .. } | ToolError::Start { .. })) => {
            Outcome::NoTool
        }
        Err(RunError::Spoiled(trouble)) => spoiled(&trouble),
    }
}

fn not_replayed(error: &ReplayError) -> Outcome {
    match error {
        ReplayError::Cancelled => Outcome::Cancelled,
        ReplayError::Deadline => Outcome::ReplayHung,
        ReplayError::Spoiled(trouble) => spoiled(trouble),
        ReplayError::Thread { .. }
        | ReplayError::Open { .. }
        | ReplayError::Attach { .. }
        | ReplayError::Flush { .. } => Outcome::NoTrial,
    }
}

fn spoiled(trouble: &trial::Trouble) -> Outcome {
    Outcome::Spoiled(trouble_of(trouble))
}

fn trouble_of(trouble: &trial::Trouble) -> Trouble {
    match *trouble {
        trial::Trouble::StoreFull | trial::Trouble::Store { .. } => Trouble::NoRoom,
        trial::Trouble::DeviceRead { offset, errno } => {
            Trouble::DeviceRead { offset_bytes: offset, errno }
        }
        trial::Trouble::DeviceChanged { offset } => Trouble::DeviceChanged { offset_bytes: offset },
        trial::Trouble::BeyondEnd { offset } => Trouble::BeyondEnd { offset_bytes: offset },
    }
}

fn unfinished(error: &FinishError) -> Unapplied {
    match error {
        FinishError::Spoiled(trouble) => Unapplied::Spoiled(trouble_of(trouble)),
        FinishError::StillOpen => Unapplied::StillOpen,
    }
}

fn unapplied(error: &ApplyError) -> Unapplied {
    match error {
        ApplyError::Quota { .. } | ApplyError::Log(_) | ApplyError::Name { .. } => {
            Unapplied::Spoiled(Trouble::NoRoom)
        }
        ApplyError::Spoiled(trouble) => Unapplied::Spoiled(trouble_of(trouble)),
        ApplyError::ReadOnly(_) => Unapplied::ReadOnly,
        ApplyError::Unresolved { .. } => {
            Unapplied::HalfWritten { why: said(error), redoable: true }
        }
        // Whoever orders it asks for no undo there.
        ApplyError::NoUndoInMemory => Unapplied::StillOpen,
        ApplyError::Redo(_) => Unapplied::HalfWritten { why: said(error), redoable: true },
        ApplyError::Torn(_) | ApplyError::TornStore(_) => {
            Unapplied::HalfWritten { why: said(error), redoable: false }
        }
    }
}

/// Runs `work` on a thread that may block; `None` if it panicked.
pub(super) async fn on_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    tokio::task::spawn_blocking(work).await.ok()
}

pub(super) fn said(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

fn errno(error: &std::io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EIO)
}
