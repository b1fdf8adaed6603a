//! Small texts of sysfs and proc about block devices.

use std::path::{Component, Path, PathBuf};

use super::mounts::unescape;

/// What sectors are counted in, whatever the device's own are (`SECTOR_SIZE`, linux/blk_types.h).
const SECTOR_BYTES: u64 = 512;

/// `size`: sectors, as bytes.
#[must_use]
pub fn parse_size(text: &str) -> Option<u64> {
    text.trim().parse::<u64>().ok()?.checked_mul(SECTOR_BYTES)
}

/// `ro` and its like: `0` or `1`.
#[must_use]
pub fn parse_flag(text: &str) -> Option<bool> {
    match text.trim() {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

/// `loop/backing_file`: the file under a loop device. The kernel adds ` (deleted)` where the name
/// is gone; Longhorn makes its nodes anew, so the name may be there again.
#[must_use]
pub fn parse_backing_file(text: &[u8]) -> Option<PathBuf> {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    let path = text.strip_suffix(b" (deleted)").unwrap_or(text);
    let path = PathBuf::from(unescape(path));
    path.is_absolute().then_some(path)
}

/// The devices among `/proc/swaps`; swap files hold no device (`swap_show`, mm/swapfile.c).
#[must_use]
pub fn parse_swaps(text: &[u8]) -> Vec<PathBuf> {
    let lines = text.split(|byte| *byte == b'\n').skip(1);
    lines
        .filter_map(|line| {
            let mut fields = line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
            let path = fields.next()?;
            (fields.next()? == b"partition").then(|| unescape(path).into())
        })
        .collect()
}

/// Where the target's name of an iSCSI disk is, below the directory that `device` (its resolved
/// place in sysfs) is relative to: `…/sessionN/iscsi_session/sessionN/targetname`. `None` is a
/// disk without a session.
#[must_use]
pub fn target_name_path(device: &Path) -> Option<PathBuf> {
    let mut session = PathBuf::new();
    for part in device.components() {
        session.push(part);
        let Component::Normal(name) = part else { continue };
        let number = name.to_str().and_then(|name| name.strip_prefix("session"));
        if number.is_some_and(|number| number.parse::<u32>().is_ok()) {
            return Some(session.join("iscsi_session").join(name).join("targetname"));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_counted_in_sectors() {
        assert_eq!(parse_size("65536\n"), Some(32 << 20));
        assert_eq!(parse_size("0\n"), Some(0));
        for text in ["", "x", "-1", "18446744073709551615"] {
            assert_eq!(parse_size(text), None, "{text}");
        }
    }

    #[test]
    fn a_flag_is_0_or_1() {
        assert_eq!(parse_flag("0\n"), Some(false));
        assert_eq!(parse_flag("1\n"), Some(true));
        assert_eq!(parse_flag(""), None);
    }

    #[test]
    fn a_backing_file_that_was_deleted_keeps_its_name() {
        let path = Some(PathBuf::from("/dev/longhorn/v"));
        assert_eq!(parse_backing_file(b"/dev/longhorn/v\n"), path);
        assert_eq!(parse_backing_file(b"/dev/longhorn/v (deleted)\n"), path);
        assert_eq!(parse_backing_file(b"\n"), None);
    }

    #[test]
    fn swap_devices_are_told_from_swap_files() {
        let text = include_bytes!("testdata/swaps-6.18.txt");
        assert_eq!(parse_swaps(text), [PathBuf::from("/dev/zram0"), "/dev/my swap".into()]);
        assert_eq!(parse_swaps(b"Filename\tType\n"), Vec::<PathBuf>::new());
    }

    #[test]
    fn an_iscsi_disk_is_known_by_the_session_in_its_place() {
        let disk = "../../devices/platform/host2/session1/target2:0:0/2:0:0:1/block/sda";
        let name = "../../devices/platform/host2/session1/iscsi_session/session1/targetname";
        assert_eq!(target_name_path(Path::new(disk)), Some(PathBuf::from(name)));
        for other in [
            "../../devices/virtual/block/loop0",
            "../../devices/pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block/sda",
            "../../devices/platform/sessions/session/block/sda",
        ] {
            assert_eq!(target_name_path(Path::new(other)), None, "{other}");
        }
    }
}
