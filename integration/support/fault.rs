//! A disk that fails on command: one FUSE file, not cached, under a loop device.

#![allow(dead_code, reason = "part of the kit: not every test asks for everything")]

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant, SystemTime};

use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite,
    Request, Session, SessionACL, WriteFlags,
};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use tempfile::TempDir;

use super::disk::Loop;

const FILE: INodeNo = INodeNo(2);
const NAME: &str = "disk";

/// Which requests a fault hits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Read,
    Write,
    Both,
}

/// What happens to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It fails with this errno.
    Errno(i32),
    /// A read returns zeros.
    Zeros,
    /// A read returns half of what was asked for.
    Short,
    /// It takes this long, and is then done.
    Delay(Duration),
    /// A write is acknowledged and forgotten.
    Vanish,
}

#[derive(Debug)]
struct Rule {
    bytes: Range<u64>,
    direction: Direction,
    fault: Fault,
    until: Option<Instant>,
}

/// What the disk does now, and what it was asked.
#[derive(Debug, Default)]
struct Behaviour {
    rules: Vec<Rule>,
    frozen: bool,
    writes: usize,
}

#[derive(Debug)]
struct Shared {
    image: File,
    size_bytes: u64,
    behaviour: Mutex<Behaviour>,
    thawed: Condvar,
}

/// A loop device whose reads and writes go through [`FaultDisk`]'s rules. Dropped, it thaws, and
/// is taken apart.
#[derive(Debug)]
pub struct FaultDisk {
    attachment: Option<Loop>,
    shared: Arc<Shared>,
    dir: TempDir,
}

impl FaultDisk {
    /// A healthy disk with the content of `image`, which stays the place where writes land.
    pub fn over(image: &Path) -> Self {
        let file = File::options().read(true).write(true).open(image).expect("the image");
        let size_bytes = file.metadata().expect("the image").len();
        let shared = Arc::new(Shared {
            image: file,
            size_bytes,
            behaviour: Mutex::default(),
            thawed: Condvar::new(),
        });
        let dir = tempfile::tempdir().expect("a directory for the fault disk");
        serve(&shared, dir.path()).expect("FUSE");
        let attachment = Some(Loop::over(&dir.path().join(NAME)));
        Self { attachment, shared, dir }
    }

    pub fn device(&self) -> &Path {
        self.attachment.as_ref().expect("attached until dropped").path()
    }

    /// Adds a fault; the first that fits a request is taken.
    pub fn fail(&self, bytes: Range<u64>, direction: Direction, fault: Fault) {
        self.add(Rule { bytes, direction, fault, until: None });
    }

    /// Adds a fault that goes away by itself.
    pub fn fail_for(&self, time: Duration, bytes: Range<u64>, direction: Direction, fault: Fault) {
        self.add(Rule { bytes, direction, fault, until: Some(Instant::now() + time) });
    }

    /// From now on every request waits for [`FaultDisk::thaw`].
    pub fn freeze(&self) {
        self.shared.behaviour.lock().expect("behaviour").frozen = true;
    }

    pub fn thaw(&self) {
        self.shared.behaviour.lock().expect("behaviour").frozen = false;
        self.shared.thawed.notify_all();
    }

    /// Makes it healthy.
    pub fn heal(&self) {
        self.shared.behaviour.lock().expect("behaviour").rules.clear();
        self.thaw();
    }

    /// Writes that arrived, whatever became of them.
    pub fn writes(&self) -> usize {
        self.shared.behaviour.lock().expect("behaviour").writes
    }

    fn add(&self, rule: Rule) {
        self.shared.behaviour.lock().expect("behaviour").rules.push(rule);
    }
}

impl Drop for FaultDisk {
    fn drop(&mut self) {
        self.heal();
        self.attachment = None;
        let _ = umount2(self.dir.path(), MntFlags::MNT_DETACH);
    }
}

/// Mounts FUSE on `dir` and serves it until it is unmounted.
fn serve(shared: &Arc<Shared>, dir: &Path) -> io::Result<()> {
    let requests = File::options().read(true).write(true).open("/dev/fuse")?;
    let data = format!("fd={},rootmode=40000,user_id=0,group_id=0", requests.as_raw_fd());
    mount(Some("fault"), dir, Some("fuse"), MsFlags::empty(), Some(data.as_str()))?;
    let mut config = Config::default();
    // Enough that delayed requests do not hold up the others.
    config.n_threads = Some(8);
    let disk = Served(Arc::clone(shared));
    let session = Session::from_fd(disk, requests.into(), SessionACL::All, config)?;
    std::thread::spawn(move || session.run());
    Ok(())
}

struct Served(Arc<Shared>);

impl Served {
    /// Waits while frozen, then says which fault hits a request.
    fn fault(&self, bytes: &Range<u64>, direction: Direction) -> Option<Fault> {
        let mut behaviour = self.0.behaviour.lock().expect("behaviour");
        behaviour.writes += usize::from(direction == Direction::Write);
        while behaviour.frozen {
            behaviour = self.0.thawed.wait(behaviour).expect("behaviour");
        }
        let now = Instant::now();
        let hits = |rule: &&Rule| {
            rule.until.is_none_or(|until| now < until)
                && (rule.direction == direction || rule.direction == Direction::Both)
                && rule.bytes.start < bytes.end
                && bytes.start < rule.bytes.end
        };
        let fault = behaviour.rules.iter().find(hits).map(|rule| rule.fault);
        drop(behaviour);
        if let Some(Fault::Delay(time)) = fault {
            std::thread::sleep(time);
        }
        fault
    }

    fn attributes(&self, ino: INodeNo) -> Option<FileAttr> {
        let (kind, size) = match ino {
            INodeNo::ROOT => (FileType::Directory, 0),
            FILE => (FileType::RegularFile, self.0.size_bytes),
            _ => return None,
        };
        let never = SystemTime::UNIX_EPOCH;
        Some(FileAttr {
            ino,
            size,
            blocks: size.div_ceil(512),
            atime: never,
            mtime: never,
            ctime: never,
            crtime: never,
            kind,
            perm: 0o700,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }
}

impl Filesystem for Served {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.attributes(FILE) {
            Some(attr) if parent == INodeNo::ROOT && name == NAME => {
                reply.entry(&Duration::MAX, &attr, Generation(0));
            }
            _ => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(ino) {
            Some(attr) => reply.attr(&Duration::MAX, &attr),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let end = self.0.size_bytes.min(offset + u64::from(size));
        let mut bytes = vec![0; usize::try_from(end.saturating_sub(offset)).expect("one request")];
        let fault = self.fault(&(offset..end), Direction::Read);
        match fault {
            Some(Fault::Errno(errno)) => return reply.error(Errno::from_i32(errno)),
            Some(Fault::Zeros) => return reply.data(&bytes),
            Some(Fault::Short | Fault::Delay(_) | Fault::Vanish) | None => {}
        }
        match self.0.image.read_exact_at(&mut bytes, offset) {
            Ok(()) if fault == Some(Fault::Short) => reply.data(&bytes[..bytes.len() / 2]),
            Ok(()) => reply.data(&bytes),
            Err(_) => reply.error(Errno::EIO),
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let length = u32::try_from(data.len()).expect("one request");
        let fault = self.fault(&(offset..offset + u64::from(length)), Direction::Write);
        match fault {
            Some(Fault::Errno(errno)) => return reply.error(Errno::from_i32(errno)),
            Some(Fault::Vanish) => return reply.written(length),
            Some(Fault::Zeros | Fault::Short | Fault::Delay(_)) | None => {}
        }
        match self.0.image.write_all_at(data, offset) {
            Ok(()) => reply.written(length),
            Err(_) => reply.error(Errno::EIO),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
    }
}
