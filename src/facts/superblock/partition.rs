//! Partition tables: MBR and GPT.
//!
//! Layout: UEFI specification 2.10, chapter 5 ("GUID Partition Table Disk Layout"), which describes
//! the MBR too. Numbers are little-endian.

use super::fields::Fields;

/// A table, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Table {
    pub kind: Kind,
    pub offset_bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `partitions` entries are in use.
    Mbr {
        partitions: u8,
    },
    /// An MBR whose only purpose is to say that a GPT follows; without one it is all there is.
    ProtectiveMbr,
    Gpt,
    /// The copy at the end of the device, the primary one being gone.
    GptBackup,
}

/// Sector sizes of disks, in bytes: the GPT lies in sector 1, its copy in the last.
pub const SECTOR_BYTES: [u64; 2] = [512, 4096];

/// How much of a GPT header is looked at, in bytes.
pub const LEN_BYTES: usize = 92;

/// Looks for a table at the start of a device of `size_bytes`.
#[must_use]
pub fn parse_head(head: &[u8], size_bytes: u64) -> Option<Table> {
    let gpt = SECTOR_BYTES.into_iter().find_map(|sector_bytes| {
        let header = Fields(head.get(usize::try_from(sector_bytes).ok()?..)?);
        is_gpt(header, 1).then_some(Table { kind: Kind::Gpt, offset_bytes: sector_bytes })
    });
    gpt.or_else(|| mbr(Fields(head), size_bytes).map(|kind| Table { kind, offset_bytes: 0 }))
}

/// Reads the last sector, of `sector_bytes`, of a device of `size_bytes`.
#[must_use]
pub fn parse_backup(sector: &[u8], size_bytes: u64, sector_bytes: u64) -> Option<Table> {
    let last = size_bytes.checked_div(sector_bytes)?.checked_sub(1)?;
    let offset_bytes = last * sector_bytes;
    is_gpt(Fields(sector), last).then_some(Table { kind: Kind::GptBackup, offset_bytes })
}

/// A header says in which sector it lies. The copy of a table on a disk that has grown since says
/// another one, and lies elsewhere anyway.
fn is_gpt(header: Fields<'_>, sector: u64) -> bool {
    header.has(0, b"EFI PART") && header.le64(24) == Some(sector)
}

/// The two bytes at 510 end boot code of every kind, FAT and NTFS among them. A table is there only
/// if its four entries make sense: a boot flag of 0 or 0x80 each, and one partition that starts on
/// the device.
fn mbr(sector: Fields<'_>, size_bytes: u64) -> Option<Kind> {
    const TABLE_AT: usize = 446;
    const ENTRY_BYTES: usize = 16;
    const PROTECTIVE: u8 = 0xee;
    if !sector.has(510, &[0x55, 0xaa]) || is_boot_sector(sector) {
        return None;
    }
    let mut partitions = 0;
    let mut protective = false;
    for entry in 0..4 {
        let at = TABLE_AT + entry * ENTRY_BYTES;
        let (flag, kind) = (sector.byte(at)?, sector.byte(at + 4)?);
        let (start, len) = (sector.le32(at + 8)?, sector.le32(at + 12)?);
        if flag & 0x7f != 0 {
            return None;
        }
        if kind == 0 || start == 0 || len == 0 {
            continue;
        }
        if u64::from(start) * 512 >= size_bytes {
            return None;
        }
        partitions += 1;
        protective |= kind == PROTECTIVE;
    }
    match partitions {
        0 => None,
        _ if protective => Some(Kind::ProtectiveMbr),
        partitions => Some(Kind::Mbr { partitions }),
    }
}

/// Boot sectors of filesystems, which end in the same two bytes, and xfs, which has no boot sector.
fn is_boot_sector(sector: Fields<'_>) -> bool {
    let names: [(usize, &[u8]); 7] = [
        (0, b"XFSB"),
        (3, b"NTFS    "),
        (3, b"EXFAT   "),
        (3, b"-FVE-FS-"),
        (54, b"FAT12   "),
        (54, b"FAT16   "),
        (82, b"FAT32   "),
    ];
    names.into_iter().any(|(at, name)| sector.has(at, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 100 << 20;

    fn mbr_with(entry: [u8; 16]) -> Vec<u8> {
        let mut head = vec![0; 8192];
        head[446..462].copy_from_slice(&entry);
        head[510..512].copy_from_slice(&[0x55, 0xaa]);
        head
    }

    const LINUX: [u8; 16] = [0x80, 0, 0, 0, 0x83, 0, 0, 0, 0, 8, 0, 0, 0, 16, 0, 0];

    fn kind(head: &[u8]) -> Option<Kind> {
        parse_head(head, SIZE).map(|table| table.kind)
    }

    #[test]
    fn a_partition_makes_a_table_and_boot_code_does_not() {
        assert_eq!(kind(&mbr_with(LINUX)), Some(Kind::Mbr { partitions: 1 }));
        assert_eq!(kind(&mbr_with([0; 16])), None);
        assert_eq!(kind(&mbr_with([0x41; 16])), None);
        let mut behind = LINUX;
        behind[8..12].fill(0xff);
        assert_eq!(kind(&mbr_with(behind)), None, "starts behind the end");
    }

    #[test]
    fn a_filesystems_boot_sector_is_no_table() {
        for (at, name) in [(3, b"NTFS    "), (54, b"FAT16   "), (82, b"FAT32   ")] {
            let mut head = mbr_with(LINUX);
            head[at..at + 8].copy_from_slice(name);
            assert_eq!(kind(&head), None);
        }
    }

    #[test]
    fn a_gpt_is_more_than_its_protective_mbr() {
        let mut entry = LINUX;
        entry[0] = 0;
        entry[4] = 0xee;
        entry[8..12].copy_from_slice(&1_u32.to_le_bytes());
        let mut head = mbr_with(entry);
        assert_eq!(kind(&head), Some(Kind::ProtectiveMbr));
        head[4096..4104].copy_from_slice(b"EFI PART");
        head[4096 + 24] = 1;
        let table = Table { kind: Kind::Gpt, offset_bytes: 4096 };
        assert_eq!(parse_head(&head, SIZE), Some(table));
    }
}
