//! Why a damaged filesystem is not handed on, and what would change that. The texts speak of the
//! device as "it".

use std::fmt;
use std::path::Path;

use super::{Findings, Tool};
use crate::facts::superblock::Uuid;

/// A reason with everything it rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    Damaged {
        tool: Tool,
        found: Findings,
        cure: Cure,
    },
    /// The repair ran and left damage, or could not be shown to have left none.
    NotRepaired {
        tool: Tool,
        found: Findings,
        left: Findings,
    },
    /// The repair changes more than may be kept.
    RepairTooLarge {
        tool: Tool,
        found: Findings,
    },
    SuperblockLost {
        repairable: bool,
    },
    DeviceTooSmall {
        fs_bytes: Option<u64>,
        size_bytes: Option<u64>,
    },
    /// xfs: the log is needed, and no mount replays it.
    LogUnreplayable {
        errno: i32,
    },
    /// xfs: a copy of it is mounted on this node.
    DuplicateUuid {
        uuid: Uuid,
        device: String,
    },
    /// xfs: the kernel is older than the filesystem.
    KernelTooOld {
        features: String,
    },
}

/// What would cure a damaged filesystem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cure {
    /// The mode `repair`.
    Repair,
    /// A backup that may be kept of an encrypted volume.
    BackupOfEncrypted,
    ByHandAfterKills {
        kills: u32,
    },
    /// No second trial could be begun.
    ByHand,
}

impl Refusal {
    /// One word for log and metric.
    #[must_use]
    pub fn label(&self) -> &'static str {
        match self {
            Self::Damaged { .. } => "damaged",
            Self::NotRepaired { .. } => "not_repaired",
            Self::RepairTooLarge { .. } => "repair_too_large",
            Self::SuperblockLost { .. } => "superblock_lost",
            Self::DeviceTooSmall { .. } => "device_too_small",
            Self::LogUnreplayable { .. } => "log_unreplayable",
            Self::DuplicateUuid { .. } => "duplicate_uuid",
            Self::KernelTooOld { .. } => "kernel_too_old",
        }
    }

    /// The one thing that would change the answer for the device at `device`.
    ///
    /// A PV's attributes and a StorageClass's parameters cannot be changed, so the way to a repair
    /// of a volume that is there is the command.
    #[must_use]
    pub fn remedy(&self, device: &Path) -> String {
        let device = device.display();
        let by_hand = |tool: Tool| {
            format!("take a snapshot, then run `{} {device}` by hand", repair_line(tool))
        };
        match self {
            Self::Damaged { tool: Tool::Btrfs, .. } => {
                "restore from a backup or snapshot; `btrfs check --repair` is a last resort"
                    .to_owned()
            }
            Self::Damaged { cure: Cure::Repair, .. } => {
                format!("take a snapshot, then run {}", repair_by_command(&device))
            }
            Self::Damaged { cure: Cure::BackupOfEncrypted, .. } => {
                "it is encrypted, and `--repair-backup undo` keeps nothing of such a volume: set \
                 that flag of the guard to `snapshot` or `none`"
                    .to_owned()
            }
            Self::Damaged { tool, cure: Cure::ByHandAfterKills { kills }, .. } => {
                format!("its repair died {kills} times: {}", by_hand(*tool))
            }
            Self::Damaged { tool, cure: Cure::ByHand, .. }
            | Self::NotRepaired { tool, .. }
            | Self::RepairTooLarge { tool, .. } => by_hand(*tool),
            Self::SuperblockLost { repairable: true } => {
                format!(
                    "take a snapshot, then rebuild it from its copy: {}",
                    repair_by_command(&device)
                )
            }
            Self::SuperblockLost { repairable: false } => {
                "restore from a backup or snapshot".to_owned()
            }
            Self::DeviceTooSmall { fs_bytes, .. } => match fs_bytes {
                Some(bytes) => format!("expand the volume to {bytes} bytes, or restore a backup"),
                None => "expand the volume, or restore a backup".to_owned(),
            },
            Self::LogUnreplayable { .. } => format!(
                "restore from a backup, or take a snapshot and run `xfs_repair -L {device}` by \
                 hand, which loses the latest changes"
            ),
            Self::DuplicateUuid { .. } => {
                "mount it with the option `nouuid`, or on another node".to_owned()
            }
            Self::KernelTooOld { .. } => "use a node with a newer kernel".to_owned(),
        }
    }
}

/// What mends a damaged filesystem, and keeps what it replaces.
fn repair_by_command(device: &impl fmt::Display) -> String {
    format!(
        "`mount-guard check {device} --repair` in the guard's container on this node (its flag \
         `--fsck repair` does so for every volume)"
    )
}

fn repair_line(tool: Tool) -> &'static str {
    match tool {
        Tool::E2fsck => "e2fsck -f -y",
        Tool::XfsRepair => "xfs_repair",
        Tool::Btrfs => "btrfs check",
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged { tool, found, .. } => {
                let tool = tool.name();
                write!(
                    f,
                    "its filesystem is damaged: on a trial, nothing of which was kept, {tool} found {found}"
                )
            }
            Self::NotRepaired { tool, found, left } => write!(
                f,
                "its filesystem is damaged ({}) and {} could not make it whole: {}",
                found.first(),
                tool.name(),
                left.first()
            ),
            Self::RepairTooLarge { tool, found } => write!(
                f,
                "its filesystem is damaged ({found}) and its repair by {} changes more than the \
                 state directory may keep",
                tool.name()
            ),
            Self::SuperblockLost { .. } => f.write_str("its superblock is lost"),
            Self::DeviceTooSmall { fs_bytes: Some(fs), size_bytes: Some(size) } => write!(
                f,
                "it is smaller ({size} bytes) than its filesystem ({fs} bytes): a check would cut \
                 files off"
            ),
            Self::DeviceTooSmall { .. } => {
                f.write_str("it is smaller than its filesystem: a check would cut files off")
            }
            Self::LogUnreplayable { errno } => {
                write!(f, "its xfs log holds changes that cannot be replayed (errno {errno})")
            }
            Self::DuplicateUuid { uuid, device } => {
                write!(f, "its xfs UUID {uuid} is mounted on this node already, from {device}")
            }
            Self::KernelTooOld { features } => {
                write!(f, "its xfs has features this kernel does not know ({features})")
            }
        }
    }
}
