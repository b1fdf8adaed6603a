//! At most two checks at once on a node; the others wait in the order they came.

use std::collections::BTreeSet;
use std::sync::Mutex;

use tokio::sync::{Semaphore, SemaphorePermit};

/// How many checks run at once.
///
/// Two (DESIGN, "Budget"): e2fsck takes a core and up to hundreds of megabytes. At one, a huge
/// volume keeps all small ones waiting; at four, a node that restarts has no memory for its pods.
const CHECKS_AT_ONCE: usize = 2;

/// The checks of this node that run or wait.
#[derive(Debug)]
pub struct Queue {
    places: Semaphore,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    next: u64,
    tickets: BTreeSet<u64>,
}

/// The right to check, until it is dropped.
#[derive(Debug)]
pub struct Turn<'a> {
    _permit: SemaphorePermit<'a>,
}

/// Taken back when the wait is over, or given up.
struct Ticket<'a> {
    queue: &'a Queue,
    number: u64,
}

impl Default for Queue {
    fn default() -> Self {
        Self { places: Semaphore::new(CHECKS_AT_ONCE), waiting: Mutex::default() }
    }
}

impl Queue {
    /// Waits for a turn. `told` hears the place, each time it has changed.
    pub async fn turn(&self, mut told: impl FnMut(usize)) -> Turn<'_> {
        if let Ok(permit) = self.places.try_acquire() {
            return Turn { _permit: permit };
        }
        let ticket = self.draw();
        let mut acquired = std::pin::pin!(self.places.acquire());
        loop {
            told(ticket.place());
            let again = tokio::time::sleep(LOOK_EVERY);
            tokio::select! {
                permit = &mut acquired => {
                    let permit = permit.expect("nobody closes the semaphore");
                    return Turn { _permit: permit };
                }
                () = again => {}
            }
        }
    }

    fn draw(&self) -> Ticket<'_> {
        let mut waiting = self.waiting.lock().expect("nothing panics under this lock");
        let number = waiting.next;
        waiting.next += 1;
        waiting.tickets.insert(number);
        Ticket { queue: self, number }
    }
}

/// How often a place is told anew: a person reads it, and a check takes seconds at least.
const LOOK_EVERY: std::time::Duration = std::time::Duration::from_millis(500);

impl Ticket<'_> {
    fn place(&self) -> usize {
        let waiting = self.queue.waiting.lock().expect("nothing panics under this lock");
        waiting.tickets.range(..=self.number).count()
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let mut waiting = self.queue.waiting.lock().expect("nothing panics under this lock");
        waiting.tickets.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn two_check_and_the_others_wait_in_order() {
        let queue = Queue::default();
        let (first, _second) = (queue.turn(|_| {}).await, queue.turn(|_| {}).await);
        let places = Mutex::new((0, 0));
        let mut third = std::pin::pin!(queue.turn(|place| places.lock().unwrap().0 = place));
        assert!(third.as_mut().now_or_never().is_none());
        let mut fourth = Box::pin(queue.turn(|place| places.lock().unwrap().1 = place));
        assert!(fourth.as_mut().now_or_never().is_none());
        assert_eq!(*places.lock().unwrap(), (1, 2));
        drop(first);
        let turn = third.await;
        tokio::time::advance(LOOK_EVERY * 2).await;
        assert!(fourth.as_mut().now_or_never().is_none());
        assert_eq!(places.lock().unwrap().1, 1);
        // Who gives up leaves no gap.
        drop(fourth);
        assert!(queue.waiting.lock().unwrap().tickets.is_empty());
        drop(turn);
    }
}
