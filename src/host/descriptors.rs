//! Moments in which every descriptor has a second copy.
//!
//! Between fork and exec a child has a copy of each of our descriptors, and so has a thread that
//! has just taken a table of its own. A device closed in such a moment stays held until the copy
//! is gone, and the mount that follows is told EBUSY. So copies are made under this lock, and what
//! must be free once it is closed is closed under it too.

use std::sync::{Mutex, MutexGuard, PoisonError};

static COPIES: Mutex<()> = Mutex::new(());

/// Held by whoever makes copies, until they are gone, and by whoever closes what must have none.
pub(super) fn lock_copies() -> MutexGuard<'static, ()> {
    COPIES.lock().unwrap_or_else(PoisonError::into_inner)
}
