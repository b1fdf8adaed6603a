//! LVM: the label of a physical volume, in one of the first four sectors.
//!
//! Layout: `struct label_header` in lib/label/label.h and `struct pv_header` in
//! lib/format_text/layout.h of lvm2. Numbers are little-endian.

use super::fields::Fields;

/// A physical volume of LVM2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhysicalVolume {
    /// 32 letters and digits, as `pvs -o pv_uuid` shows them without dashes.
    pub id: String,
    pub offset_bytes: u64,
}

const SECTOR_BYTES: usize = 512;

/// Looks for a label in the first 2 KiB of a device.
#[must_use]
pub fn parse(head: &[u8]) -> Option<PhysicalVolume> {
    (0..4_usize).find_map(|sector| {
        let label = Fields(head.get(sector * SECTOR_BYTES..)?.get(..SECTOR_BYTES)?);
        let own = label.le64(8)? == sector as u64;
        let found = label.has(0, b"LABELONE") && own && label.has(24, b"LVM2 001");
        let header_at = usize::try_from(label.le32(20)?).ok()?;
        let id = || label.text(header_at, 32).unwrap_or_default();
        found.then(|| PhysicalVolume { id: id(), offset_bytes: (sector * SECTOR_BYTES) as u64 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The second sector of what pvcreate made (lvm2 2.03.16), as far as it is looked at.
    const MADE: &[u8] = b"LABELONE\x01\0\0\0\0\0\0\0\x34\x71\x46\xd7\x20\0\0\0LVM2 001\
        FnUHE1jkQX5TZpjoIyTd0FB0Gy1IDK4j";

    #[test]
    fn a_label_counts_in_the_sector_it_names() {
        let mut head = vec![0; 4096];
        head[512..512 + MADE.len()].copy_from_slice(MADE);
        assert_eq!(parse(&head).unwrap().id, "FnUHE1jkQX5TZpjoIyTd0FB0Gy1IDK4j");
        head[520] = 2;
        assert_eq!(parse(&head), None);
        head[520] = 1;
        head[532..536].fill(0xff);
        assert_eq!(parse(&head).unwrap().id, "");
    }
}
