//! Opens `/dev/fuse`, or a node of our own where there is none.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};

use super::mount::NoTrial;

/// The number of the FUSE device, Documentation/admin-guide/devices.txt.
const FUSE_DEVICE: (u32, u32) = (10, 229);

/// Opens the FUSE device at `usual`. Where that is missing, a node is made in `scratch`, opened and
/// removed again: a container has its own `/dev`.
pub(super) fn open(usual: &Path, scratch: &Path) -> Result<File, NoTrial> {
    match open_node(usual) {
        Err(source) if source.kind() == io::ErrorKind::NotFound => {}
        opened => return opened.map_err(no_device),
    }
    let node = scratch.join(format!(".fuse-{}", std::process::id()));
    let _ = std::fs::remove_file(&node);
    let (major, minor) = FUSE_DEVICE;
    let device = makedev(major, minor);
    let made = mknodat(CWD, &node, FileType::CharacterDevice, Mode::RUSR | Mode::WUSR, device);
    made.map_err(|errno| NoTrial::NoNode { path: node.clone(), source: errno.into() })?;
    let opened = open_node(&node);
    let _ = std::fs::remove_file(&node);
    opened.map_err(no_device)
}

fn open_node(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).open(path)
}

fn no_device(source: io::Error) -> NoTrial {
    match source.raw_os_error() {
        // No driver behind the number: misc_open() and chrdev_open() say so.
        Some(libc::ENODEV | libc::ENXIO) => NoTrial::NoFuse,
        _ => NoTrial::FuseDevice { path: PathBuf::from("/dev/fuse"), source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_cannot_be_made_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("missing");
        match open(&missing, &missing) {
            Err(NoTrial::NoNode { path, .. }) => assert!(path.starts_with(&missing)),
            other => panic!("{other:?}"),
        }
    }
}
