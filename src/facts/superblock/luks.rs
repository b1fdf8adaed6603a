//! LUKS: the header of an encrypted volume, and the second one that version 2 keeps.
//!
//! Layout: "LUKS1 On-Disk Format Specification" 1.2.3; "LUKS2 On-Disk Format Specification" 1.1.4,
//! section 2.1. Numbers are big-endian.

use super::Uuid;
use super::fields::Fields;

/// What a header says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    pub version: Version,
    /// `None` where the text is no UUID.
    pub uuid: Option<Uuid>,
    pub offset_bytes: u64,
}

/// LUKS1 or LUKS2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    One,
    Two,
}

/// The part of a header that is looked at, in bytes.
pub const LEN_BYTES: usize = 512;

/// Where the second header of a LUKS2 volume may lie, in bytes: right behind the first, whose
/// length is one of these.
pub const SECONDARY_OFFSETS_BYTES: [u64; 9] =
    [16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20];

/// Reads the header at the start of a device.
#[must_use]
pub fn parse_primary(head: &[u8]) -> Option<Header> {
    let fields = Fields(head);
    match (fields.has(0, b"LUKS\xba\xbe"), fields.be16(6)?) {
        (true, 1) => header(fields, Version::One, 0),
        (true, 2) => header(fields, Version::Two, 0),
        _ => None,
    }
}

/// Reads the second header of a LUKS2 volume, which says where it lies.
#[must_use]
pub fn parse_secondary(block: &[u8], offset_bytes: u64) -> Option<Header> {
    let fields = Fields(block);
    let own = fields.be64(256)? == offset_bytes;
    let found = fields.has(0, b"SKUL\xba\xbe") && fields.be16(6)? == 2 && own;
    found.then(|| header(fields, Version::Two, offset_bytes)).flatten()
}

fn header(fields: Fields<'_>, version: Version, offset_bytes: u64) -> Option<Header> {
    Some(Header { version, uuid: Uuid::parse(&fields.text(168, 40)?), offset_bytes })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A LUKS2 header for the place `offset_bytes`.
    pub(crate) fn sample(offset_bytes: u64) -> Vec<u8> {
        let mut block = vec![0; LEN_BYTES];
        let magic = if offset_bytes == 0 { b"LUKS\xba\xbe\0\x02" } else { b"SKUL\xba\xbe\0\x02" };
        block[..8].copy_from_slice(magic);
        block[168..204].copy_from_slice(b"263d07d0-4509-4566-aebc-cfa0523460e0");
        block[256..264].copy_from_slice(&offset_bytes.to_be_bytes());
        block
    }

    #[test]
    fn both_headers_are_read_where_they_belong() {
        assert_eq!(parse_primary(&sample(0)).unwrap().version, Version::Two);
        assert!(parse_primary(&sample(0)).unwrap().uuid.is_some());
        assert!(parse_primary(&sample(16_384)).is_none());
        assert!(parse_secondary(&sample(16_384), 16_384).is_some());
        assert!(parse_secondary(&sample(16_384), 32_768).is_none());
        assert!(parse_primary(b"LUKS\xba\xbe").is_none());
    }
}
