//! The three feature words of the ext family (`s_feature_compat`, `_incompat`, `_ro_compat`).
//!
//! Source: `EXT4_FEATURE_*` in fs/ext4/ext4.h (6.18) and `EXT2_FEATURE_*` in lib/ext2fs/ext2_fs.h
//! (e2fsprogs 1.47).

use std::fmt;

pub const COMPAT_HAS_JOURNAL: u32 = 0x0004;
pub const COMPAT_SPARSE_SUPER2: u32 = 0x0200;
pub const COMPAT_FAST_COMMIT: u32 = 0x0400;
pub const COMPAT_ORPHAN_FILE: u32 = 0x1000;
/// The journal must be replayed ("needs_recovery").
pub const INCOMPAT_RECOVER: u32 = 0x0004;
pub const INCOMPAT_JOURNAL_DEV: u32 = 0x0008;
/// Group descriptors lie all over the device.
pub const INCOMPAT_META_BG: u32 = 0x0010;
pub const INCOMPAT_64BIT: u32 = 0x0080;
/// Multiple mount protection.
pub const INCOMPAT_MMP: u32 = 0x0100;
/// Checksums begin with a seed of their own, not with the UUID.
pub const INCOMPAT_CSUM_SEED: u32 = 0x2000;
pub const RO_COMPAT_SPARSE_SUPER: u32 = 0x0001;
/// Group descriptors have a crc16.
pub const RO_COMPAT_GDT_CSUM: u32 = 0x0010;
pub const RO_COMPAT_BIGALLOC: u32 = 0x0200;
pub const RO_COMPAT_METADATA_CSUM: u32 = 0x0400;
/// The orphan file may hold inodes.
pub const RO_COMPAT_ORPHAN_PRESENT: u32 = 0x1_0000;

/// What Linux 6.18 or e2fsprogs 1.47 has a name for.
const KNOWN: Features = Features { compat: 0x1fff, incompat: 0x3_f7df, ro_compat: 0x1_ffff };

/// What ext2 and ext3 may use beside the journal: `filetype`, `needs_recovery`, `meta_bg`;
/// `sparse_super`, `large_file`, `btree_dir`.
const EXT3: Features = Features { compat: u32::MAX, incompat: 0x0016, ro_compat: 0x0007 };

/// The feature words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Features {
    /// A kernel that does not know one may mount the filesystem; e2fsck may not check it.
    pub compat: u32,
    /// A kernel that does not know one must not mount it.
    pub incompat: u32,
    /// A kernel that does not know one may mount it for reading only.
    pub ro_compat: u32,
}

impl Features {
    #[must_use]
    pub fn has_compat(self, feature: u32) -> bool {
        self.compat & feature != 0
    }

    #[must_use]
    pub fn has_incompat(self, feature: u32) -> bool {
        self.incompat & feature != 0
    }

    #[must_use]
    pub fn has_ro_compat(self, feature: u32) -> bool {
        self.ro_compat & feature != 0
    }

    #[must_use]
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }

    /// The features that this program has no name for.
    #[must_use]
    pub fn unknown(self) -> Self {
        self.without(KNOWN)
    }

    pub(super) fn need_ext4(self) -> bool {
        !self.without(EXT3).is_empty()
    }

    fn without(self, other: Self) -> Self {
        Self {
            compat: self.compat & !other.compat,
            incompat: self.incompat & !other.incompat,
            ro_compat: self.ro_compat & !other.ro_compat,
        }
    }
}

/// As e2fsck names what it does not know: `FEATURE_C12 FEATURE_I31 FEATURE_R16`.
impl fmt::Display for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = [('C', self.compat), ('I', self.incompat), ('R', self.ro_compat)];
        let mut between = "";
        for (letter, word) in words {
            for bit in (0..32).filter(|bit| word >> bit & 1 != 0) {
                write!(f, "{between}FEATURE_{letter}{bit}")?;
                between = " ";
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_features_are_named_as_e2fsck_names_them() {
        let features =
            Features { compat: 1 << 31 | 4, incompat: 1 << 31 | 0x40, ro_compat: 1 << 31 | 1 };
        assert_eq!(features.unknown().to_string(), "FEATURE_C31 FEATURE_I31 FEATURE_R31");
    }
}
