//! One allowance for all that trials keep: stores, redo logs, undo records.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug, Clone)]
pub struct Quota(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    used_bytes: AtomicU64,
    limit_bytes: u64,
}

impl Quota {
    #[must_use]
    pub fn new(limit_bytes: u64) -> Self {
        Self(Arc::new(Shared { used_bytes: AtomicU64::new(0), limit_bytes }))
    }

    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.0.used_bytes.load(Ordering::Relaxed)
    }

    #[must_use]
    pub fn limit_bytes(&self) -> u64 {
        self.0.limit_bytes
    }

    pub(super) fn charge(&self) -> Charge {
        Charge { quota: self.clone(), bytes: 0 }
    }

    /// Counts what is there already, limit or not.
    pub(super) fn record(&self, bytes: u64) {
        self.0.used_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn release(&self, bytes: u64) {
        // Never below zero: a file may have been removed by hand and counted by nobody.
        let less = |used: u64| Some(used.saturating_sub(bytes));
        let _ = self.0.used_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }
}

/// What one trial has taken; given back when dropped.
#[derive(Debug)]
pub(super) struct Charge {
    quota: Quota,
    bytes: u64,
}

impl Charge {
    /// Takes `bytes` more, if that much is left.
    pub(super) fn take(&mut self, bytes: u64) -> bool {
        let limit = self.quota.0.limit_bytes;
        let more = |used: u64| used.checked_add(bytes).filter(|used| *used <= limit);
        let order = Ordering::Relaxed;
        let taken = self.quota.0.used_bytes.fetch_update(order, order, more).is_ok();
        if taken {
            self.bytes += bytes;
        }
        taken
    }

    /// Leaves what was taken in the quota for good: it lies in a file that stays.
    pub(super) fn keep(mut self) {
        self.bytes = 0;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.quota.release(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_trials_share_one_limit_and_give_back_what_they_took() {
        let quota = Quota::new(100);
        let mut first = quota.charge();
        let mut second = quota.charge();
        assert!(first.take(60));
        assert!(!second.take(60));
        assert!(second.take(40));
        drop(first);
        assert_eq!(quota.used_bytes(), 40);
        second.keep();
        assert_eq!(quota.used_bytes(), 40);
        quota.release(u64::MAX);
        assert_eq!(quota.used_bytes(), 0);
    }
}
