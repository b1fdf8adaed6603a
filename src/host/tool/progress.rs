//! How far e2fsck has come: `-C FD` makes it write a line per step to a descriptor.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use rustix::pipe::{PipeFlags, pipe_with};
use tokio::sync::watch;

use crate::facts::tool::Progress;

/// The longest line that is waited for, in bytes: three numbers and a path (`PATH_MAX`, 4096).
const MAX_LINE_BYTES: usize = 4096 + 64;

/// The pipe a checker reports through. Its write end keeps its number in the child, so the
/// arguments can name it: `-C`, [`ProgressPipe::number`].
#[derive(Debug)]
pub struct ProgressPipe {
    pub(super) read: OwnedFd,
    pub(super) write: OwnedFd,
    pub(super) parser: Parser,
}

impl ProgressPipe {
    /// The pipe; each step that is seen is shown in `latest`.
    ///
    /// # Errors
    /// The process, or the machine, is out of descriptors.
    pub fn new(latest: watch::Sender<Option<Progress>>) -> io::Result<Self> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&read, true)?;
        Ok(Self { read, write, parser: Parser { line: Vec::new(), latest } })
    }

    #[must_use]
    pub fn number(&self) -> RawFd {
        self.write.as_raw_fd()
    }
}

/// Makes steps of lines that arrive in pieces.
#[derive(Debug)]
pub(super) struct Parser {
    line: Vec<u8>,
    latest: watch::Sender<Option<Progress>>,
}

impl Parser {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if byte == b'\n' {
                if let Some(progress) = parse_line(&self.line) {
                    self.latest.send_replace(Some(progress));
                }
                self.line.clear();
            } else if self.line.len() < MAX_LINE_BYTES {
                self.line.push(byte);
            }
        }
    }
}

/// `pass done total device`, e2fsck(8), option -C.
fn parse_line(line: &[u8]) -> Option<Progress> {
    let line = std::str::from_utf8(line).ok()?;
    let mut words = line.split_ascii_whitespace();
    let pass = words.next()?.parse().ok()?;
    let done: u64 = words.next()?.parse().ok()?;
    let total: u64 = words.next()?.parse().ok()?;
    let percent = u128::from(done.min(total)) * 100 / u128::from(total.max(1));
    Some(Progress { pass, percent: u8::try_from(percent).ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pieces: &[&str], expected: Option<(u8, u8)>) {
        let (latest, seen) = watch::channel(None);
        let mut parser = Parser { line: Vec::new(), latest };
        pieces.iter().for_each(|piece| parser.push(piece.as_bytes()));
        let expected = expected.map(|(pass, percent)| Progress { pass, percent });
        assert_eq!(*seen.borrow(), expected, "{pieces:?}");
    }

    #[test]
    fn a_step_is_known_once_its_line_has_ended() {
        check(&["1 8 32 /dev/x\n"], Some((1, 25)));
        check(&["1 8 32 /dev/x"], None);
        check(&["1 8 3", "2 /dev/x\n5 3", "2 32 /dev/x\n"], Some((5, 100)));
        check(&["2 0 0 /dev/x\n"], Some((2, 0)));
        check(&["3 7 5 /dev/x\n"], Some((3, 100)));
    }

    #[test]
    fn what_is_no_step_changes_nothing() {
        check(&["1 1 2 /dev/x\n", "\n", "x y z\n", "4 1\n", "300 1 2 /\n"], Some((1, 50)));
        check(&["1 1 18446744073709551616 /dev/x\n"], None);
    }
}
