//! DECIDE: who holds this device, and is it the right one?
//!
//! [`judge`] is a plain function from what a node shows to a [`Claim`]. Devices are compared by
//! their numbers and maps by their UUIDs, never by names.

mod expected;
mod judge;
pub mod ruling;
#[cfg(test)]
mod tests;
mod text;

use std::path::PathBuf;

use nix::errno::Errno;

pub use self::expected::{Engine, Expected};
pub use self::judge::judge;
pub use self::ruling::{Multipath, Ruling};
use crate::facts::device::{Holder, LoopOnTop, MapName, Member, MountSighting, Sightings, Target};
use crate::facts::process::Process;

/// Who holds a device, with all that it rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// Proven: nobody holds it, and it is the volume's as far as identity can be seen.
    Free,
    /// Only what belongs to the volume holds it: its staging, its targets, its pods, its own
    /// map. Nothing is wrong, and nothing may check it.
    Own {
        maps: Vec<MapName>,
        mounts: Vec<MountSighting>,
        loops: Vec<LoopOnTop>,
    },
    /// A node without a device.
    Gone {
        why: Gone,
    },
    /// It is another volume's disk.
    WrongVolume {
        found: Identity,
        expected: Identity,
    },
    /// Other nodes beside it have its number, and nothing proves that it is this volume's.
    SharedNode {
        others: Vec<PathBuf>,
    },
    /// A multipath map joined disks of different targets into one.
    MixedMultipath {
        map: HeldMap,
        paths: Vec<Member>,
    },
    Multipath {
        map: HeldMap,
        paths: Option<Vec<Member>>,
    },
    Lvm {
        map: HeldMap,
    },
    Crypt {
        map: HeldMap,
    },
    Md {
        array: Holder,
        level: String,
    },
    OtherHolder {
        holder: Holder,
    },
    Swap,
    /// At least one mount that is not the volume's own. The living stand before the dead.
    MountedElsewhere {
        mounts: Vec<MountSighting>,
    },
    /// The exclusive open is refused, and no holder, swap or mount explains it.
    HeldOpen {
        openers: Option<Sightings<Process>>,
    },
    LoopOnTop {
        loops: Vec<LoopOnTop>,
    },
    ReadOnlyDevice,
    /// Nothing speaks against it, and this is not known.
    Unknown {
        missing: Missing,
    },
}

/// A device-mapper map on top of the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldMap {
    pub holder: Holder,
    pub map: MapName,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gone {
    /// Opening it says ENXIO or ENODEV.
    NoDevice,
    /// The kernel knows no device of its number.
    NotInSysfs,
    /// It has no size: a loop or target that serves nothing.
    Empty,
}

/// Whose a disk is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Identity {
    Target(Target),
    Map(String),
}

/// What would have to be known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    ExclusiveOpen(Errno),
    /// Neither holders nor a list of mounts: nobody looked, or was let look.
    Mounts,
    /// Some processes would not be looked at.
    Processes(usize),
    Sysfs,
    Size,
    ReadOnly,
    Holders,
    Loops,
    /// The session's target, or the map's name.
    Identity,
    Twins,
}

impl Claim {
    /// One word for log and metric.
    #[must_use]
    pub fn label(&self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Own { .. } => "own",
            Self::Gone { .. } => "gone",
            Self::WrongVolume { .. } => "wrong_volume",
            Self::SharedNode { .. } => "shared_node",
            Self::MixedMultipath { .. } => "mixed_multipath",
            Self::Multipath { .. } => "multipath",
            Self::Lvm { .. } => "lvm",
            Self::Crypt { .. } => "crypt",
            Self::Md { .. } => "md",
            Self::OtherHolder { .. } => "other_holder",
            Self::Swap => "swap",
            Self::MountedElsewhere { .. } => "mounted_elsewhere",
            Self::HeldOpen { .. } => "held_open",
            Self::LoopOnTop { .. } => "loop_on_top",
            Self::ReadOnlyDevice => "read_only_device",
            Self::Unknown { .. } => "unknown",
        }
    }
}
