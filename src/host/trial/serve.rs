//! Answers the kernel's requests: one directory, one file, the trial's disk.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, InitFlags, KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, Session, SessionACL, TimeOrNow,
    WriteFlags,
};

use super::BLOCK_BYTES;
use super::disk::{Disk, Trouble};

const FILE: INodeNo = INodeNo(2);

/// How long the kernel may believe what it was told of the file. A day: nothing about it changes
/// while a trial lasts, and asking again costs a round trip per system call.
const VALID: Duration = Duration::from_secs(86_400);

/// The largest write the kernel sends, in bytes: the most it can (256 pages).
const MAX_WRITE_BYTES: u32 = 1 << 20;

/// Threads that answer. Two: one reads the device while the other takes writes; a checker has one
/// thread, so more would only take turns.
const THREADS: usize = 2;

/// The disk, for as long as it may be used. Taken away, every request is answered EIO.
pub(super) type Slot = Arc<Mutex<Option<Arc<Disk>>>>;

/// Serves `disk` as the file `name` until the superblock is gone. The receiver ends then.
pub(super) fn serve(requests: OwnedFd, name: OsString, disk: Slot) -> io::Result<Receiver<()>> {
    let size_bytes = lend(&disk).map_or(0, |disk| disk.device().size_bytes());
    let mut config = Config::default();
    config.n_threads = Some(THREADS);
    let one_file = OneFile { name, size_bytes, disk };
    let session = Session::from_fd(one_file, requests, SessionACL::All, config)?;
    let (ending, ended) = channel();
    thread::Builder::new().name("trial-fuse".into()).spawn(move || {
        // It ends with ENODEV or ECONNABORTED when the superblock goes; neither is news.
        let _ = session.run();
        drop(ending);
    })?;
    Ok(ended)
}

fn lend(slot: &Slot) -> Option<Arc<Disk>> {
    slot.lock().expect("no holder of this lock panics").clone()
}

#[derive(Debug)]
struct OneFile {
    name: OsString,
    size_bytes: u64,
    disk: Slot,
}

impl OneFile {
    fn attributes(&self, ino: INodeNo) -> Result<FileAttr, Errno> {
        let (kind, perm, size) = match ino {
            INodeNo::ROOT => (FileType::Directory, 0o700, 0),
            FILE => (FileType::RegularFile, 0o600, self.size_bytes),
            _ => return Err(Errno::ENOENT),
        };
        let never = SystemTime::UNIX_EPOCH;
        Ok(FileAttr {
            ino,
            size,
            blocks: size.div_ceil(512),
            atime: never,
            mtime: never,
            ctime: never,
            crtime: never,
            kind,
            perm,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: u32::try_from(BLOCK_BYTES).expect("a block is small"),
            flags: 0,
        })
    }
}

impl Filesystem for OneFile {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Each is asked for alone: an old kernel that lacks one still gets the others.
        for wanted in [
            InitFlags::FUSE_ASYNC_READ,
            InitFlags::FUSE_ABORT_ERROR,
            // Writes gather in the page cache and arrive a mebibyte at a time: a journal replay, one
            // small write after the other, takes half as long. All have arrived when the checker
            // is reaped: close(2) waits for them (`fuse_flush`, fs/fuse/file.c).
            InitFlags::FUSE_WRITEBACK_CACHE,
        ] {
            let _ = config.add_capabilities(wanted);
        }
        // A refusal names the most it takes.
        if let Err(most) = config.set_max_write(MAX_WRITE_BYTES) {
            let _ = config.set_max_write(most);
        }
        if let Err(most) = config.set_max_readahead(MAX_WRITE_BYTES) {
            let _ = config.set_max_readahead(most);
        }
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.attributes(FILE) {
            Ok(attr) if parent == INodeNo::ROOT && name == self.name => {
                reply.entry(&VALID, &attr, Generation(0));
            }
            _ => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(ino) {
            Ok(attr) => reply.attr(&VALID, &attr),
            Err(errno) => reply.error(errno),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        // Times are taken and forgotten: the kernel sends them after writes. A device can be
        // given neither a size nor an owner.
        let keeps_size = size.is_none_or(|size| size == self.size_bytes);
        match self.attributes(ino) {
            Ok(attr) if keeps_size && mode.is_none() && uid.is_none() && gid.is_none() => {
                reply.attr(&VALID, &attr);
            }
            Ok(_) => reply.error(Errno::EPERM),
            Err(errno) => reply.error(errno),
        }
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE);
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
        let Some(disk) = lend(&self.disk) else { return reply.error(Errno::EIO) };
        // The reply is used up by whichever of the two answers.
        let mut reply = Some(reply);
        let read = disk.read(offset, size as usize, |bytes| {
            if let Some(reply) = reply.take() {
                reply.data(bytes);
            }
        });
        if let (Err(trouble), Some(reply)) = (read, reply) {
            reply.error(errno(trouble));
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
        let Some(disk) = lend(&self.disk) else { return reply.error(Errno::EIO) };
        match disk.write(offset, data) {
            Ok(()) => reply.written(u32::try_from(data.len()).expect("at most 1 MiB")),
            Err(trouble) => reply.error(errno(trouble)),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        // Nothing in a trial needs to outlive the guard.
        reply.ok();
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: u64,
        _: u64,
        _: i32,
        reply: ReplyEmpty,
    ) {
        // Checkers punch holes to zero blocks; told that this is impossible, they write zeros.
        reply.error(Errno::EOPNOTSUPP);
    }
}

fn errno(trouble: Trouble) -> Errno {
    match trouble {
        Trouble::StoreFull | Trouble::BeyondEnd { .. } => Errno::ENOSPC,
        Trouble::Store { .. } | Trouble::DeviceRead { .. } | Trouble::DeviceChanged { .. } => {
            Errno::EIO
        }
    }
}
