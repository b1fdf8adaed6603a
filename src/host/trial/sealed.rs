//! A thread that may wait for our own FUSE without ever keeping the guard from dying.
//!
//! A thread that waits for an answer from FUSE cannot be killed once the request has been read
//! (`request_wait_answer`, fs/fuse/dev.c): it waits until somebody answers or the connection ends.
//! The connection ends when the last descriptor of it is closed, and a process's descriptors are
//! closed when its *last* thread goes: a guard killed while one of its threads waits for another
//! of its threads would hang for ever. So whatever touches the trial's filesystem from within the
//! guard runs here, in a thread with a descriptor table of its own that does not hold the
//! connection: when the rest of the guard dies, the connection ends, and with it the wait.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use nix::sched::{CloneFlags, unshare};

use crate::host::descriptors::lock_copies;

/// What a sealed thread will say.
#[derive(Debug)]
pub(super) struct Sealed<T>(Receiver<T>);

/// Starts `work` on a thread whose descriptors are a copy of `kept` and nothing else; they have
/// the same numbers. Once this has returned, the caller may close its own.
///
/// `work` must neither use nor drop a descriptor that another thread opened: the numbers mean
/// something else here.
pub(super) fn start<T: Send + 'static>(
    kept: &[BorrowedFd<'_>],
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<Sealed<T>> {
    let mut kept: Vec<RawFd> = kept.iter().map(AsRawFd::as_raw_fd).collect();
    kept.sort_unstable();
    let (sealed, ready) = channel();
    let (answer, answered) = channel();
    let copies = lock_copies();
    thread::Builder::new().name("trial-sealed".into()).spawn(move || {
        let result = unshare(CloneFlags::CLONE_FILES)
            .map_err(io::Error::from)
            .and_then(|()| close_all_but(&kept));
        let go = result.is_ok();
        // The other side may have given up waiting; the work is done nevertheless.
        let _ = sealed.send(result);
        if go {
            let _ = answer.send(work());
        }
    })?;
    ready.recv().expect("the thread sends before anything else")?;
    drop(copies);
    Ok(Sealed(answered))
}

impl<T> Sealed<T> {
    /// What the work came to, or `None` if it takes longer than `patience`. It then goes on by
    /// itself.
    pub(super) fn wait(&self, patience: Duration) -> Option<T> {
        match self.0.recv_timeout(patience) {
            Ok(answer) => Some(answer),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => unreachable!("the work does not panic"),
        }
    }
}

fn close_all_but(kept: &[RawFd]) -> io::Result<()> {
    let mut first: u32 = 0;
    for fd in kept {
        let fd = fd.cast_unsigned();
        close_range(first, fd.checked_sub(1))?;
        first = fd + 1;
    }
    close_range(first, Some(u32::MAX))
}

fn close_range(first: u32, last: Option<u32>) -> io::Result<()> {
    let Some(last) = last.filter(|last| *last >= first) else { return Ok(()) };
    // SAFETY: close_range(2) takes integers only. It closes descriptors of this thread's own
    // table, which `unshare` made a moment ago; no value in this thread owns one of them.
    match unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_sealed_thread_has_what_it_was_given_and_nothing_else() {
        let (kept, other) = (File::open("/dev/null").unwrap(), File::open("/dev/null").unwrap());
        let numbers = [kept.as_raw_fd(), other.as_raw_fd()];
        let is_open = |fd| nix::fcntl::fcntl(raw(fd), nix::fcntl::FcntlArg::F_GETFD).is_ok();
        let sealed = start(&[kept.as_fd()], move || numbers.map(is_open)).unwrap();
        assert_eq!(sealed.wait(Duration::from_secs(10)), Some([true, false]));
        assert!(other.metadata().is_ok());
    }

    fn raw(fd: RawFd) -> BorrowedFd<'static> {
        // SAFETY: only asked whether it is open.
        unsafe { BorrowedFd::borrow_raw(fd) }
    }
}
