//! What follows from a claim for a call that is about to mount the device.

use super::Claim;
use crate::facts::device::Life;

/// `--multipath`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Multipath {
    Off,
    Report,
    Refuse,
}

/// What may be done with a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ruling {
    /// Nobody holds it: look at its content, check it, hand it on.
    Examine,
    /// Look at its content, but run nothing on it: who holds it is not known.
    LookOnly,
    /// Hand it on as it is. If `aloud`, say why.
    Forward {
        aloud: bool,
    },
    Refuse,
    /// The engine may bring it back.
    Wait,
}

impl Claim {
    /// Only a proof of danger refuses (DESIGN, promise 6); what is not known keeps the checker off
    /// and nothing else. `reads_only`: nothing is to be written.
    #[must_use]
    pub fn ruling(&self, multipath: Multipath, reads_only: bool) -> Ruling {
        match self {
            Self::Free => Ruling::Examine,
            Self::Own { mounts, .. } => {
                Ruling::Forward { aloud: mounts.iter().any(|mount| mount.life == Life::Dead) }
            }
            Self::Gone { .. } => Ruling::Wait,
            Self::MixedMultipath { .. } | Self::Multipath { .. } => match multipath {
                Multipath::Off => Ruling::Forward { aloud: false },
                Multipath::Report => Ruling::Forward { aloud: true },
                Multipath::Refuse => Ruling::Refuse,
            },
            Self::MountedElsewhere { mounts } => {
                match mounts.iter().all(|mount| mount.life == Life::Dead) {
                    true => Ruling::Refuse,
                    // A share-manager on this node, a monitoring agent: it lives with them.
                    false => Ruling::Forward { aloud: true },
                }
            }
            Self::ReadOnlyDevice if reads_only => Ruling::LookOnly,
            Self::Unknown { .. } => Ruling::LookOnly,
            Self::WrongVolume { .. }
            | Self::SharedNode { .. }
            | Self::Lvm { .. }
            | Self::Crypt { .. }
            | Self::Md { .. }
            | Self::OtherHolder { .. }
            | Self::Swap
            | Self::HeldOpen { .. }
            | Self::LoopOnTop { .. }
            | Self::ReadOnlyDevice => Ruling::Refuse,
        }
    }
}

impl Multipath {
    /// Reads the value of the flag.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "off" => Self::Off,
            "report" => Self::Report,
            "refuse" => Self::Refuse,
            _ => return None,
        })
    }
}
