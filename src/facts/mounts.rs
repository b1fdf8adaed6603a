//! The mount table, line by line: `/proc/PID/mountinfo` (proc_pid_mountinfo(5)).

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use crate::volume::DevNumber;

/// One line of a mount table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    pub id: u64,
    pub parent: u64,
    /// Of the superblock. An anonymous one for btrfs, whose devices only [`Mount::source`] tells.
    pub number: DevNumber,
    /// The directory of the filesystem that is mounted; `/` except for bind mounts.
    pub root: PathBuf,
    /// The mount point, as the process sees it that the table belongs to.
    pub path: PathBuf,
    /// Of this mount alone.
    pub options: Options,
    pub propagation: Propagation,
    pub fs_type: String,
    /// As it was given at mount time: the name may mean another device by now.
    pub source: PathBuf,
    /// Of the superblock, whoever mounts it.
    pub super_options: Options,
}

/// Options with commas between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options(String);

/// Where mounts made below this one appear too (mount_namespaces(7)).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Propagation {
    /// The peer group it shares mounts with.
    pub shared: Option<u64>,
    /// The peer group it receives mounts from.
    pub master: Option<u64>,
    pub unbindable: bool,
}

/// A mount table, and how many of its lines could not be understood.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    pub mounts: Vec<Mount>,
    pub unparsed: usize,
}

impl Table {
    /// In the table's order: of mounts stacked on one path the topmost comes last.
    #[must_use]
    pub fn parse(text: &[u8]) -> Self {
        let mut table = Self::default();
        for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            match Mount::parse(line) {
                Some(mount) => table.mounts.push(mount),
                None => table.unparsed += 1,
            }
        }
        table
    }
}

impl Mount {
    #[must_use]
    pub fn parse(line: &[u8]) -> Option<Self> {
        let mut fields = line.split(|byte| *byte == b' ');
        let id = number(fields.next()?)?;
        let parent = number(fields.next()?)?;
        let device = DevNumber::parse(std::str::from_utf8(fields.next()?).ok()?)?;
        let root = PathBuf::from(unescape(fields.next()?));
        let path = PathBuf::from(unescape(fields.next()?));
        let options = Options::of(fields.next()?);
        let mut propagation = Propagation::default();
        loop {
            match fields.next()? {
                b"-" => break,
                tag => propagation.add(tag),
            }
        }
        Some(Self {
            id,
            parent,
            number: device,
            root,
            path,
            options,
            propagation,
            fs_type: unescape(fields.next()?).to_string_lossy().into_owned(),
            source: unescape(fields.next()?).into(),
            super_options: Options::of(fields.next()?),
        })
    }
}

impl Options {
    /// Whether an option of exactly this name, without a value, is among them.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.0.split(',').any(|option| option == name)
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn of(field: &[u8]) -> Self {
        Self(unescape(field).to_string_lossy().into_owned())
    }
}

impl Propagation {
    /// Tags that are not known, also of kernels to come, are to be ignored (proc(5)).
    fn add(&mut self, tag: &[u8]) {
        let Ok(tag) = std::str::from_utf8(tag) else { return };
        match tag.split_once(':') {
            Some(("shared", group)) => self.shared = group.parse().ok(),
            Some(("master", group)) => self.master = group.parse().ok(),
            None if tag == "unbindable" => self.unbindable = true,
            _ => {}
        }
    }
}

/// Undoes the kernel's `\ooo`, which stands for blanks, backslashes and `#` (`mangle_path`).
#[must_use]
pub fn unescape(field: &[u8]) -> OsString {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, tail @ ..] = rest {
        match (first, tail) {
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..]) => {
                plain.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = after;
            }
            _ => {
                plain.push(*first);
                rest = tail;
            }
        }
    }
    OsString::from_vec(plain)
}

fn number(field: &[u8]) -> Option<u64> {
    std::str::from_utf8(field).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[u8] = include_bytes!("testdata/mountinfo-6.18.txt");

    fn mount(line: &str) -> Mount {
        Mount::parse(line.as_bytes()).unwrap_or_else(|| panic!("{line}"))
    }

    #[test]
    fn every_line_of_a_captured_table_is_understood() {
        let table = Table::parse(TABLE);
        assert_eq!(table.unparsed, 0);
        assert_eq!(table.mounts.len(), TABLE.iter().filter(|byte| **byte == b'\n').count());
    }

    #[test]
    fn a_dead_ext4_shows_it_in_the_options_of_its_superblock() {
        let table = Table::parse(TABLE);
        let dead = table.mounts.iter().find(|mount| mount.super_options.has("shutdown"));
        let dead = dead.expect("the capture has one");
        assert_eq!(dead.fs_type, "ext4");
        assert!(dead.options.has("rw") && !dead.super_options.has("ro"));
    }

    #[test]
    fn every_field_of_a_line_is_kept() {
        let line = r"36 35 98:0 /mnt1 /mnt/a\040b\011\012\134x ro,noatime master:1 propagate_from:2 new_tag:3 - ext3 /dev/root\043 rw,errors=continue";
        let mount = mount(line);
        assert_eq!((mount.id, mount.parent), (36, 35));
        assert_eq!(mount.number, DevNumber { major: 98, minor: 0 });
        assert_eq!(mount.root, PathBuf::from("/mnt1"));
        assert_eq!(mount.path, PathBuf::from("/mnt/a b\t\n\\x"));
        assert!(mount.options.has("ro") && mount.super_options.has("rw"));
        let propagation = Propagation { shared: None, master: Some(1), unbindable: false };
        assert_eq!(mount.propagation, propagation);
        assert_eq!(mount.source, PathBuf::from("/dev/root#"));
        assert_eq!(mount.super_options.as_str(), "rw,errors=continue");
    }

    #[test]
    fn a_mount_may_be_shared_and_a_slave_at_once() {
        let mount = mount("1 0 0:5 / /x rw shared:7 master:9 - tmpfs none rw");
        assert_eq!((mount.propagation.shared, mount.propagation.master), (Some(7), Some(9)));
    }

    #[test]
    fn an_empty_source_is_a_field_of_its_own() {
        let mount = mount("1 0 0:5 / /x rw - tmpfs  rw");
        assert_eq!(mount.source, PathBuf::new());
        assert!(mount.super_options.has("rw"));
    }

    #[test]
    fn a_line_that_breaks_off_is_counted_and_not_guessed() {
        for line in ["", "36", "36 35 98:0 / /x rw", "36 35 98 / /x rw - ext4 a rw", "a b 1:2"] {
            assert_eq!(Mount::parse(line.as_bytes()), None, "{line}");
        }
        assert_eq!(Table::parse(b"36 35 98:0 / /x rw\n").unparsed, 1);
    }

    #[test]
    fn only_three_octal_digits_are_an_escape() {
        for (field, plain) in [
            (r"\040", " "),
            (r"\04", r"\04"),
            (r"\", r"\"),
            (r"\0040", "\u{4}0"),
            (r"\408", r"\408"),
            (r"\777", r"\777"),
            (r"\134040", r"\040"),
        ] {
            assert_eq!(unescape(field.as_bytes()), plain, "{field}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text: Vec<u8>) {
            let _ = Table::parse(&text);
        }
    }
}
