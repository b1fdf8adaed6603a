//! Waits for a child, its output and its killers at once.

use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStderr, ChildStdout, ExitStatus};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use super::progress::Parser;
use super::{Cancel, Output, Tool, ToolError, ToolExit};
use crate::facts::tool::{End, Why};

/// Read from a pipe at a time, in bytes: what a pipe holds (pipe(7)).
const PIPE_BYTES: usize = 65_536;

/// One pipe of the child's. `None` once it has ended or cannot be read.
struct Stream<R> {
    pipe: Option<R>,
    output: Output,
}

struct Watched {
    stdout: Stream<ChildStdout>,
    stderr: Stream<ChildStderr>,
    progress: Option<(OwnedFd, Parser)>,
    limit_bytes: u64,
}

/// Waits until the child ends or `tool`'s bounds are met.
pub(super) fn watch(
    tool: Tool,
    mut child: Child,
    cancels: &[&Cancel],
) -> Result<ToolExit, ToolError> {
    let begun = Instant::now();
    let deadline = begun.checked_add(tool.deadline);
    let mut watched = Watched {
        stdout: Stream { pipe: child.stdout.take(), output: Output::default() },
        stderr: Stream { pipe: child.stderr.take(), output: Output::default() },
        // Our copy of the write end goes, so that the pipe ends with the child.
        progress: tool.progress.map(|pipe| (pipe.read, pipe.parser)),
        limit_bytes: tool.output_limit_bytes,
    };
    let pid = child_pid(&child);
    let end = watched
        .prepare()
        .and_then(|()| pidfd_open(pid, PidfdFlags::empty()).map_err(io::Error::from))
        .and_then(|pidfd| watched.wait(&pidfd, pid, deadline, tool.grace, cancels));
    let waited = match end {
        Ok(waited) => waited,
        Err(source) => {
            kill_group(pid);
            leave(child);
            return Err(ToolError::Watch { program: tool.program, source });
        }
    };
    // The leader is dead but not reaped: its group still has its name, and what is left in it goes.
    kill_group(pid);
    watched.drain();
    let end = match waited {
        Waited::Ended { killed } => {
            let status = child
                .wait()
                .map_err(|source| ToolError::Watch { program: tool.program, source })?;
            killed.map_or_else(|| end_of(status), End::Killed)
        }
        Waited::Stuck { why } => {
            leave(child);
            End::Stuck { pid: pid.as_raw_nonzero().get().cast_unsigned(), why }
        }
    };
    let (stdout, stderr) = (watched.stdout.output, watched.stderr.output);
    Ok(ToolExit { end, stdout, stderr, took: begun.elapsed() })
}

enum Waited {
    Ended { killed: Option<Why> },
    Stuck { why: Why },
}

impl Watched {
    fn prepare(&self) -> io::Result<()> {
        if let Some(pipe) = &self.stdout.pipe {
            rustix::io::ioctl_fionbio(pipe, true)?;
        }
        if let Some(pipe) = &self.stderr.pipe {
            rustix::io::ioctl_fionbio(pipe, true)?;
        }
        Ok(())
    }

    fn wait(
        &mut self,
        pidfd: &OwnedFd,
        pid: Pid,
        deadline: Option<Instant>,
        grace: Duration,
        cancels: &[&Cancel],
    ) -> io::Result<Waited> {
        let mut killed: Option<(Why, Instant)> = None;
        loop {
            let until = killed.map_or(deadline, |(_, at)| at.checked_add(grace));
            // After the kill nobody asks about the signals again: a raised one stays readable.
            let signals = if killed.is_some() { &[] } else { cancels };
            let ready = self.poll(pidfd, signals, until)?;
            self.read();
            if ready.ended {
                return Ok(Waited::Ended { killed: killed.map(|(why, _)| why) });
            }
            let late = until.is_some_and(|until| Instant::now() >= until);
            match killed {
                Some((why, _)) if late => return Ok(Waited::Stuck { why }),
                Some(_) => {}
                None => {
                    let why = match () {
                        () if ready.cancelled => Some(Why::Cancelled),
                        () if late => Some(Why::Deadline),
                        () if self.is_flooded() => Some(Why::Flood),
                        () => None,
                    };
                    if let Some(why) = why {
                        kill_group(pid);
                        killed = Some((why, Instant::now()));
                    }
                }
            }
        }
    }

    fn poll(
        &self,
        pidfd: &OwnedFd,
        cancels: &[&Cancel],
        until: Option<Instant>,
    ) -> io::Result<Ready> {
        let mut fds = vec![PollFd::new(pidfd, PollFlags::IN)];
        fds.extend(cancels.iter().map(|cancel| PollFd::new(*cancel, PollFlags::IN)));
        let pipes = [
            self.stdout.pipe.as_ref().map(AsFd::as_fd),
            self.stderr.pipe.as_ref().map(AsFd::as_fd),
            self.progress.as_ref().map(|(pipe, _)| pipe.as_fd()),
        ];
        let pipes = pipes.into_iter().flatten();
        fds.extend(pipes.map(|pipe| PollFd::from_borrowed_fd(pipe, PollFlags::IN)));
        let timeout = until.map(|until| {
            let left = until.saturating_duration_since(Instant::now());
            Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: i64::from(left.subsec_nanos()),
            }
        });
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let is_ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
        Ok(Ready {
            ended: is_ready(&fds[0]),
            cancelled: fds[1..=cancels.len()].iter().any(is_ready),
        })
    }

    /// Takes what the pipes hold, once round.
    fn read(&mut self) -> bool {
        let out = read_some(&mut self.stdout.pipe, |bytes| self.stdout.output.push(bytes));
        let err = read_some(&mut self.stderr.pipe, |bytes| self.stderr.output.push(bytes));
        if let Some((pipe, mut parser)) = self.progress.take() {
            let mut pipe = Some(std::fs::File::from(pipe));
            read_some(&mut pipe, |bytes| parser.push(bytes));
            self.progress = pipe.map(|pipe| (pipe.into(), parser));
        }
        out || err
    }

    /// Takes what the child left in the pipes. Not until they end: a process that left the group
    /// may hold them for ever. So what arrives later is lost, and the rounds are counted.
    fn drain(&mut self) {
        let mut rounds = 0;
        while self.read() && rounds < 64 {
            rounds += 1;
        }
    }

    fn is_flooded(&self) -> bool {
        let seen = self.stdout.output.seen_bytes().max(self.stderr.output.seen_bytes());
        seen > self.limit_bytes
    }
}

struct Ready {
    ended: bool,
    cancelled: bool,
}

fn read_some<R: Read>(pipe: &mut Option<R>, push: impl FnOnce(&[u8])) -> bool {
    let Some(open) = pipe else { return false };
    let mut buffer = [0; PIPE_BYTES];
    match open.read(&mut buffer) {
        Ok(0) => *pipe = None,
        Ok(count) => {
            push(&buffer[..count]);
            return true;
        }
        Err(err)
            if matches!(err.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
        Err(_) => *pipe = None,
    }
    false
}

fn end_of(status: ExitStatus) -> End {
    match (status.code(), status.signal()) {
        (Some(code), _) => End::Exited(code),
        (None, Some(signal)) => End::Signalled(signal),
        (None, None) => unreachable!("wait(2) reports an exit or a signal, nothing else"),
    }
}

fn child_pid(child: &Child) -> Pid {
    Pid::from_raw(child.id().cast_signed()).expect("a child's id is not 0")
}

fn kill_group(leader: Pid) {
    // ESRCH: nobody is left in it. EPERM cannot be: the guard is root.
    let _ = kill_process_group(leader, Signal::KILL);
}

/// Reaps a child that does not die, whenever it does.
fn leave(mut child: Child) {
    let reaper = std::thread::Builder::new().name("tool-reaper".into());
    // Without a thread it stays a zombie once it dies: one line in the process table.
    let _ = reaper.spawn(move || child.wait());
}
