//! Names for what else may lie on a device. Nothing here is read further: the name tells the
//! operator what would be lost.
//!
//! Places and bytes: `struct blkid_idinfo` tables of util-linux (libblkid/src/superblocks), which
//! also gives the names.

use super::fields::Fields;

/// A magic number that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signature {
    /// As `blkid` names it where it does.
    pub name: &'static str,
    pub class: Class,
    pub offset_bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// A kernel can mount it.
    Filesystem,
    /// Something else owns the device: a volume manager, a cache, a disk image.
    Owned,
}

use Class::{Filesystem, Owned};

/// The part of a device all these places lie in, in bytes.
pub const HEAD_BYTES: usize = (2 << 20) + 4096;

const TABLE: &[(&str, Class, usize, &[u8])] = &[
    ("vfat", Filesystem, 54, b"FAT12   "),
    ("vfat", Filesystem, 54, b"FAT16   "),
    ("vfat", Filesystem, 82, b"FAT32   "),
    ("ntfs", Filesystem, 3, b"NTFS    "),
    ("exfat", Filesystem, 3, b"EXFAT   "),
    ("BitLocker", Owned, 3, b"-FVE-FS-"),
    ("f2fs", Filesystem, 1024, &[0x10, 0x20, 0xf5, 0xf2]),
    ("erofs", Filesystem, 1024, &[0xe2, 0xe1, 0xf5, 0xe0]),
    ("squashfs", Filesystem, 0, b"hsqs"),
    ("cramfs", Filesystem, 0, &[0x45, 0x3d, 0xcd, 0x28]),
    ("iso9660", Filesystem, 32_769, b"CD001"),
    ("udf", Filesystem, 32_769, b"BEA01"),
    ("jfs", Filesystem, 32_768, b"JFS1"),
    ("reiserfs", Filesystem, 65_536 + 52, b"ReIsEr"),
    ("reiserfs", Filesystem, 8192 + 52, b"ReIsEr"),
    ("reiser4", Filesystem, 65_536, b"ReIsEr4"),
    ("gfs2", Filesystem, 65_536, &[0x01, 0x16, 0x19, 0x70]),
    ("ocfs2", Filesystem, 1024, b"OCFSV2"),
    ("ocfs2", Filesystem, 2048, b"OCFSV2"),
    ("ocfs2", Filesystem, 4096, b"OCFSV2"),
    ("ocfs2", Filesystem, 8192, b"OCFSV2"),
    ("nilfs2", Filesystem, 1024, &[2, 0, 0, 0, 0, 0, 0x34, 0x34]),
    ("hfsplus", Filesystem, 1024, b"H+\0\x04"),
    ("hfsplus", Filesystem, 1024, b"HX\0\x05"),
    ("apfs", Filesystem, 32, b"NXSB"),
    (
        "bcache",
        Owned,
        4096 + 24,
        b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81",
    ),
    (
        "bcachefs",
        Filesystem,
        4096 + 24,
        b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef",
    ),
    ("ceph_bluestore", Owned, 0, b"bluestore block device"),
    ("VMFS_volume_member", Owned, 1 << 20, &[0x0d, 0xd0, 0x01, 0xc0]),
    ("VMFS", Owned, 2 << 20, &[0x5e, 0xf1, 0xab, 0x2f]),
    ("DM_verity_hash", Owned, 0, b"verity\0\0"),
    ("DM_integrity", Owned, 0, b"integrt\0"),
    ("DM_snapshot_cow", Owned, 0, b"SnAp"),
    ("vdo", Owned, 0, b"dmvdo001"),
    ("stratis", Owned, 512 + 4, b"!Stra0tis\x86\xff\x02^\x41rh"),
    ("oracleasm", Owned, 32, b"ORCLDISK"),
    ("qcow2 image", Owned, 0, b"QFI\xfb"),
    ("vmdk image", Owned, 0, b"KDMV"),
    ("tar archive", Owned, 257, b"ustar"),
    ("xfs_external_log", Owned, 0, &[0xfe, 0xed, 0xba, 0xbe]),
];

/// Every one of them in `head`, the start of a device.
#[must_use]
pub fn find(head: &[u8]) -> Vec<Signature> {
    let fields = Fields(head);
    let named = TABLE.iter().filter(|(_, _, at, magic)| fields.has(*at, magic));
    let known = named.map(|(name, class, at, _)| Signature {
        name,
        class: *class,
        offset_bytes: *at as u64,
    });
    known.chain(zfs(fields)).collect()
}

/// Where DRBD keeps its own data, in bytes: the last 4 KiB.
#[must_use]
pub fn drbd_offset(size_bytes: u64) -> Option<u64> {
    (size_bytes / 4096 * 4096).checked_sub(4096)
}

/// Reads the block at [`drbd_offset`] (`struct md_on_disk_08`: its magic is big-endian, one number
/// for a clean and one for an unclean end).
#[must_use]
pub fn parse_drbd(block: &[u8], offset_bytes: u64) -> Option<Signature> {
    let magic = Fields(block).be32(60)?;
    matches!(magic, 0x8374_026b | 0x8374_026c).then_some(Signature {
        name: "drbd",
        class: Owned,
        offset_bytes,
    })
}

/// A ring of 128 uberblocks, of which any may be the first that was written.
fn zfs(head: Fields<'_>) -> Option<Signature> {
    const RING_BYTES: usize = 128 << 10;
    let at = (RING_BYTES..2 * RING_BYTES)
        .step_by(1024)
        .find(|at| head.le64(*at) == Some(0x00ba_b10c))?;
    Some(Signature { name: "zfs_member", class: Owned, offset_bytes: at as u64 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_magic_is_named_once_in_its_place() {
        for (name, _, at, magic) in TABLE {
            let mut head = vec![0; HEAD_BYTES];
            head[*at..at + magic.len()].copy_from_slice(magic);
            let found: Vec<&str> = find(&head).iter().map(|found| found.name).collect();
            assert!(found.contains(name) && found.len() <= 2, "{name}: {found:?}");
        }
        assert_eq!(find(&[]), []);
    }

    #[test]
    fn a_later_uberblock_is_zfs_too() {
        let mut head = vec![0; HEAD_BYTES];
        head[(128 << 10) + 5 * 1024..][..8].copy_from_slice(&0x00ba_b10c_u64.to_le_bytes());
        assert_eq!(find(&head)[0].name, "zfs_member");
    }
}
