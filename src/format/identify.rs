//! From bytes to [`Content`].

use super::{Content, Filesystem, Found, Lost, PrimaryLost, ReadPlan, lost, plan, scan};
use crate::facts::bytes::{ByteRange, DeviceBytes, Failure, Read};
use crate::facts::superblock::ext::{self, Kind};
use crate::facts::superblock::fields::first_nonzero;
use crate::facts::superblock::other::Class;
use crate::facts::superblock::xfs::{self, log};

/// One step of finding out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Read these and ask again.
    Needs(ReadPlan),
    Is(Content),
}

/// What is on the device of which these bytes were read.
///
/// A function of the bytes alone: it starts over each time, so it can be asked again with more. A
/// healthy ext4 is known after one read of 8 KiB, and one of its group descriptors, a healthy xfs after some four more of its
/// log, btrfs after two reads, anything else after four or five rounds. A range that was needed and could not be
/// read ends it: [`Content::Unreadable`].
#[must_use]
pub fn identify(bytes: &DeviceBytes) -> Step {
    match content(bytes) {
        Ok(content) => Step::Is(content),
        Err(Lack::Needs(plan)) => Step::Needs(plan),
        Err(Lack::Failed { failure, offset_bytes }) => {
            Step::Is(Content::Unreadable { failure, offset_bytes })
        }
    }
}

/// Why there is no answer yet, or never.
enum Lack {
    Needs(ReadPlan),
    Failed { failure: Failure, offset_bytes: u64 },
}

fn content(bytes: &DeviceBytes) -> Result<Content, Lack> {
    let size_bytes = bytes.size_bytes();
    if size_bytes == 0 {
        return Err(Lack::Failed { failure: Failure::Short, offset_bytes: 0 });
    }
    let glance = ReadPlan::glance(size_bytes);
    need(bytes, glance.clone())?;
    let mut found = scan::head(first_bytes(bytes, &glance), size_bytes).found;
    match (found.pop(), found.is_empty()) {
        (Some(only), true) => {
            if let Some(content) = mountable(bytes, only)? {
                return Ok(content);
            }
        }
        (Some(_), false) => {}
        (None, _) => {
            need(bytes, ReadPlan::btrfs(size_bytes))?;
            if let Some(superblock) = scan::btrfs(bytes) {
                return Ok(Content::Filesystem(Filesystem::Btrfs(superblock)));
            }
        }
    }

    let survey = ReadPlan::survey(size_bytes);
    need(bytes, survey.clone())?;
    let head = first_bytes(bytes, &survey);
    let seen = scan::head(head, size_bytes);
    let mut found = seen.found;
    found.extend(scan::tail(bytes));
    if let Some(content) = recognized(bytes, found)? {
        return Ok(content);
    }

    need(bytes, lost::plan(head, size_bytes))?;
    let backups = lost::backups(bytes, head);
    let damaged = seen.damaged.first().copied();
    let own = |backup: &&lost::Backup| {
        damaged.is_some_and(|(family, _)| backup.lost == Lost::Superblock(family))
    };
    let damage = damaged.map(|(_, damage)| damage);
    let backup = match (backups.iter().find(own), backups.as_slice()) {
        (Some(own), _) => Some(own.clone()),
        (None, [only]) if damaged.is_none() => Some(only.clone()),
        (None, []) => None,
        (None, _) if damaged.is_some() => None,
        (None, several) => {
            let found = several.iter().map(|backup| backup.found().clone()).collect();
            return Ok(Content::Conflict { found });
        }
    };
    let lost = match (&backup, damaged) {
        (Some(backup), _) => Some(backup.lost),
        (None, damaged) => damaged.map(|(family, _)| Lost::Superblock(family)),
    };
    Ok(match lost {
        Some(lost) => Content::PrimaryLost(PrimaryLost { lost, damage, backup }),
        None => blank_or_unknown(bytes),
    })
}

/// What a glance may settle: a filesystem of the three families that is whole, or LUKS.
fn mountable(bytes: &DeviceBytes, found: Found) -> Result<Option<Content>, Lack> {
    Ok(match found {
        Found::Ext(sb) if sb.kind == Kind::JournalDevice => None,
        Found::Ext(superblock) => {
            let descriptors = ext::groups::range(&superblock);
            let range = descriptors.map(|range| (range.offset_bytes, range.len_bytes));
            need(bytes, ReadPlan::of(bytes.size_bytes(), range))?;
            Some(Content::Filesystem(Filesystem::Ext(superblock)))
        }
        Found::Btrfs(superblock) => Some(Content::Filesystem(Filesystem::Btrfs(superblock))),
        Found::Xfs(sb) if sb.in_progress => Some(Content::Unfinished { uuid: sb.uuid }),
        Found::Xfs(superblock) => {
            let log = log_state(bytes, &superblock)?;
            Some(Content::Filesystem(Filesystem::Xfs { superblock, log }))
        }
        Found::Luks(header) => Some(Content::Luks(header)),
        Found::Swap(_) | Found::Lvm(_) | Found::Md(_) | Found::Table(_) | Found::Other(_) => None,
    })
}

/// A device that ends before its log does is named for its size, not for the log.
fn log_state(bytes: &DeviceBytes, superblock: &xfs::Superblock) -> Result<log::LogState, Lack> {
    match log::search(bytes, superblock) {
        log::Search::Found(state) => Ok(state),
        log::Search::Wants(range) => {
            let range = (range.offset_bytes, range.len_bytes);
            Err(Lack::Needs(ReadPlan::of(bytes.size_bytes(), [range])))
        }
        log::Search::Failed { failure, offset_bytes } => {
            Err(Lack::Failed { failure, offset_bytes })
        }
    }
}

/// What the whole survey recognized at the start and the end.
fn recognized(bytes: &DeviceBytes, mut found: Vec<Found>) -> Result<Option<Content>, Lack> {
    found.dedup_by(|one, other| same_thing(one, other));
    let Some(only) = found.pop() else {
        return Ok(None);
    };
    if !found.is_empty() {
        found.push(only);
        return Ok(Some(Content::Conflict { found }));
    }
    if let Some(content) = mountable(bytes, only.clone())? {
        return Ok(Some(content));
    }
    Ok(Some(match only {
        Found::Table(table) => Content::PartitionTable(table),
        Found::Other(other) if other.class == Class::Filesystem => {
            Content::Filesystem(Filesystem::Other(other))
        }
        found => Content::Signature(found),
    }))
}

/// A partition table and its copy, or two marks of one format.
fn same_thing(one: &Found, other: &Found) -> bool {
    match (one, other) {
        (Found::Table(_), Found::Table(_)) => true,
        (Found::Other(one), Found::Other(other)) => one.name == other.name,
        _ => false,
    }
}

fn blank_or_unknown(bytes: &DeviceBytes) -> Content {
    let mut read: Vec<(ByteRange, &[u8])> = bytes.read_ranges().collect();
    read.sort_unstable_by_key(|(range, _)| *range);
    let nonzero = read
        .iter()
        .find_map(|(range, bytes)| first_nonzero(bytes).map(|at| range.offset_bytes + at as u64));
    match nonzero {
        Some(offset_bytes) => Content::Unknown { offset_bytes },
        None => {
            let proved = plan::merged(read.into_iter().map(|(range, _)| range).collect());
            Content::Blank { proved }
        }
    }
}

/// Asks for what is missing of a plan. What failed counts before what is missing.
fn need(bytes: &DeviceBytes, plan: ReadPlan) -> Result<(), Lack> {
    let outcome = |range: &ByteRange| {
        usize::try_from(range.len_bytes)
            .map_or(Read::PastEnd, |len| bytes.at(range.offset_bytes, len))
    };
    for range in plan.ranges() {
        if let Read::Failed { failure, offset_bytes } = outcome(range) {
            return Err(Lack::Failed { failure, offset_bytes });
        }
    }
    let missing = plan.only(|range| outcome(range) == Read::NotRead);
    if missing.is_empty() { Ok(()) } else { Err(Lack::Needs(missing)) }
}

/// The start of the device, as far as the plan reads on from byte 0.
fn first_bytes<'a>(bytes: &'a DeviceBytes, plan: &ReadPlan) -> &'a [u8] {
    plan.ranges()
        .first()
        .and_then(|first| bytes.bytes(0, usize::try_from(first.len_bytes).ok()?))
        .unwrap_or_default()
}
