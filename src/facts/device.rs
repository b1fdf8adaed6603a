//! What a node shows of one block device: who holds it, and whose it is.
//!
//! `None` is always *could not be found out*, never *there is none*.

use std::path::PathBuf;

use nix::errno::Errno;

use super::mounts::Mount;
use super::process::{PodUid, Process};
use crate::volume::DevNumber;

/// What is at a device path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    Absent,
    /// Something that is no block device: a file or a directory.
    NotADevice,
    Device(Box<DeviceFacts>),
}

/// One device, by its number; its name is only what it was asked for by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceFacts {
    pub path: PathBuf,
    pub number: DevNumber,
    pub exclusive_open: ExclusiveOpen,
    /// Whether the kernel knows a device of this number (`/sys/dev/block/M:N`).
    pub is_known: Option<bool>,
    /// What the kernel calls it.
    pub name: Option<String>,
    pub size_bytes: Option<u64>,
    pub is_read_only: Option<bool>,
    pub target: Option<Target>,
    /// Its own device-mapper name, where it is a map itself.
    pub map: Option<Option<MapName>>,
    pub holders: Option<Vec<Holder>>,
    /// What it is made of itself, where it is a map or an array.
    pub slaves: Option<Vec<Member>>,
    pub loops: Option<Vec<LoopOnTop>>,
    /// Other names in the directory of its node with the same number.
    pub twins: Option<Vec<PathBuf>>,
    /// Looked at only where the exclusive open was refused: swap, partitions and mounts refuse it.
    pub is_swap: Option<bool>,
    pub partitions: Option<Vec<Partition>>,
    /// Whoever judges may ask for them: [`DeviceFacts::wants_users`].
    pub users: Users,
}

/// What `open(O_RDONLY | O_EXCL)` said. The kernel refuses it while a mount of any namespace, a
/// map, an array, swap or another such open holds the device or a partition of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExclusiveOpen {
    Granted,
    Busy,
    /// A node without a device: ENXIO or ENODEV.
    NoDevice,
    Failed(Errno),
}

/// Whose disk it is, for one that a target serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The session's target name: for a v1 engine, the identity of the volume.
    Iqn(String),
    NotIscsi,
}

/// What device-mapper calls a map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapName {
    pub name: String,
    /// Says who made it, by its prefix (`mpath-`, `LVM-`, `CRYPT-`); empty where nobody did.
    pub uuid: String,
}

/// A device made on top of another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// What the kernel calls it: `dm-0`, `md127`, `bcache0`.
    pub name: String,
    pub number: Option<DevNumber>,
    pub kind: HolderKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HolderKind {
    /// Of device-mapper, with all that it is made of.
    Map { map: MapName, paths: Option<Vec<Member>> },
    /// An array.
    Md { level: String },
    /// Neither.
    Other,
    /// It could not be looked at, or was gone by then.
    Unread,
}

/// One device under a map or an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    pub name: String,
    pub number: Option<DevNumber>,
    pub target: Option<Target>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    pub name: String,
    pub number: Option<DevNumber>,
    pub holders: Option<Vec<Holder>>,
}

/// A loop device over the device: it holds nothing exclusively, and yet reads and writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopOnTop {
    /// What the kernel calls it: `loop7`.
    pub name: String,
    /// The node it was set up with.
    pub backing_file: PathBuf,
}

/// Who uses the device, as far as the processes of the node show it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Users {
    /// `None`: not looked for.
    pub mounts: Option<Sightings<MountSighting>>,
    /// Processes that have it open, in whatever way.
    pub openers: Option<Sightings<Process>>,
}

/// What was seen, and how much could not be looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sightings<T> {
    pub seen: Vec<T>,
    /// Processes that would not be looked at. Not those that ended meanwhile.
    pub unread_processes: usize,
}

/// A mount of the device, as one process of a namespace sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountSighting {
    pub mount: Mount,
    /// The mount namespace: the number in `/proc/PID/ns/mnt`, where that is shown.
    pub namespace: Option<u64>,
    /// The process of it with the lowest number.
    pub process: Process,
    /// The pod in whose directory it is mounted.
    pub pod: Option<PodUid>,
    pub life: Life,
}

/// Whether a filesystem still works, as far as a look can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// Its mount options or a stat say that it ended (`shutdown`, `emergency_ro`, EIO).
    Dead,
    /// A stat of its root works. A filesystem whose journal aborted answers too.
    Answers,
    Unknown,
}

impl DeviceFacts {
    /// A device of which nothing but path and number is known.
    #[must_use]
    pub fn unread(path: PathBuf, number: DevNumber, exclusive_open: ExclusiveOpen) -> Self {
        Self {
            path,
            number,
            exclusive_open,
            is_known: None,
            name: None,
            size_bytes: None,
            is_read_only: None,
            target: None,
            map: None,
            holders: None,
            slaves: None,
            loops: None,
            twins: None,
            is_swap: None,
            partitions: None,
            users: Users::default(),
        }
    }

    /// Whether the processes of the node must be searched for who holds it: the exclusive open
    /// was refused, and neither a holder nor swap explains it.
    #[must_use]
    pub fn wants_users(&self) -> bool {
        let held = self.all_holders().next().is_some() || self.is_swap == Some(true);
        self.exclusive_open == ExclusiveOpen::Busy && !held
    }

    /// Its own number and those of its partitions: a mount of one of them holds the whole.
    #[must_use]
    pub fn numbers(&self) -> Vec<DevNumber> {
        let partitions = self.partitions.iter().flatten().filter_map(|part| part.number);
        std::iter::once(self.number).chain(partitions).collect()
    }

    /// What holds the device or a partition of it.
    pub fn all_holders(&self) -> impl Iterator<Item = &Holder> {
        let partitions = self.partitions.iter().flatten();
        self.holders
            .iter()
            .flatten()
            .chain(partitions.flat_map(|part| part.holders.iter().flatten()))
    }
}

impl MapName {
    /// The WWID of a multipath map.
    #[must_use]
    pub fn wwid(&self) -> Option<&str> {
        self.uuid.strip_prefix("mpath-")
    }
}
