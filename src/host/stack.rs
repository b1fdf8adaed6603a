//! What is on top of a device and what is beneath it, from its directory in sysfs.

use std::path::Path;

use rustix::io::Errno;

use super::sysfs::Dir;
use crate::facts::device::{Holder, HolderKind, MapName, Member, Target};
use crate::facts::sysfs::target_name_path;
use crate::volume::DevNumber;

/// What holds the device whose directory this is.
pub(super) fn holders(dir: &Dir) -> Option<Vec<Holder>> {
    let holders = dir.dir(Path::new("holders")).ok()?;
    let read = |name: String| match holders.dir(Path::new(&name)) {
        Ok(dir) => Holder { number: number(&dir), kind: kind(&dir), name },
        Err(_) => Holder { name, number: None, kind: HolderKind::Unread },
    };
    Some(holders.names().ok()?.into_iter().map(read).collect())
}

/// The devices in the directory `name` (`slaves`) of this one.
pub(super) fn members(dir: &Dir, name: &str) -> Option<Vec<Member>> {
    let members = dir.dir(Path::new(name)).ok()?;
    let read = |name: String| {
        let link = members.link(&name).ok();
        Member {
            number: members.dir(Path::new(&name)).ok().as_ref().and_then(number),
            target: link.and_then(|link| target(&link, |name| members.text(name))),
            name,
        }
    };
    Some(members.names().ok()?.into_iter().map(read).collect())
}

/// Whose disk it is that has this place in sysfs; `text` reads what is named relative to where
/// the place was read.
pub(super) fn target(
    place: &Path,
    text: impl FnOnce(&Path) -> Result<String, Errno>,
) -> Option<Target> {
    let Some(name) = target_name_path(place) else { return Some(Target::NotIscsi) };
    let text = text(&name).ok()?;
    let iqn = text.trim();
    (!iqn.is_empty()).then(|| Target::Iqn(iqn.to_owned()))
}

/// The device-mapper name of the device itself; `Some(None)` where it is no map.
pub(super) fn map_name(dir: &Dir) -> Option<Option<MapName>> {
    let name = match dir.text("dm/name") {
        Ok(name) => name.trim().to_owned(),
        Err(Errno::NOENT) => return Some(None),
        Err(_) => return None,
    };
    let uuid = dir.text("dm/uuid").ok()?.trim().to_owned();
    Some(Some(MapName { name, uuid }))
}

fn kind(dir: &Dir) -> HolderKind {
    match map_name(dir) {
        Some(Some(map)) => return HolderKind::Map { map, paths: members(dir, "slaves") },
        Some(None) => {}
        None => return HolderKind::Unread,
    }
    match dir.text("md/level") {
        Ok(level) => HolderKind::Md { level: level.trim().to_owned() },
        Err(Errno::NOENT) => HolderKind::Other,
        Err(_) => HolderKind::Unread,
    }
}

fn number(dir: &Dir) -> Option<DevNumber> {
    DevNumber::parse(dir.text("dev").ok()?.trim())
}
