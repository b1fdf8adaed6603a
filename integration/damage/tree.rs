//! Files with known contents, so that what a repair saved can be counted.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Directories that each hold [`FILES`] files of [`SIZES`].
const DIRS: usize = 6;
const FILES: usize = 8;

/// In bytes: two that fit into an inode (`inline_data`), some below and some above a block.
const SIZES: [usize; FILES] = [20, 55, 400, 1500, 3000, 5000, 9000, 13_000];

/// Files in one directory, which takes three blocks of 4 KiB and so has an index.
const MANY: usize = 140;

/// Stretches of a file with holes: more than an inode has room for extents.
const STRETCHES: usize = 24;

/// The directory with [`MANY`] files.
pub const MANY_DIR: &str = "/many";

/// Files that a mount writes before it is shut down.
const LATER: usize = 20;

/// What every file holds, by its name. A file begins with its name.
pub struct Tree {
    files: BTreeMap<String, Vec<u8>>,
}

impl Tree {
    pub fn new() -> Self {
        let mut files = BTreeMap::new();
        let mut put = |name: String, bytes: usize| {
            let content = filled(&name, bytes);
            files.insert(name, content);
        };
        for dir in 0..DIRS {
            for (file, bytes) in SIZES.into_iter().enumerate() {
                put(format!("dir{dir}/file{file}"), bytes);
            }
        }
        for file in 0..MANY {
            put(many(file), 90);
        }
        put("large".into(), 600_000);
        put("deep/er/est/file".into(), 7000);
        for file in 0..LATER {
            put(later(file), 2500);
        }
        files.insert("holes".into(), with_holes());
        Self { files }
    }

    /// How many files there are at most, with the later ones or without.
    pub fn count(&self, later: bool) -> usize {
        self.files.len() - if later { 0 } else { LATER }
    }

    /// Writes all files but the later ones below `root`, and two links.
    pub fn plant(&self, root: &Path) {
        let early = |name: &&String| !name.starts_with("later");
        for name in self.files.keys().filter(early) {
            self.write(root, name);
        }
        fs::hard_link(root.join("dir0/file3"), root.join("dir1/hard-link")).unwrap();
        std::os::unix::fs::symlink("dir0/file1", root.join("symbolic-link")).unwrap();
    }

    /// Writes the later ones, each on disk before the next.
    pub fn plant_later(&self, root: &Path) {
        for file in 0..LATER {
            self.write(root, &later(file));
            fs::File::open(root.join(later(file))).unwrap().sync_all().unwrap();
        }
    }

    fn write(&self, root: &Path, name: &str) {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let content = &self.files[name];
        if name == "holes" {
            return write_with_holes(&path, content);
        }
        fs::write(path, content).unwrap();
    }

    /// How many files are below `root` with all they held, wherever they are. What cannot be read
    /// is not there.
    pub fn saved_in(&self, root: &Path) -> usize {
        let mut found = BTreeSet::new();
        self.search(root, 0, &mut found);
        found.len()
    }

    fn search<'t>(&'t self, dir: &Path, depth: usize, found: &mut BTreeSet<&'t str>) {
        // No directory of ours is so deep: a damaged one may hold itself.
        if depth > 8 {
            return;
        }
        for entry in fs::read_dir(dir).into_iter().flatten().take(10_000).flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                self.search(&entry.path(), depth + 1, found);
            } else if kind.is_file() {
                found.extend(self.known(&entry.path()));
            }
        }
    }

    /// The name under which the content of `path` is known.
    fn known(&self, path: &Path) -> Option<&str> {
        // Larger than any of ours: a damaged size.
        if fs::metadata(path).ok()?.len() > 1 << 20 {
            return None;
        }
        let content = fs::read(path).ok()?;
        let name = content.split(|byte| *byte == b'\n').next()?;
        let (name, expected) = self.files.get_key_value(std::str::from_utf8(name).ok()?)?;
        (*expected == content).then_some(name)
    }
}

fn many(file: usize) -> String {
    format!("many/{}-{file:03}", "a-name-as-long-as-those-of-files-nobody-typed".repeat(2))
}

fn later(file: usize) -> String {
    format!("later-{file}")
}

fn filled(name: &str, bytes: usize) -> Vec<u8> {
    let line = format!("{name}\n");
    let mut content = line.repeat(bytes / line.len() + 1).into_bytes();
    content.truncate(bytes.max(line.len()));
    content
}

/// Stretches of 4 KiB with as much of nothing between them.
fn with_holes() -> Vec<u8> {
    let mut content = Vec::new();
    for _ in 0..STRETCHES {
        content.extend(filled("holes", 4096));
        content.extend([0; 4096]);
    }
    content
}

fn write_with_holes(path: &Path, content: &[u8]) {
    use std::os::unix::fs::FileExt;
    let file = fs::File::create(path).unwrap();
    file.set_len(content.len() as u64).unwrap();
    for (at, stretch) in content.chunks(8192).enumerate() {
        file.write_all_at(&stretch[..4096], at as u64 * 8192).unwrap();
    }
}
