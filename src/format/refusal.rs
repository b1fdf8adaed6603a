//! Why a device is not handed on, and what would change that. The texts speak of the device as
//! "it": whoever sends them puts its path and number before.

use std::fmt;
use std::path::Path;

use super::{Found, PrimaryLost, Remembered};
use crate::facts::bytes::Failure;
use crate::facts::superblock::Uuid;
use crate::facts::superblock::partition::Table;
use crate::volume::VolumeId;

/// A reason with everything it rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    Unreadable {
        failure: Failure,
        offset_bytes: u64,
    },
    BlankButHeld {
        held: Remembered,
        proved_bytes: u64,
        written_bytes: Option<u64>,
    },
    UnknownContent {
        offset_bytes: u64,
        held: Option<Remembered>,
    },
    /// `repairable`: whether `--fsck repair` knows how.
    PrimaryLost {
        lost: PrimaryLost,
        repairable: bool,
    },
    Unfinished {
        uuid: Uuid,
    },
    Signature {
        found: Found,
    },
    PartitionTable {
        table: Table,
    },
    Conflict {
        found: Vec<Found>,
    },
    OtherType {
        found: Remembered,
        asked: String,
    },
    /// A passphrase was given, and the content is plain.
    NotEncrypted {
        found: Remembered,
    },
    /// No passphrase was given, and the content is not plain.
    Encrypted {
        found: Remembered,
    },
    DeviceTooSmall {
        found: Remembered,
        fs_bytes: u64,
        size_bytes: u64,
    },
}

/// How a device that may hold data is given up: the one word that lets it be formatted.
fn way_out(volume: &VolumeId) -> String {
    format!(
        "if nothing on it is needed, run `mount-guard forget {volume}` in the guard's container \
         on this node, and it is formatted"
    )
}

impl Refusal {
    /// One word for log and metric.
    #[must_use]
    pub fn label(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } => "unreadable",
            Self::BlankButHeld { .. } => "blank_but_held",
            Self::UnknownContent { .. } => "unknown_content",
            Self::PrimaryLost { .. } => "primary_lost",
            Self::Unfinished { .. } => "unfinished",
            Self::Signature { .. } => "signature",
            Self::PartitionTable { .. } => "partition_table",
            Self::Conflict { .. } => "conflict",
            Self::OtherType { .. } => "other_type",
            Self::NotEncrypted { .. } => "not_encrypted",
            Self::Encrypted { .. } => "encrypted",
            Self::DeviceTooSmall { .. } => "device_too_small",
        }
    }

    /// The one thing that would change the answer for `volume`, whose device is at `device`. What a
    /// PV says of its volume cannot be changed: it takes another PV.
    #[must_use]
    pub fn remedy(&self, volume: &VolumeId, device: &Path) -> String {
        let way_out = way_out(volume);
        match self {
            Self::Unreadable { .. } => {
                "wait until the Longhorn engine serves it again; a device that cannot be read is \
                 never formatted"
                    .to_owned()
            }
            Self::BlankButHeld { .. } => {
                format!("wait for the engine, or restore from a backup or snapshot; {way_out}")
            }
            Self::UnknownContent { .. } | Self::Unfinished { .. } => way_out,
            Self::PrimaryLost { lost, repairable } => match &lost.backup {
                Some(_) if *repairable => {
                    format!(
                        "take a snapshot, then run `mount-guard check {} --repair` in the guard's \
                         container on this node (its flag `--fsck repair` does so for every \
                         volume); {way_out}",
                        device.display()
                    )
                }
                Some(_) => format!("restore it from the copy by hand; {way_out}"),
                None => format!("restore from a backup or snapshot; {way_out}"),
            },
            Self::Signature { .. } | Self::PartitionTable { .. } | Self::Conflict { .. } => {
                format!(
                    "use it as a raw block volume (volumeMode: Block), or run `wipefs -a {}` if \
                     nothing on it is needed",
                    device.display()
                )
            }
            Self::OtherType { found, .. } => {
                format!(
                    "make a new PV with fsType {} for it (a PV's type cannot be changed), or use a \
                     new volume",
                    found.name
                )
            }
            Self::NotEncrypted { .. } => {
                "make a new PV without `encrypted` for it, or use a new volume".to_owned()
            }
            Self::Encrypted { .. } => {
                "make a new PV with `encrypted: \"true\"` and its secret for it".to_owned()
            }
            Self::DeviceTooSmall { fs_bytes, .. } => {
                format!("expand the volume to {fs_bytes} bytes, or restore from a backup")
            }
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { failure, offset_bytes } => {
                write!(f, "it cannot be read at byte {offset_bytes}: {failure}")
            }
            Self::BlankButHeld { held, proved_bytes, written_bytes } => {
                write!(f, "it reads as zeros ({proved_bytes} bytes looked at) but held {held}")?;
                match written_bytes {
                    Some(bytes) => write!(f, ", and Longhorn counts {bytes} bytes written"),
                    None => Ok(()),
                }
            }
            Self::UnknownContent { offset_bytes, held } => {
                write!(f, "it has unknown content, first at byte {offset_bytes}")?;
                match held {
                    Some(held) => write!(f, ", where it held {held}"),
                    None => Ok(()),
                }
            }
            Self::PrimaryLost { lost, .. } => primary_lost(f, lost),
            Self::Unfinished { uuid } => write!(f, "mkfs.xfs did not finish on it (xfs {uuid})"),
            Self::Signature { found } => write!(f, "it holds no filesystem but {found}"),
            Self::PartitionTable { table } => {
                write!(f, "it holds a {} at byte {}", table.kind, table.offset_bytes)
            }
            Self::Conflict { found } => {
                f.write_str("it shows several formats at once: ")?;
                several(f, found)
            }
            Self::OtherType { found, asked } => {
                write!(f, "it holds {found}, and {asked} was asked for")
            }
            Self::NotEncrypted { found } => {
                write!(f, "it holds {found} in plain, and an encrypted volume was asked for")
            }
            Self::Encrypted { found } => {
                write!(f, "it is encrypted ({found}), and a plain volume was asked for")
            }
            Self::DeviceTooSmall { found, fs_bytes, size_bytes } => write!(
                f,
                "it has {size_bytes} bytes and its filesystem {found} needs {fs_bytes}: it is \
                 smaller than its filesystem"
            ),
        }
    }
}

fn primary_lost(f: &mut fmt::Formatter<'_>, lost: &PrimaryLost) -> fmt::Result {
    match lost.damage {
        Some(damage) => write!(f, "its {} is damaged ({damage})", lost.lost)?,
        None => write!(f, "its {} is gone", lost.lost)?,
    }
    match &lost.backup {
        Some(backup) => write!(f, "; a copy lies at byte {}", backup.offset_bytes)?,
        None => f.write_str("; no copy was found")?,
    }
    match lost.backup.as_ref().and_then(|backup| backup.uuid) {
        Some(uuid) => write!(f, " ({uuid})"),
        None => Ok(()),
    }
}

fn several(f: &mut fmt::Formatter<'_>, found: &[Found]) -> fmt::Result {
    for (at, one) in found.iter().enumerate() {
        write!(f, "{}{one}", if at == 0 { "" } else { ", " })?;
    }
    Ok(())
}
