//! A signal that is raised once and that a waiting thread notices at once.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

/// Raised once, seen by every clone. It is a descriptor, so that a thread which waits for a child
/// and for three pipes can wait for this too.
#[derive(Debug, Clone)]
pub struct Cancel(Arc<OwnedFd>);

impl Cancel {
    /// # Errors
    /// The process, or the machine, is out of descriptors.
    pub fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self(Arc::new(event)))
    }

    pub fn raise(&self) {
        // The counter never comes near its limit of 2^64 - 2, the only reason to refuse a write.
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }

    #[must_use]
    pub fn is_raised(&self) -> bool {
        let mut fds = [PollFd::new(&*self.0, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        matches!(poll(&mut fds, Some(&now)), Ok(1))
    }

    /// Raises the signal when the guard is dropped: with the future that waits for a check, the
    /// check goes too.
    #[must_use]
    pub fn on_drop(&self) -> CancelOnDrop {
        CancelOnDrop(self.clone())
    }
}

impl AsFd for Cancel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[derive(Debug)]
pub struct CancelOnDrop(Cancel);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.raise();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_clone_sees_the_signal_and_goes_on_seeing_it() {
        let cancel = Cancel::new().unwrap();
        let other = cancel.clone();
        assert!(!other.is_raised());
        drop(cancel.on_drop());
        assert!(other.is_raised());
        assert!(other.is_raised());
    }
}
