//! The order in which facts count.
//!
//! 1. *Is there a device, and whose is it?* `Gone`, `WrongVolume`, `SharedNode`: what holds a
//!    device that is not the volume's is of no interest.
//! 2. *Is it claimed?* Holders before swap before mounts before open files: each can explain a
//!    refused exclusive open alone, and the first ones are cheaper and say more. Among holders
//!    the map that joins two targets comes first: it damages both volumes.
//! 3. *Is it used in a way that claims nothing?* `LoopOnTop`, then `ReadOnlyDevice`.
//! 4. `Unknown`, where a fact is missing that could still have been one of the above.
//! 5. `Own` and `Free`.
//!
//! Proof comes before ignorance: a multipath map is one whatever else could not be read.

use super::{Claim, Engine, Expected, Gone, HeldMap, Identity, Missing};
use crate::facts::device::{
    DeviceFacts, ExclusiveOpen, Holder, HolderKind, Life, MapName, Member, MountSighting,
    Partition, Target,
};

/// Who holds the device, if anybody but the volume's own does.
#[must_use]
pub fn judge(facts: &DeviceFacts, expected: &Expected) -> Claim {
    gone(facts)
        .or_else(|| wrong_volume(facts, expected))
        .or_else(|| shared_node(facts, expected))
        .or_else(|| held(facts, expected))
        .or_else(|| swap(facts))
        .or_else(|| mounted_elsewhere(facts, expected))
        .or_else(|| held_open(facts))
        .or_else(|| loop_on_top(facts, expected))
        .or_else(|| read_only(facts))
        .or_else(|| unknown(facts, expected))
        .unwrap_or_else(|| own_or_free(facts, expected))
}

fn gone(facts: &DeviceFacts) -> Option<Claim> {
    let why = if facts.exclusive_open == ExclusiveOpen::NoDevice {
        Gone::NoDevice
    } else if facts.is_known == Some(false) {
        Gone::NotInSysfs
    } else if facts.size_bytes == Some(0) {
        Gone::Empty
    } else {
        return None;
    };
    Some(Claim::Gone { why })
}

fn wrong_volume(facts: &DeviceFacts, expected: &Expected) -> Option<Claim> {
    if let Some(Some(map)) = &facts.map {
        let wrong = Claim::WrongVolume {
            found: Identity::Map(map.name.clone()),
            expected: Identity::Map(expected.volume.to_string()),
        };
        return (!expected.owns_map(map)).then_some(wrong);
    }
    let found = facts.target.clone()?;
    let is_wrong = match &found {
        Target::Iqn(iqn) => *iqn != expected.iqn(),
        // Only a v1 engine is known to be nothing else.
        Target::NotIscsi => expected.engine == Some(Engine::V1),
    };
    let wrong = Claim::WrongVolume { found: Identity::Target(found), expected: expected.target() };
    is_wrong.then_some(wrong)
}

/// Where the target proves whose the device is, another node with its number is a leftover, and
/// no danger to *this* volume.
fn shared_node(facts: &DeviceFacts, expected: &Expected) -> Option<Claim> {
    let others = facts.twins.as_ref().filter(|others| !others.is_empty())?;
    let shared = Claim::SharedNode { others: others.clone() };
    (!is_proven(facts, expected)).then_some(shared)
}

fn is_proven(facts: &DeviceFacts, expected: &Expected) -> bool {
    let by_target = facts.target == Some(Target::Iqn(expected.iqn()));
    let by_map = matches!(&facts.map, Some(Some(map)) if expected.owns_map(map));
    by_target || by_map
}

fn held(facts: &DeviceFacts, expected: &Expected) -> Option<Claim> {
    let claims = facts.all_holders().filter_map(|holder| held_by(holder, expected));
    claims.min_by_key(|claim| match claim {
        Claim::MixedMultipath { .. } => 0,
        Claim::Multipath { .. } => 1,
        Claim::OtherHolder { .. } => 3,
        _ => 2,
    })
}

fn held_by(holder: &Holder, expected: &Expected) -> Option<Claim> {
    match &holder.kind {
        HolderKind::Map { map, .. } if expected.owns_map(map) => None,
        HolderKind::Map { map, paths } => Some(held_by_map(holder, map, paths.as_deref())),
        HolderKind::Md { level } => Some(Claim::Md { array: holder.clone(), level: level.clone() }),
        HolderKind::Other => Some(Claim::OtherHolder { holder: holder.clone() }),
        // It may be the volume's own, and it may be gone: see `unknown`.
        HolderKind::Unread => None,
    }
}

fn held_by_map(holder: &Holder, map: &MapName, paths: Option<&[Member]>) -> Claim {
    let held = HeldMap { holder: holder.clone(), map: map.clone() };
    let maker = map.uuid.split('-').next().unwrap_or_default();
    match (maker, paths) {
        ("mpath", Some(paths)) if is_mixed(paths) => {
            Claim::MixedMultipath { map: held, paths: paths.to_vec() }
        }
        ("mpath", paths) => Claim::Multipath { map: held, paths: paths.map(<[Member]>::to_vec) },
        ("LVM", _) => Claim::Lvm { map: held },
        ("CRYPT", _) => Claim::Crypt { map: held },
        _ => Claim::OtherHolder { holder: holder.clone() },
    }
}

/// Two disks of which each is *known* to be another target's, or of none.
fn is_mixed(paths: &[Member]) -> bool {
    let mut targets = paths.iter().filter_map(|path| path.target.as_ref());
    let Some(first) = targets.next() else { return false };
    targets.any(|target| target != first)
}

fn swap(facts: &DeviceFacts) -> Option<Claim> {
    (facts.is_swap == Some(true)).then_some(Claim::Swap)
}

fn mounted_elsewhere(facts: &DeviceFacts, expected: &Expected) -> Option<Claim> {
    let mut mounts: Vec<MountSighting> =
        mounts(facts).filter(|mount| !expected.owns_mount(mount)).cloned().collect();
    mounts.sort_by_key(|mount| mount.life == Life::Dead);
    (!mounts.is_empty()).then_some(Claim::MountedElsewhere { mounts })
}

/// Only where all that could explain the refused open was looked at.
fn held_open(facts: &DeviceFacts) -> Option<Claim> {
    let all_parts = |parts: &Vec<Partition>| parts.iter().all(|part| part.holders.is_some());
    let looked = facts.users.mounts.as_ref().is_some_and(|mounts| mounts.unread_processes == 0)
        && facts.is_swap.is_some()
        && facts.holders.is_some()
        && facts.partitions.as_ref().is_some_and(all_parts);
    let is_explained = mounts(facts).next().is_some() || facts.all_holders().next().is_some();
    let held = facts.exclusive_open == ExclusiveOpen::Busy && looked && !is_explained;
    held.then(|| Claim::HeldOpen { openers: facts.users.openers.clone() })
}

fn loop_on_top(facts: &DeviceFacts, expected: &Expected) -> Option<Claim> {
    let loops = facts.loops.iter().flatten().filter(|on_top| !expected.owns_loop(on_top));
    let loops: Vec<_> = loops.cloned().collect();
    (!loops.is_empty()).then_some(Claim::LoopOnTop { loops })
}

fn read_only(facts: &DeviceFacts) -> Option<Claim> {
    (facts.is_read_only == Some(true)).then_some(Claim::ReadOnlyDevice)
}

fn unknown(facts: &DeviceFacts, expected: &Expected) -> Option<Claim> {
    let unread = |holder: &Holder| matches!(holder.kind, HolderKind::Unread);
    let identity = facts.target.is_some() && facts.map.is_some();
    let missing = match facts.exclusive_open {
        ExclusiveOpen::Failed(errno) => Some(Missing::ExclusiveOpen(errno)),
        ExclusiveOpen::Busy => missing_of_busy(facts),
        ExclusiveOpen::Granted | ExclusiveOpen::NoDevice => None,
    };
    let missing = missing
        .or_else(|| facts.is_known.is_none().then_some(Missing::Sysfs))
        .or_else(|| facts.size_bytes.is_none().then_some(Missing::Size))
        .or_else(|| facts.holders.is_none().then_some(Missing::Holders))
        .or_else(|| facts.all_holders().any(unread).then_some(Missing::Holders))
        .or_else(|| facts.loops.is_none().then_some(Missing::Loops))
        .or_else(|| facts.is_read_only.is_none().then_some(Missing::ReadOnly))
        .or_else(|| (!identity && !is_proven(facts, expected)).then_some(Missing::Identity))
        .or_else(|| {
            let could_be_shared = facts.twins.is_none() && !is_proven(facts, expected);
            could_be_shared.then_some(Missing::Twins)
        });
    missing.map(|missing| Claim::Unknown { missing })
}

/// The open was refused: is it known by whom?
fn missing_of_busy(facts: &DeviceFacts) -> Option<Missing> {
    if facts.all_holders().next().is_some() {
        return None;
    }
    match &facts.users.mounts {
        None => Some(Missing::Mounts),
        Some(mounts) if mounts.unread_processes > 0 => {
            Some(Missing::Processes(mounts.unread_processes))
        }
        Some(mounts) if mounts.seen.is_empty() => Some(Missing::Mounts),
        Some(_) => None,
    }
}

fn own_or_free(facts: &DeviceFacts, expected: &Expected) -> Claim {
    let maps = facts.all_holders().filter_map(|holder| match &holder.kind {
        HolderKind::Map { map, .. } if expected.owns_map(map) => Some(map.clone()),
        _ => None,
    });
    let maps: Vec<_> = maps.collect();
    let mounts: Vec<_> = mounts(facts).cloned().collect();
    let loops = facts.loops.clone().unwrap_or_default();
    if maps.is_empty() && mounts.is_empty() && loops.is_empty() {
        return Claim::Free;
    }
    Claim::Own { maps, mounts, loops }
}

fn mounts(facts: &DeviceFacts) -> impl Iterator<Item = &MountSighting> {
    facts.users.mounts.iter().flat_map(|mounts| &mounts.seen)
}
