//! Linux software RAID: four places for a superblock, by version.
//!
//! Layout: md(4); `struct mdp_superblock_s` and `struct mdp_superblock_1` in
//! include/uapi/linux/raid/md_p.h.

use super::Uuid;
use super::fields::Fields;

/// A member of an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// `0.90`, `1.0`, `1.1` or `1.2`.
    pub version: &'static str,
    pub uuid: Uuid,
    /// Empty in version 0.90.
    pub name: String,
    pub offset_bytes: u64,
}

/// How much of a superblock is looked at, in bytes.
pub const LEN_BYTES: usize = 256;

const MAGIC: u32 = 0xa92b_4efc;

/// Where the versions 1.1 and 1.2 lie, in bytes.
const HEAD_OFFSETS: [(&str, usize); 2] = [("1.1", 0), ("1.2", 4096)];

/// Looks for a member that has its superblock at the start.
#[must_use]
pub fn parse_head(head: &[u8]) -> Option<Member> {
    HEAD_OFFSETS
        .into_iter()
        .find_map(|(version, at)| version_1(Fields(head.get(at..)?), version, at as u64))
}

/// Where the superblock of version 0.90 lies on a device of `size_bytes`: at the start of the last
/// whole 64 KiB that have 64 KiB behind their start.
#[must_use]
pub fn offset_0_90(size_bytes: u64) -> Option<u64> {
    const RESERVED_BYTES: u64 = 65_536;
    (size_bytes / RESERVED_BYTES * RESERVED_BYTES).checked_sub(RESERVED_BYTES)
}

/// Where the superblock of version 1.0 lies: 8 to 12 KiB before the end, on a 4 KiB boundary.
#[must_use]
pub fn offset_1_0(size_bytes: u64) -> Option<u64> {
    (size_bytes / 512).checked_sub(16).map(|sector| sector / 8 * 8 * 512)
}

/// Reads the block at [`offset_0_90`]. Its numbers are in the order of the machine that made it.
#[must_use]
pub fn parse_0_90(block: &[u8], offset_bytes: u64) -> Option<Member> {
    let fields = Fields(block);
    let marks = [0, 4, 8];
    let is_superblock =
        |word: &dyn Fn(usize) -> Option<u32>| marks.map(word) == [Some(MAGIC), Some(0), Some(90)];
    let (little, big) = (|at| fields.le32(at), |at| fields.be32(at));
    let word: &dyn Fn(usize) -> Option<u32> = match () {
        () if is_superblock(&little) => &little,
        () if is_superblock(&big) => &big,
        () => return None,
    };
    // The UUID is kept in four words that do not lie together.
    let mut uuid = [0; 16];
    for (bytes, at) in uuid.chunks_exact_mut(4).zip([20, 52, 56, 60]) {
        bytes.copy_from_slice(&word(at)?.to_be_bytes());
    }
    let uuid = Uuid::from_bytes(uuid);
    Some(Member { version: "0.90", uuid, name: String::new(), offset_bytes })
}

/// Reads the block at [`offset_1_0`].
#[must_use]
pub fn parse_1_0(block: &[u8], offset_bytes: u64) -> Option<Member> {
    version_1(Fields(block), "1.0", offset_bytes)
}

fn version_1(fields: Fields<'_>, version: &'static str, offset_bytes: u64) -> Option<Member> {
    let found = fields.le32(0)? == MAGIC && fields.le32(4)? == 1;
    let own = fields.le64(144)? == offset_bytes / 512;
    let (uuid, name) = (fields.uuid(16)?, fields.text(32, 32)?);
    (found && own).then_some(Member { version, uuid, name, offset_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version_1_at(offset_bytes: u64) -> Vec<u8> {
        let mut block = vec![0; LEN_BYTES];
        block[..4].copy_from_slice(&MAGIC.to_le_bytes());
        block[4] = 1;
        block[32..36].copy_from_slice(b"h:md");
        block[144..152].copy_from_slice(&(offset_bytes / 512).to_le_bytes());
        block
    }

    #[test]
    fn each_version_is_found_in_its_place() {
        let mut head = vec![0; 8192];
        head[4096..4096 + LEN_BYTES].copy_from_slice(&version_1_at(4096));
        assert_eq!(parse_head(&head).unwrap().version, "1.2");
        assert_eq!(parse_head(&version_1_at(0)).unwrap().version, "1.1");
        let at = offset_1_0(100 << 20).unwrap();
        assert_eq!(parse_1_0(&version_1_at(at), at).unwrap().name, "h:md");
        assert_eq!(parse_1_0(&version_1_at(0), at), None);
    }

    #[test]
    fn the_old_version_is_read_in_both_byte_orders() {
        for order in [u32::to_le_bytes, u32::to_be_bytes] {
            let mut block = vec![0; LEN_BYTES];
            block[..4].copy_from_slice(&order(MAGIC));
            block[8..12].copy_from_slice(&order(90));
            block[20..24].copy_from_slice(&order(0x1122_3344));
            let member = parse_0_90(&block, 0).unwrap();
            assert_eq!(member.uuid.to_string(), "11223344-0000-0000-0000-000000000000");
        }
    }

    #[test]
    fn the_places_at_the_end_need_a_device() {
        assert_eq!((offset_0_90(65_535), offset_1_0(8191)), (None, None));
        assert_eq!(offset_0_90(131_072 + 5000), Some(65_536));
        assert_eq!(offset_1_0(1 << 20), Some((1 << 20) - 8192));
        assert!(offset_0_90(u64::MAX).is_some() && offset_1_0(u64::MAX).is_some());
    }
}
