//! A directory of sysfs or proc, and the small texts in it, for few system calls.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, RawDir, open, openat, readlinkat};
use rustix::io::{Errno, read};

/// The largest text taken at once, in bytes: no attribute of sysfs is larger (PAGE_SIZE).
const MAX_TEXT_BYTES: usize = 4096;

/// An open directory, which stays the one it is whatever becomes of its name.
pub(super) struct Dir(OwnedFd);

impl Dir {
    pub(super) fn open(path: &Path) -> Result<Self, Errno> {
        open(path, dir_flags(), Mode::empty()).map(Self)
    }

    pub(super) fn dir(&self, name: &Path) -> Result<Self, Errno> {
        openat(&self.0, name, dir_flags(), Mode::empty()).map(Self)
    }

    /// The text of a file in it. What is longer than an attribute may be is cut.
    pub(super) fn text(&self, name: impl AsRef<Path>) -> Result<String, Errno> {
        let bytes = self.bytes(name)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    pub(super) fn bytes(&self, name: impl AsRef<Path>) -> Result<Vec<u8>, Errno> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = openat(&self.0, name.as_ref(), flags, Mode::empty())?;
        let mut buffer = [0_u8; MAX_TEXT_BYTES];
        let len = read(&file, &mut buffer)?;
        Ok(buffer[..len].to_vec())
    }

    /// A table, however long: the kernel hands one out a page at a time (fs/seq_file.c).
    pub(super) fn table(&self, name: impl AsRef<Path>) -> Result<Vec<u8>, Errno> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = openat(&self.0, name.as_ref(), flags, Mode::empty())?;
        let mut table = Vec::new();
        let mut page = [0_u8; MAX_TEXT_BYTES];
        loop {
            match read(&file, &mut page) {
                Ok(0) => return Ok(table),
                Ok(len) => table.extend_from_slice(&page[..len]),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }

    /// Where a link in it leads, as it is written.
    pub(super) fn link(&self, name: impl AsRef<Path>) -> Result<PathBuf, Errno> {
        use std::os::unix::ffi::OsStringExt;
        let link = readlinkat(&self.0, name.as_ref(), Vec::new())?;
        Ok(std::ffi::OsString::from_vec(link.into_bytes()).into())
    }

    /// The names in it and their types. A name that is no text stands for no device, and is left
    /// out.
    pub(super) fn entries(&self) -> Result<Vec<(String, FileType)>, Errno> {
        let mut buffer = [MaybeUninit::<u8>::uninit(); 8192];
        let mut raw = RawDir::new(&self.0, &mut buffer);
        let mut found = Vec::new();
        while let Some(entry) = raw.next() {
            let entry = entry?;
            match entry.file_name().to_str() {
                Ok("." | "..") | Err(_) => {}
                Ok(name) => found.push((name.to_owned(), entry.file_type())),
            }
        }
        Ok(found)
    }

    pub(super) fn names(&self) -> Result<Vec<String>, Errno> {
        Ok(self.entries()?.into_iter().map(|(name, _)| name).collect())
    }

    pub(super) fn fd(&self) -> &OwnedFd {
        &self.0
    }
}

fn dir_flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC
}
