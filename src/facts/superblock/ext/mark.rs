//! A superblock that says of itself that its filesystem needs a check.

use super::{LEN_BYTES, Reading, Superblock, checksum, features};

/// `s_state`, and the two bits of it (fs/ext4/ext4.h).
const STATE: usize = 0x3a;
const VALID: u16 = 0x0001;
const ERRORS: u16 = 0x0002;

/// Where the checksum lies: over all that is before it.
const SUM: usize = 0x3fc;

/// `block`, 1024 bytes, not clean and with its error flag set: every e2fsck then looks at all of
/// it, and every kernel warns. `None` if it is no superblock that is whole.
#[must_use]
pub fn needing_check(block: &[u8]) -> Option<Vec<u8>> {
    let Reading::Intact(superblock) = Superblock::parse(block) else { return None };
    let mut marked = block.get(..LEN_BYTES)?.to_vec();
    let state = (superblock.state.0 & !VALID) | ERRORS;
    marked[STATE..STATE + 2].copy_from_slice(&state.to_le_bytes());
    if superblock.features.has_ro_compat(features::RO_COMPAT_METADATA_CSUM) {
        let sum = checksum(&marked[..SUM]);
        marked[SUM..].copy_from_slice(&sum.to_le_bytes());
    }
    Some(marked)
}

#[cfg(test)]
mod tests {
    use super::super::health::Health;
    use super::super::tests::sample;
    use super::*;

    #[test]
    fn a_marked_superblock_is_whole_and_not_clean() {
        let marked = needing_check(&sample(0)).unwrap();
        let Reading::Intact(superblock) = Superblock::parse(&marked) else { panic!() };
        let health = Health::of(&superblock, 0);
        assert!(health.error_flag && !health.marked_clean);
        assert_eq!(needing_check(&marked), Some(marked));
    }

    #[test]
    fn what_is_no_superblock_is_not_marked() {
        let mut damaged = sample(0);
        damaged[0x38] = 0;
        assert_eq!(needing_check(&damaged), None);
        assert_eq!(needing_check(&[0; 100]), None);
    }
}
