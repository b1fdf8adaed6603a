//! Work that may block for ever, on threads that may be left behind.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::HostError;

/// How many threads may be at work or hang at once.
///
/// A device that hangs takes one with each retry of kubelet, about one in two minutes. Half as
/// many would be gone within an hour; each costs a stack and a task, not more.
const MAX_THREADS: usize = 64;

/// The threads of one host.
#[derive(Clone, Default)]
pub(super) struct Threads {
    running: Arc<AtomicUsize>,
}

/// One of [`MAX_THREADS`], for as long as its thread runs.
pub(super) struct Slot(Arc<AtomicUsize>);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Threads {
    /// Runs `work` about `subject`. Work that is late goes on by itself, and what it returns is
    /// dropped when it ends: a descriptor in it is closed then.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        subject: &Path,
        deadline: Duration,
        work: impl FnOnce() -> Result<T, HostError> + Send + 'static,
    ) -> Result<T, HostError> {
        let (done, answer) = oneshot::channel();
        self.spawn(subject, move || {
            // Nobody listens any more: that is what being late means.
            let _ = done.send(catch_unwind(AssertUnwindSafe(work)));
        })?;
        match timeout(deadline, answer).await {
            Ok(Ok(Ok(result))) => result,
            Ok(Ok(Err(panic))) => resume_unwind(panic),
            Ok(Err(_)) => unreachable!("a thread answers before it ends"),
            Err(_) => Err(late(subject, deadline)),
        }
    }

    /// Starts work that nobody waits for, on a thread of the runtime's: it keeps them for a while,
    /// so the next look of the same call finds one.
    pub(super) fn spawn(
        &self,
        subject: &Path,
        work: impl FnOnce() + Send + 'static,
    ) -> Result<(), HostError> {
        let slot = self.take(subject)?;
        tokio::task::spawn_blocking(move || {
            work();
            drop(slot);
        });
        Ok(())
    }

    fn take(&self, subject: &Path) -> Result<Slot, HostError> {
        let running = self.running.fetch_add(1, Ordering::Relaxed);
        let slot = Slot(Arc::clone(&self.running));
        if running < MAX_THREADS {
            Ok(slot)
        } else {
            Err(HostError::Backlog { path: subject.into() })
        }
    }
}

pub(super) fn late(subject: &Path, deadline: Duration) -> HostError {
    HostError::Deadline { path: subject.into(), after_ms: deadline.as_millis() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_late_is_left_behind_and_counted_until_it_ends() {
        let threads = Threads::default();
        let (release, hold) = std::sync::mpsc::channel::<()>();
        let work = move || {
            let _ = hold.recv();
            Ok(())
        };
        let late = threads.run(Path::new("dev"), Duration::from_millis(5), work).await;
        assert!(matches!(late, Err(HostError::Deadline { .. })));
        assert_eq!(threads.running.load(Ordering::Relaxed), 1);
        drop(release);
        while threads.running.load(Ordering::Relaxed) > 0 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn threads_that_hang_do_not_pile_up() {
        let threads = Threads::default();
        let (release, hold) = std::sync::mpsc::channel::<()>();
        let hold = Arc::new(std::sync::Mutex::new(hold));
        for _ in 0..MAX_THREADS {
            let hold = Arc::clone(&hold);
            threads
                .spawn(Path::new("dev"), move || {
                    let _ = hold.lock().unwrap().recv();
                })
                .unwrap();
        }
        let refused = threads.spawn(Path::new("dev"), || {});
        assert!(matches!(refused, Err(HostError::Backlog { .. })));
        drop(release);
    }
}
