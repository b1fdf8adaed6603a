//! A file or device that tools make something of, and the reader that looks at it.

use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use mount_guard::facts::bytes::{ByteRange, DeviceBytes, Failure, Outcome};
use mount_guard::format::{Content, Filesystem, Lost, PrimaryLost, Step, identify};
use nix::errno::Errno;

pub const MIB: u64 = 1 << 20;

/// An image file in a directory of its own.
pub struct Image {
    dir: tempfile::TempDir,
}

/// What the reading for one verdict took.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cost {
    pub reads: usize,
    pub bytes: u64,
}

impl Image {
    pub fn new(size_bytes: u64) -> Self {
        let image = Self { dir: tempfile::tempdir().unwrap() };
        File::create(image.path()).unwrap().set_len(size_bytes).unwrap();
        image
    }

    /// An image of which `tool` (a command line) made something.
    pub fn made(size_bytes: u64, tool: &str) -> Self {
        let image = Self::new(size_bytes);
        image.tool(tool);
        image
    }

    pub fn path(&self) -> PathBuf {
        self.dir.path().join("image")
    }

    /// Runs a command line on the image, whose path takes the place of `{}` or comes last.
    pub fn tool(&self, line: &str) -> String {
        self.tool_with_input(line, "")
    }

    pub fn tool_with_input(&self, line: &str, input: &str) -> String {
        let (text, success) = run(line, &self.path(), input);
        assert!(success, "{line}: {text}");
        text
    }

    /// What a tool says whose exit code does not matter.
    pub fn told(&self, line: &str) -> String {
        run(line, &self.path(), "").0
    }

    pub fn zero(&self, offset_bytes: u64, len_bytes: u64) {
        self.write(offset_bytes, &vec![0; usize::try_from(len_bytes).unwrap()]);
    }

    pub fn write(&self, offset_bytes: u64, bytes: &[u8]) {
        let file = OpenOptions::new().write(true).open(self.path()).unwrap();
        file.write_all_at(bytes, offset_bytes).unwrap();
    }

    pub fn resize(&self, size_bytes: u64) {
        OpenOptions::new().write(true).open(self.path()).unwrap().set_len(size_bytes).unwrap();
    }

    pub fn content(&self) -> Content {
        look(&self.path()).0
    }

    pub fn filesystem(&self) -> Filesystem {
        match self.content() {
            Content::Filesystem(fs) => fs,
            other => panic!("{other:?}"),
        }
    }

    /// Whose superblock is lost, and where a copy of it is.
    pub fn lost(&self) -> (Lost, Option<u64>) {
        match self.content() {
            Content::PrimaryLost(PrimaryLost { lost, backup, .. }) => {
                (lost, backup.map(|backup| backup.offset_bytes))
            }
            other => panic!("{other:?}"),
        }
    }

    /// One value that blkid gives for the image.
    pub fn blkid(&self, name: &str) -> String {
        self.told(&format!("blkid -p -s {name} -o value")).trim().to_owned()
    }
}

impl Image {
    /// What was read of it until its content was known.
    pub fn bytes(&self) -> DeviceBytes {
        let mut file = File::open(self.path()).unwrap();
        let mut bytes = DeviceBytes::new(file.seek(SeekFrom::End(0)).unwrap());
        while let Step::Needs(plan) = identify(&bytes) {
            for range in plan.ranges() {
                bytes.put(*range, read(&file, *range, &[]));
            }
        }
        bytes
    }
}

/// Reads what the judgement asks for until there is one.
pub fn look(path: &Path) -> (Content, Cost) {
    look_patched(path, &[])
}

/// The same over a device of which some bytes are other ones.
pub fn look_patched(path: &Path, patches: &[(u64, u8)]) -> (Content, Cost) {
    let mut file = File::open(path).unwrap();
    let mut bytes = DeviceBytes::new(file.seek(SeekFrom::End(0)).unwrap());
    let mut cost = Cost::default();
    for _ in 0..200 {
        let plan = match identify(&bytes) {
            Step::Is(content) => return (content, cost),
            Step::Needs(plan) => plan,
        };
        for range in plan.ranges() {
            cost.reads += 1;
            cost.bytes += range.len_bytes;
            bytes.put(*range, read(&file, *range, patches));
        }
    }
    panic!("asks for ever");
}

fn read(file: &File, range: ByteRange, patches: &[(u64, u8)]) -> Outcome {
    let mut bytes = vec![0; usize::try_from(range.len_bytes).unwrap()];
    let mut came = 0;
    while came < bytes.len() {
        match file.read_at(&mut bytes[came..], range.offset_bytes + came as u64) {
            Ok(0) => break,
            Ok(more) => came += more,
            Err(error) => {
                let errno = Errno::from_raw(error.raw_os_error().unwrap_or(0));
                return Outcome::Failed(Failure::Errno(errno));
            }
        }
    }
    bytes.truncate(came);
    for (at, byte) in patches {
        let place = at.checked_sub(range.offset_bytes).and_then(|at| usize::try_from(at).ok());
        if let Some(spot) = place.and_then(|place| bytes.get_mut(place)) {
            *spot = *byte;
        }
    }
    Outcome::Bytes(bytes)
}

/// Runs a command line; what it says on both streams, and whether it was content.
pub fn run(line: &str, path: &Path, input: &str) -> (String, bool) {
    let path = path.to_str().unwrap();
    let mut words: Vec<String> = line.split(' ').map(|word| word.replace("{}", path)).collect();
    if !line.contains("{}") {
        words.push(path.to_owned());
    }
    let mut child = Command::new(&words[0])
        .args(&words[1..])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("this test needs {}: {error}", words[0]));
    // A tool that asks for nothing may be gone before it is told.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (String::from_utf8_lossy(&text).into_owned(), output.status.success())
}
