//! What a volume is known to hold, from the guard's own record and the one in the cluster.

use std::fmt;

use crate::facts::memory;
use crate::facts::superblock::Uuid;

/// What is known of a volume's past.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Memory {
    /// Every record could be read, and none speaks of this volume.
    Nothing,
    /// A blank device was handed on to be formatted, and no filesystem was seen on it since.
    FormatForwarded {
        /// In seconds since the epoch.
        at_seconds: u64,
    },
    Held(Remembered),
    /// There is no record of our own, and another that may exist cannot be read.
    Unreadable {
        /// Which, for the message.
        missing: &'static str,
    },
}

/// What was seen on a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remembered {
    /// As [`super::Filesystem::name`] gives it, or `LUKS`.
    pub name: String,
    pub uuid: Option<Uuid>,
}

impl From<memory::Remembered> for Memory {
    /// A record whose details are lost still speaks of data.
    fn from(remembered: memory::Remembered) -> Self {
        let record = remembered.into_record();
        match (record.held, record.format_forwarded_seconds) {
            (Some(held), _) => Self::Held(Remembered { name: held.name, uuid: held.uuid }),
            (None, Some(at_seconds)) => Self::FormatForwarded { at_seconds },
            (None, None) => Self::Nothing,
        }
    }
}

impl fmt::Display for Remembered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        self.uuid.map_or(Ok(()), |uuid| write!(f, " {uuid}"))
    }
}
