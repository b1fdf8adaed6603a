//! What a kill left behind.

use std::fmt;

/// Where it hit, by what is on the device and in the state directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hit {
    /// No log yet: nothing is to be done again.
    Before,
    /// An unfinished log.
    WritingLog,
    /// A log with its name, and the device as it was.
    Named,
    /// A log with its name, and the device half written.
    HalfWritten,
    /// A log with its name, and the device as it is to be.
    Written,
    /// The log is gone: all was done.
    After,
}

/// What the device has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Device {
    Old,
    New,
    Torn,
}

impl Hit {
    /// # Panics
    /// If the device and the state directory contradict each other.
    pub fn of(device: Device, left: &[String]) -> Self {
        let named = left.iter().any(|name| name.ends_with(".redo"));
        let unfinished = left.iter().any(|name| name.ends_with(".part"));
        match (device, named, unfinished) {
            (Device::Old, false, false) => Self::Before,
            (Device::Old, false, true) => Self::WritingLog,
            (Device::Old, true, false) => Self::Named,
            (Device::Torn, true, false) => Self::HalfWritten,
            (Device::New, true, false) => Self::Written,
            (Device::New, false, false) => Self::After,
            other => panic!("{other:?}: {left:?}"),
        }
    }

    /// Whether the log is to be done again.
    pub fn is_during(self) -> bool {
        matches!(self, Self::Named | Self::HalfWritten | Self::Written)
    }
}

impl fmt::Display for Hit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Before => "before the apply: unchanged",
            Self::WritingLog => "while the log was written: unchanged",
            Self::Named => "during: log named, device still old",
            Self::HalfWritten => "during: device half written",
            Self::Written => "during: device new, log not gone",
            Self::After => "after: device new",
        })
    }
}
