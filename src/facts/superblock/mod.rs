//! What lies on a device, read from its own bytes: layouts as their makers document them, in our
//! words. Every parser takes bytes and cannot fail: what is not there is a value too.

pub mod btrfs;
pub mod ext;
pub mod fields;
pub mod luks;
pub mod lvm;
pub mod md;
pub mod other;
pub mod partition;
pub mod swap;
pub mod uuid;
pub mod xfs;

use std::fmt;

pub use uuid::Uuid;

/// What one place on a device says about one format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reading<T> {
    /// The format's magic is not there.
    Absent,
    /// The magic is there, and the rest contradicts it.
    Damaged(Damage),
    Intact(T),
}

/// What contradicts a magic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    Checksum {
        stored: u32,
        computed: u32,
    },
    /// A field that no tool writes like this.
    Implausible {
        field: &'static str,
    },
}

/// A filesystem family that keeps copies of its superblock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    /// ext2, ext3 and ext4.
    Ext,
    Xfs,
    Btrfs,
}

impl<T> Reading<T> {
    #[must_use]
    pub fn intact(self) -> Option<T> {
        match self {
            Self::Intact(found) => Some(found),
            Self::Absent | Self::Damaged(_) => None,
        }
    }

    /// The same reading of something larger.
    pub fn map<U>(self, wrap: impl FnOnce(T) -> U) -> Reading<U> {
        match self {
            Self::Absent => Reading::Absent,
            Self::Damaged(damage) => Reading::Damaged(damage),
            Self::Intact(found) => Reading::Intact(wrap(found)),
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Checksum { stored, computed } => {
                write!(f, "its checksum is {stored:#010x} and should be {computed:#010x}")
            }
            Self::Implausible { field } => write!(f, "its {field} makes no sense"),
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ext => "ext4",
            Self::Xfs => "xfs",
            Self::Btrfs => "btrfs",
        })
    }
}
