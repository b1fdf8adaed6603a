//! What an ext superblock says about the state of its filesystem.

use super::groups::Flaw;
use super::{Features, Journal, LastError, Superblock, features};

/// Everything the superblock knows that speaks for a check, or against one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// Marked as cleanly unmounted or checked.
    pub marked_clean: bool,
    /// The kernel marked it as erroneous.
    pub error_flag: bool,
    pub error_count: u32,
    pub last_error: Option<LastError>,
    /// Deleted files wait for their last blocks to be freed: in the list, or in the orphan file.
    pub orphans: bool,
    /// The journal, or its fast commit area, holds what the filesystem does not have yet.
    pub journal_to_replay: bool,
    pub check_due: Option<Due>,
    /// What is wrong with the group descriptors, as far as they were read.
    pub descriptors: Option<Flaw>,
    /// Features that this program has no name for: a checker of its age has none either.
    pub unknown_features: Features,
    /// A checker would write to a second device.
    pub external_journal: bool,
    /// Another node may hold it, and says so in a block of its own.
    pub multiple_mount_protection: bool,
}

/// Why e2fsck would check a clean filesystem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    Mounts { mounts: u16, max: u16 },
    Interval { since_seconds: u64, interval_seconds: u32 },
}

impl Health {
    /// # Arguments
    /// `now_seconds` since the epoch. A last check in the future is a wrong clock, not a due one.
    #[must_use]
    pub fn of(superblock: &Superblock, now_seconds: u64) -> Self {
        let features = superblock.features;
        let state = superblock.state;
        Self {
            marked_clean: state.is_valid(),
            error_flag: state.has_errors(),
            error_count: superblock.error_count,
            last_error: superblock.last_error.clone(),
            orphans: superblock.last_orphan_inode != 0
                || state.recovers_orphans()
                || features.has_ro_compat(features::RO_COMPAT_ORPHAN_PRESENT),
            journal_to_replay: features.has_incompat(features::INCOMPAT_RECOVER)
                || state.replays_fast_commits(),
            check_due: due(superblock, now_seconds),
            descriptors: None,
            unknown_features: features.unknown(),
            external_journal: matches!(superblock.journal, Journal::External { .. }),
            multiple_mount_protection: features.has_incompat(features::INCOMPAT_MMP),
        }
    }

    /// The same, with what was found in the group descriptors.
    #[must_use]
    pub fn with_descriptors(self, flaw: Option<Flaw>) -> Self {
        Self { descriptors: flaw, ..self }
    }

    /// Whether nothing in the superblock, and in the descriptors behind it, asks for a checker.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.marked_clean
            && !self.error_flag
            && self.error_count == 0
            && !self.orphans
            && !self.journal_to_replay
            && self.check_due.is_none()
            && self.descriptors.is_none()
    }
}

/// As e2fsck(8) decides it (`check_if_skip`): by mounts first, then by time.
fn due(superblock: &Superblock, now_seconds: u64) -> Option<Due> {
    let mounts = superblock.mounts;
    if let Ok(max) = u16::try_from(superblock.max_mounts)
        && max > 0
        && mounts >= max
    {
        return Some(Due::Mounts { mounts, max });
    }
    let interval_seconds = superblock.check_interval_seconds;
    let since_seconds = now_seconds.saturating_sub(superblock.last_check_seconds);
    (interval_seconds > 0 && since_seconds >= u64::from(interval_seconds))
        .then_some(Due::Interval { since_seconds, interval_seconds })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{sample, sum};
    use super::*;

    fn health(change: impl FnOnce(&mut [u8]), now_seconds: u64) -> Health {
        let mut block = sample(0);
        change(&mut block);
        sum(&mut block);
        Health::of(&Superblock::parse(&block).intact().unwrap(), now_seconds)
    }

    #[test]
    fn a_clean_filesystem_asks_for_nothing() {
        assert!(health(|_| {}, 1_700_000_000).is_clean());
    }

    #[test]
    fn each_mark_asks_for_a_checker() {
        for (mark, at, byte) in [
            ("not clean", 0x3a, 0),
            ("error flag", 0x3a, 3),
            ("orphan recovery", 0x3a, 5),
            ("fast commit replay", 0x3a, 0x21),
            ("error count", 0x194, 1),
            ("orphan list", 0xe8, 12),
            ("orphan file", 0x66, 1),
            ("needs recovery", 0x60, 0xc6),
        ] {
            assert!(!health(|block| block[at] = byte, 0).is_clean(), "{mark}");
        }
    }

    #[test]
    fn a_check_is_due_by_mounts_or_by_time() {
        let by_mounts = |block: &mut [u8]| block[0x34..0x38].copy_from_slice(&[20, 0, 20, 0]);
        assert_eq!(health(by_mounts, 0).check_due, Some(Due::Mounts { mounts: 20, max: 20 }));
        let by_time = |block: &mut [u8]| {
            block[0x40..0x44].copy_from_slice(&1000_u32.to_le_bytes());
            block[0x44..0x48].copy_from_slice(&500_u32.to_le_bytes());
        };
        assert_eq!(health(by_time, 1499).check_due, None);
        let due = Due::Interval { since_seconds: 500, interval_seconds: 500 };
        assert_eq!(health(by_time, 1500).check_due, Some(due));
        assert_eq!(health(by_time, 10).check_due, None, "a clock in the past");
    }
}
