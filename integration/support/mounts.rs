//! The mount table of this process, as the stand-in and the kubelet-like client read it.

#![allow(dead_code, reason = "part of the kit: not every test asks for everything")]

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, umount2};
use nix::sys::stat::{major, minor};

/// One line of `/proc/self/mountinfo`.
#[derive(Debug, Clone)]
pub struct Mount {
    pub id: u64,
    /// `major:minor`, as the table prints it.
    pub number: String,
    pub path: PathBuf,
    /// Of this mount.
    pub options: String,
    pub fs_type: String,
    pub source: String,
    /// Of the superblock.
    pub super_options: String,
}

impl Mount {
    /// Whether the mount or its superblock is shown as read-only.
    pub fn is_read_only(&self) -> bool {
        [&self.options, &self.super_options].iter().any(|list| list.split(',').any(|o| o == "ro"))
    }
}

/// The whole table, the topmost of stacked mounts last.
pub fn all() -> Vec<Mount> {
    let table = std::fs::read("/proc/self/mountinfo").expect("the mount table");
    table.split(|byte| *byte == b'\n').filter_map(parse_line).collect()
}

/// The mounts at exactly `path`, the topmost last.
pub fn at(path: &Path) -> Vec<Mount> {
    // A dead filesystem may refuse to be resolved; its path is then taken as it is written.
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    all().into_iter().filter(|mount| mount.path == path).collect()
}

pub fn is_mounted(path: &Path) -> bool {
    !at(path).is_empty()
}

/// The number of a device node, as the table prints it.
///
/// # Errors
/// What stat(2) says.
pub fn device_number(device: &Path) -> io::Result<String> {
    let number = std::fs::metadata(device)?.rdev();
    Ok(format!("{}:{}", major(number), minor(number)))
}

fn parse_line(line: &[u8]) -> Option<Mount> {
    let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let dash = fields.iter().position(|field| *field == b"-")?;
    let text = |at: usize| Some(String::from_utf8_lossy(fields.get(at)?).into_owned());
    Some(Mount {
        id: text(0)?.parse().ok()?,
        number: text(2)?,
        path: unescape(fields.get(4)?).into(),
        options: text(5)?,
        fs_type: text(dash + 1)?,
        source: unescape(fields.get(dash + 2)?).to_string_lossy().into_owned(),
        super_options: text(dash + 3)?,
    })
}

/// Undoes the kernel's `\ooo` for blanks and backslashes.
fn unescape(field: &[u8]) -> OsString {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, tail @ ..] = rest {
        let octal = tail
            .get(..3)
            .filter(|_| *first == b'\\')
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        plain.push(octal.unwrap_or(*first));
        rest = if octal.is_some() { &tail[3..] } else { tail };
    }
    OsString::from_vec(plain)
}

/// Takes away every mount at `path`, lazily where it is busy.
pub fn clear(path: &Path) {
    while is_mounted(path) {
        let gone =
            umount2(path, MntFlags::empty()).or_else(|_| umount2(path, MntFlags::MNT_DETACH));
        if let Err(errno) = gone {
            eprintln!("cannot unmount {}: {errno}", path.display());
            return;
        }
    }
}
