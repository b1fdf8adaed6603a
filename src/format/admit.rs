//! May a device with this content be handed on?

use super::{Backup, Content, Filesystem, Lost, Memory, PrimaryLost, Refusal, Remembered};
use crate::facts::superblock::{Family, luks};
use crate::volume::FsType;

/// What the caller wants of the device, and what is known beside its bytes.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    pub wanted: &'a Wanted,
    pub memory: &'a Memory,
    /// The device's size in bytes.
    pub size_bytes: u64,
    /// `--format-guard`.
    pub mode: Mode,
    /// Whether `--fsck repair` may rebuild a superblock from its copy.
    pub may_repair: bool,
    /// The operator said that nothing on it is needed: `forget`, or the PV's annotation.
    pub format_allowed: bool,
    /// The device was blank before, `--format-settle` ago, and every time since.
    pub blank_settled: bool,
    /// What Longhorn counts as written (`actualSize`), in bytes: evidence, never a verdict.
    pub written_bytes: Option<u64>,
}

/// What is to be done with the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// Use it as it is: nothing on it is looked at.
    Block,
    /// Mount it; no type asked is ext4.
    Filesystem(Option<FsType>),
    /// Open it with a passphrase.
    Luks,
    /// Mount it, whatever it holds: a look by hand.
    Any,
}

/// `--format-guard`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Off,
    Report,
    Enforce,
}

impl Mode {
    /// Reads the value of the flag.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "off" => Self::Off,
            "report" => Self::Report,
            "enforce" => Self::Enforce,
            _ => return None,
        })
    }
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It holds what was asked for.
    HandOn {
        notes: Vec<Note>,
    },
    /// Whoever gets it will format it, and may. "Format forwarded" is recorded first.
    HandOnToFormat,
    /// It is blank for the first time: look again after `--format-settle`, or twice that where
    /// something speaks against it.
    LookAgain {
        doubtful: bool,
    },
    /// Its superblock must be rebuilt before it is handed on: as it is, it would be formatted.
    RepairFirst(PrimaryLost),
    /// Blank, and a record that may say otherwise cannot be read now.
    Wait {
        missing: &'static str,
    },
    Refuse(Refusal),
}

/// What an operator should hear although the device is handed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// The guard is in mode `report`.
    WouldRefuse(Refusal),
    /// The guard is in mode `report`.
    WouldWait { missing: &'static str },
    /// Another filesystem than the one remembered.
    Changed { was: Remembered, now: Remembered },
}

/// Judges `content` by the question. Cannot fail, and does nothing.
#[must_use]
pub fn judge(content: &Content, question: &Question<'_>) -> Decision {
    if question.mode == Mode::Off || *question.wanted == Wanted::Block {
        return Decision::HandOn { notes: Vec::new() };
    }
    match (decide(content, question), question.mode) {
        (Decision::Refuse(refusal), Mode::Report) => {
            Decision::HandOn { notes: vec![Note::WouldRefuse(refusal)] }
        }
        (Decision::Wait { missing }, Mode::Report) => {
            Decision::HandOn { notes: vec![Note::WouldWait { missing }] }
        }
        (decision, _) => decision,
    }
}

fn decide(content: &Content, question: &Question<'_>) -> Decision {
    match content {
        Content::Filesystem(fs) => filesystem(fs, question),
        Content::Luks(header) => luks(header, question),
        Content::Blank { proved } => {
            let proved_bytes = proved.iter().map(|range| range.len_bytes).sum();
            blank(proved_bytes, question)
        }
        Content::PrimaryLost(lost) => primary_lost(lost, question),
        Content::Unfinished { uuid } => {
            half_formatted(Refusal::Unfinished { uuid: *uuid }, question)
        }
        Content::Unknown { offset_bytes } => {
            let held = held(question.memory);
            let offset_bytes = *offset_bytes;
            half_formatted(Refusal::UnknownContent { offset_bytes, held }, question)
        }
        Content::Signature(found) => Decision::Refuse(Refusal::Signature { found: found.clone() }),
        Content::PartitionTable(table) => {
            Decision::Refuse(Refusal::PartitionTable { table: *table })
        }
        Content::Conflict { found } => Decision::Refuse(Refusal::Conflict { found: found.clone() }),
        Content::Unreadable { failure, offset_bytes } => {
            Decision::Refuse(Refusal::Unreadable { failure: *failure, offset_bytes: *offset_bytes })
        }
    }
}

fn filesystem(fs: &Filesystem, question: &Question<'_>) -> Decision {
    let found = Remembered { name: fs.name().to_owned(), uuid: fs.uuid() };
    let asked = match question.wanted {
        Wanted::Luks => return Decision::Refuse(Refusal::NotEncrypted { found }),
        Wanted::Filesystem(Some(asked)) => asked.as_str(),
        Wanted::Filesystem(None) | Wanted::Block => "ext4",
        Wanted::Any => fs.name(),
    };
    if family(asked) != family(fs.name()) {
        return Decision::Refuse(Refusal::OtherType { found, asked: asked.to_owned() });
    }
    match fs.fs_bytes() {
        Some(fs_bytes) if fs_bytes > question.size_bytes => {
            let size_bytes = question.size_bytes;
            Decision::Refuse(Refusal::DeviceTooSmall { found, fs_bytes, size_bytes })
        }
        _ => Decision::HandOn { notes: changed(question.memory, found) },
    }
}

/// ext2, ext3 and ext4 are one family: the kernel's ext4 mounts all three.
fn family(name: &str) -> &str {
    match name {
        "ext2" | "ext3" => "ext4",
        name => name,
    }
}

fn luks(header: &luks::Header, question: &Question<'_>) -> Decision {
    let found = Remembered { name: "LUKS".to_owned(), uuid: header.uuid };
    match question.wanted {
        Wanted::Luks | Wanted::Any => Decision::HandOn { notes: changed(question.memory, found) },
        Wanted::Filesystem(_) | Wanted::Block => Decision::Refuse(Refusal::Encrypted { found }),
    }
}

fn changed(memory: &Memory, now: Remembered) -> Vec<Note> {
    match memory {
        Memory::Held(was) if family(&was.name) != family(&now.name) || was.uuid != now.uuid => {
            vec![Note::Changed { was: was.clone(), now }]
        }
        _ => Vec::new(),
    }
}

fn blank(proved_bytes: u64, question: &Question<'_>) -> Decision {
    let written = question.written_bytes.filter(|bytes| *bytes > 0);
    match question.memory {
        _ if question.format_allowed => {}
        Memory::Nothing | Memory::FormatForwarded { .. } => {}
        Memory::Unreadable { missing } => return Decision::Wait { missing },
        Memory::Held(held) => {
            let held = held.clone();
            let written_bytes = question.written_bytes;
            return Decision::Refuse(Refusal::BlankButHeld { held, proved_bytes, written_bytes });
        }
    }
    if question.blank_settled {
        Decision::HandOnToFormat
    } else {
        Decision::LookAgain { doubtful: written.is_some() || held(question.memory).is_some() }
    }
}

/// What an mkfs that was cut off may have left. It may be formatted again as long as no filesystem
/// was ever seen there.
fn half_formatted(refusal: Refusal, question: &Question<'_>) -> Decision {
    match question.memory {
        Memory::FormatForwarded { .. } => Decision::HandOnToFormat,
        _ if question.format_allowed => Decision::HandOnToFormat,
        Memory::Nothing | Memory::Held(_) | Memory::Unreadable { .. } => Decision::Refuse(refusal),
    }
}

/// A copy speaks for data, so "format forwarded" alone does not count here: the copy must also be
/// of that very format or a later one.
fn primary_lost(lost: &PrimaryLost, question: &Question<'_>) -> Decision {
    let repairable = matches!(lost.lost, Lost::Superblock(Family::Ext | Family::Xfs));
    match &lost.backup {
        Some(copy) if is_cut_off(copy, lost, question.memory) => Decision::HandOnToFormat,
        Some(_) if question.may_repair && repairable && fits_wish(lost, question.wanted) => {
            Decision::RepairFirst(lost.clone())
        }
        _ if question.format_allowed => Decision::HandOnToFormat,
        _ => Decision::Refuse(Refusal::PrimaryLost { lost: lost.clone(), repairable }),
    }
}

/// Whether an mkfs that was forwarded left the copy. mke2fs writes copies, waits until they are on
/// disk, and writes the primary superblock last of all (measured, 1.47.0).
fn is_cut_off(copy: &Backup, lost: &PrimaryLost, memory: &Memory) -> bool {
    match (memory, lost.damage, copy.made_seconds) {
        (Memory::FormatForwarded { at_seconds }, None, Some(made)) => made >= *at_seconds,
        _ => false,
    }
}

fn fits_wish(lost: &PrimaryLost, wanted: &Wanted) -> bool {
    let name = match lost.lost {
        Lost::Superblock(Family::Ext) => "ext4",
        Lost::Superblock(Family::Xfs) => "xfs",
        Lost::Superblock(Family::Btrfs) | Lost::LuksHeader => return false,
    };
    match wanted {
        Wanted::Filesystem(None) => name == "ext4",
        Wanted::Filesystem(Some(asked)) => family(asked.as_str()) == name,
        Wanted::Any => true,
        Wanted::Luks | Wanted::Block => false,
    }
}

fn held(memory: &Memory) -> Option<Remembered> {
    match memory {
        Memory::Held(held) => Some(held.clone()),
        Memory::Nothing | Memory::FormatForwarded { .. } | Memory::Unreadable { .. } => None,
    }
}
