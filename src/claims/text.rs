//! What an operator reads in the pod's events: what holds the device, and the one thing that
//! would change the answer. ASCII, and under 900 bytes whatever the node's names are.

use std::fmt::{self, Display};
use std::path::Path;

use super::{Claim, Gone, HeldMap, Identity, Missing};
use crate::facts::device::{DeviceFacts, Life, Member, MountSighting, Sightings, Target};
use crate::facts::process::Process;

/// How much is quoted of a path, of a target's name and of any other name, in bytes: staging
/// paths have 140, targets of volumes that Kubernetes names 64. With half as much again the
/// longest text would not fit.
const MAX_PATH_BYTES: usize = 165;
const MAX_TARGET_BYTES: usize = 96;
const MAX_NAME_BYTES: usize = 64;

/// How many of several are named: enough to see the pattern, and they fit.
const MAX_NAMED: usize = 2;

impl Claim {
    /// The device with its number, what is the matter, and what to do; `None` where nothing is.
    #[must_use]
    pub fn text(&self, facts: &DeviceFacts) -> Option<String> {
        let (why, remedy) = self.says(facts)?;
        let (device, number) = (path(&facts.path), facts.number);
        Some(format!("device {device} ({number}): {why}; {remedy}"))
    }

    /// What is the matter, and what to do; `None` where nothing is.
    #[must_use]
    pub fn says(&self, facts: &DeviceFacts) -> Option<(String, String)> {
        let number = facts.number;
        Some(match self {
            Self::Free => return None,
            Self::Own { mounts, .. } => {
                let dead = mounts.iter().find(|mount| mount.life == Life::Dead)?;
                (
                    format!("its own mount is dead: {}", mounted(dead)),
                    "longhorn-csi-plugin mounts it again when a pod is published".into(),
                )
            }
            Self::Gone { why } => (
                format!("its node is there, and no device behind it ({why})"),
                "wait until Longhorn has attached the volume again".into(),
            ),
            Self::WrongVolume { found, expected } => (
                format!("it is {found}, and not this volume's ({expected})"),
                "detach the volume and attach it again, so that Longhorn makes its node anew"
                    .into(),
            ),
            Self::SharedNode { others } => (
                format!(
                    "{} is the same device, so one of them is stale",
                    several(others.iter().map(|other| path(other)))
                ),
                format!("detach the volume that does not own {number} and attach it again"),
            ),
            Self::MixedMultipath { map, paths } => (
                format!(
                    "multipath map {map} joins it with disks of other targets: {}; a write through \
                     the map damages each of them",
                    several(paths.iter().map(member))
                ),
                multipath_remedy(map, true),
            ),
            Self::Multipath { map, paths } => (
                format!("multipath map {map} holds it"),
                multipath_remedy(map, is_iscsi(facts, paths.as_deref())),
            ),
            Self::Lvm { map } => (
                format!("LVM on this node holds it as {map}"),
                format!(
                    "run `dmsetup remove {}`, and reject the disk with global_filter in \
                     /etc/lvm/lvm.conf",
                    name(&map.map.name)
                ),
            ),
            Self::Crypt { map } => (
                format!("dm-crypt holds it as {map}, which is not this volume's"),
                format!("run `cryptsetup close {}`", name(&map.map.name)),
            ),
            Self::Md { array, level } => (
                format!("md array {} ({}) holds it", name(&array.name), name(level)),
                format!("run `mdadm --stop /dev/{}`", name(&array.name)),
            ),
            Self::OtherHolder { holder } => (
                format!("{} holds it", name(&holder.name)),
                format!("take it out of {}", name(&holder.name)),
            ),
            Self::Swap => (
                "this node swaps to it".into(),
                format!("find {number} in /proc/swaps and run swapoff"),
            ),
            Self::MountedElsewhere { mounts } => (
                format!("it is mounted elsewhere: {}", several(mounts.iter().map(mounted))),
                "stop what mounts it there, or unmount it".into(),
            ),
            Self::HeldOpen { openers } => (
                "it is held open exclusively, and no holder or mount of any namespace shows".into(),
                opened(openers.as_ref()),
            ),
            Self::LoopOnTop { loops } => (
                format!(
                    "a loop device is over it: {}",
                    several(loops.iter().map(|on_top| {
                        let file = path(&on_top.backing_file);
                        format!("/dev/{} ({file})", name(&on_top.name))
                    }))
                ),
                loops.first().map_or_else(String::new, |on_top| {
                    format!("run `losetup -d /dev/{}`", name(&on_top.name))
                }),
            ),
            Self::ReadOnlyDevice => (
                "the kernel takes no writes to it".into(),
                "wait for the engine, or run `blockdev --setrw` on it if somebody set it so".into(),
            ),
            Self::Unknown { missing } => (
                format!("whether anybody holds it is not known: {missing}"),
                "see that the guard runs privileged, with the host's /proc, /sys and /dev".into(),
            ),
        })
    }
}

/// Never by `devnode`: `^sd` takes the paths of a host's SAN away too.
fn multipath_remedy(map: &HeldMap, is_iscsi: bool) -> String {
    let entry = if is_iscsi {
        r#"device { vendor "IET" product "VIRTUAL-DISK" }"#.to_owned()
    } else {
        format!(r#"wwid "{}""#, name(map.map.wwid().unwrap_or_default()))
    };
    format!(
        "add to /etc/multipath.conf on this node: blacklist {{ {entry} }}, then run \
         `multipathd reconfigure`"
    )
}

/// Longhorn's v1 disks are iSCSI; where nothing says what it is, it most likely is one.
fn is_iscsi(facts: &DeviceFacts, paths: Option<&[Member]>) -> bool {
    let of_path = paths.into_iter().flatten().find(|path| path.number == Some(facts.number));
    let target = facts.target.as_ref().or(of_path.and_then(|path| path.target.as_ref()));
    target != Some(&Target::NotIscsi)
}

impl Display for HeldMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}", name(&self.map.name), name(&self.holder.name))?;
        if let Some(number) = self.holder.number {
            write!(f, " {number}")?;
        }
        match self.map.wwid() {
            Some(wwid) => write!(f, ", wwid {})", name(wwid)),
            None => f.write_str(")"),
        }
    }
}

impl Display for Gone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoDevice => "opening it says so",
            Self::NotInSysfs => "sysfs has none of its number",
            Self::Empty => "its size is 0",
        })
    }
}

impl Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Target(Target::Iqn(iqn)) => write!(f, "target {}", quoted(iqn, MAX_TARGET_BYTES)),
            Self::Target(Target::NotIscsi) => f.write_str("no iSCSI disk"),
            Self::Map(map) => write!(f, "device-mapper map {}", name(map)),
        }
    }
}

impl Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ExclusiveOpen(errno) => write!(f, "opening it says {errno:?}"),
            Self::Mounts => {
                f.write_str("it is in use, and the mounts of the node do not say by whom")
            }
            Self::Processes(1) => f.write_str("1 process could not be looked at"),
            Self::Processes(count) => write!(f, "{count} processes could not be looked at"),
            Self::Sysfs => f.write_str("sysfs cannot be read"),
            Self::Size => f.write_str("its size cannot be read"),
            Self::ReadOnly => f.write_str("whether it takes writes cannot be read"),
            Self::Holders => f.write_str("its holders cannot be read"),
            Self::Loops => f.write_str("the loop devices cannot be listed"),
            Self::Identity => f.write_str("whose disk it is cannot be read"),
            Self::Twins => f.write_str("the directory of its node cannot be listed"),
        }
    }
}

fn member(member: &Member) -> String {
    let number = member.number.map_or_else(|| "?".to_owned(), |number| number.to_string());
    match &member.target {
        Some(target) => format!("{number} ({})", Identity::Target(target.clone())),
        None => format!("{number} (target not known)"),
    }
}

fn mounted(sighting: &MountSighting) -> String {
    let life = match sighting.life {
        Life::Dead => ", dead",
        Life::Answers | Life::Unknown => "",
    };
    let place = path(&sighting.mount.path);
    format!("at {place} by {}{life}", process(&sighting.process))
}

fn process(process: &Process) -> String {
    let comm = if process.comm.is_empty() { "?".into() } else { name(&process.comm) };
    match &process.pod {
        Some(pod) => format!("{comm} (pid {}, pod {})", process.pid, pod.as_str()),
        None => format!("{comm} (pid {})", process.pid),
    }
}

fn opened(openers: Option<&Sightings<Process>>) -> String {
    match openers {
        Some(openers) if !openers.seen.is_empty() => {
            format!("stop who has it open: {}", several(openers.seen.iter().map(process)))
        }
        _ => "stop who holds it (a filesystem unmounted lazily and still in use looks like this)"
            .into(),
    }
}

fn several(all: impl ExactSizeIterator<Item = String>) -> String {
    let more = all.len().saturating_sub(MAX_NAMED);
    let named = all.take(MAX_NAMED).collect::<Vec<_>>().join(", ");
    if more == 0 { named } else { format!("{named} and {more} more") }
}

fn path(path: &Path) -> String {
    quoted(&path.to_string_lossy(), MAX_PATH_BYTES)
}

fn name(name: &str) -> String {
    quoted(name, MAX_NAME_BYTES)
}

/// What the node shows, as a text may quote it: ASCII, printable, and not too long.
fn quoted(shown: &str, max_bytes: usize) -> String {
    let plain = |c: char| if c == ' ' || c.is_ascii_graphic() { c } else { '?' };
    let mut plain: String = shown.chars().map(plain).collect();
    if plain.len() > max_bytes {
        plain.truncate(max_bytes);
        plain.push_str("...");
    }
    plain
}
