//! Does to a copy of a sound image what a row of a table says.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::base::{Base, copy, feed};
use super::place::Place;
use super::tree::Tree;
use crate::trial::disks::{Mount, path, run};

/// One thing that happened to a filesystem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Harm {
    /// Commands of debugfs, a line each.
    Debugfs(&'static str),
    /// Commands of `xfs_db -x`, a line each.
    Db(&'static str),
    Zero(Place),
    /// Noise, the same in every run.
    Garble(Place),
    /// These bytes so far into it.
    Set(Place, u64, &'static [u8]),
    /// All bits of the byte so far into it turned over.
    Flip(Place, u64),
    /// The device is shorter now, in MiB.
    Cut(u64),
    /// Mounted, written to, and shut down with the log on disk, as a lost engine would.
    Shutdown,
}

/// A damaged image: of which kinds it is made, and how.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    pub name: &'static str,
    pub kinds: &'static [&'static str],
    pub harms: &'static [Harm],
}

/// Makes `image` a damaged copy of `base`. `dir` is for a mount point.
pub fn inflict(base: &Base, harms: &[Harm], image: &Path, tree: &Tree, dir: &Path) {
    copy(base.image(), image);
    for harm in harms {
        harm.inflict(base, image, tree, dir);
    }
}

impl Harm {
    fn inflict(self, base: &Base, image: &Path, tree: &Tree, dir: &Path) {
        let file = || OpenOptions::new().read(true).write(true).open(image).unwrap();
        match self {
            Self::Debugfs(lines) => {
                feed("/sbin/debugfs", &["-w", "-f", "-"], image, lines);
            }
            Self::Db(lines) => {
                feed("/sbin/xfs_db", &["-x", "-f"], image, lines);
            }
            Self::Zero(place) => overwrite(base, place, &file(), |_, _| 0),
            Self::Garble(place) => overwrite(base, place, &file(), noise),
            Self::Set(place, into, bytes) => {
                for range in place.find(base) {
                    file().write_all_at(bytes, range.offset + into).unwrap();
                }
            }
            Self::Flip(place, into) => {
                for range in place.find(base) {
                    let mut byte = [0];
                    file().read_exact_at(&mut byte, range.offset + into).unwrap();
                    file().write_all_at(&[!byte[0]], range.offset + into).unwrap();
                }
            }
            Self::Cut(mib) => file().set_len(mib << 20).unwrap(),
            Self::Shutdown => shut_down(base, image, tree, dir),
        }
    }
}

fn overwrite(base: &Base, place: Place, file: &File, byte: impl Fn(u64, u64) -> u8) {
    for range in place.find(base) {
        let bytes: Vec<u8> = (0..range.length).map(|at| byte(range.offset, at)).collect();
        file.write_all_at(&bytes, range.offset).unwrap();
    }
}

/// A byte that looks like chance (splitmix64).
fn noise(seed: u64, at: u64) -> u8 {
    let mut word = seed.wrapping_add(at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (word >> 56) as u8
}

fn shut_down(base: &Base, image: &Path, tree: &Tree, dir: &Path) {
    let at = dir.join("mnt");
    let mounted = Mount::of_image(image, base.mount_options(), &at);
    tree.plant_later(&at);
    std::fs::remove_file(at.join("dir2/file2")).unwrap();
    // `-f`: what is in the log in memory reaches the log on the disk.
    run("/usr/sbin/xfs_io", &["-x", "-c", "shutdown -f", path(&at)]);
    drop(mounted);
}
