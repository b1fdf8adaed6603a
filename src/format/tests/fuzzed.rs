//! No bytes make a parser panic or ask for ever. Overflow checks are on in every profile.

use proptest::prelude::*;

use super::*;
use crate::facts::superblock::ext::health::Health;
use crate::facts::superblock::{lvm, md, other, partition, swap};

/// A healthy device of some kind, with a few bytes of its metadata changed.
fn damaged() -> impl Strategy<Value = Disk> {
    let change = (0_u64..1536, prop::collection::vec(any::<u8>(), 1..9));
    let changes = prop::collection::vec(change, 1..6);
    let bases = [0, 1024, 4096, 65_536, 16_384];
    (0..4_usize, prop::sample::select(bases.to_vec()), changes, any::<bool>()).prop_map(
        |(kind, base, changes, resum)| {
            let disk = match kind {
                0 => Disk::ext4(),
                1 => Disk::xfs(),
                2 => Disk::btrfs(),
                _ => Disk::luks(),
            };
            let disk =
                changes.into_iter().fold(disk, |disk, (at, bytes)| disk.with(base + at, bytes));
            if resum { resummed(disk) } else { disk }
        },
    )
}

/// The same with checksums that hold, so that what they cover is read.
fn resummed(disk: Disk) -> Disk {
    let Outcome::Bytes(mut block) = disk.read(ByteRange::new(0, 69_632)) else {
        return disk;
    };
    ext::tests::sum(&mut block[1024..2048]);
    xfs::tests::sum(&mut block[..512]);
    let sum = crc32c::crc32c(&block[65_568..69_632]);
    block[65_536..65_540].copy_from_slice(&sum.to_le_bytes());
    disk.with(0, block)
}

proptest! {
    #[test]
    fn a_damaged_device_is_judged_within_bounds(disk in damaged()) {
        let (content, rounds) = disk.identified();
        prop_assert!(rounds < 120, "{rounds} rounds: {content:?}");
        if let Content::Filesystem(crate::format::Filesystem::Ext(superblock)) = content {
            let _ = (Health::of(&superblock, u64::MAX), superblock.groups());
        }
    }

    #[test]
    fn noise_is_judged_within_bounds(
        noise in prop::collection::vec(any::<u8>(), 0..8192),
        size_bytes in any::<u64>(),
        at in any::<u64>(),
    ) {
        let at = at % size_bytes.max(1);
        let (content, rounds) = Disk::new(size_bytes).with(at, noise.clone()).with(0, noise).identified();
        prop_assert!(rounds < 120, "{rounds} rounds: {content:?}");
    }

    #[test]
    fn no_parser_minds_any_bytes(
        mut noise in prop::collection::vec(any::<u8>(), 0..6000),
        place in any::<u64>(),
        magic in 0..8_usize,
    ) {
        let magics: [(usize, &[u8]); 8] = [
            (0, b"XFSB"), (56, &[0x53, 0xef]), (64, b"_BHRfS_M"), (0, b"LUKS\xba\xbe\0\x01"),
            (0, b"LABELONE"), (0, &[0xfc, 0x4e, 0x2b, 0xa9, 1]), (510, &[0x55, 0xaa]), (512, b"EFI PART"),
        ];
        let (at, magic) = magics[magic];
        if let Some(spot) = noise.get_mut(at..at + magic.len()) {
            spot.copy_from_slice(magic);
        }
        let _ = ext::Superblock::parse(&noise);
        let _ = xfs::Superblock::parse(&noise);
        let _ = xfs::backup::candidates_by_agf(&noise, place);
        let _ = btrfs::Superblock::parse(&noise, place);
        let _ = (luks::parse_primary(&noise), luks::parse_secondary(&noise, place));
        let _ = (swap::parse(&noise), lvm::parse(&noise), md::parse_head(&noise));
        let _ = (md::parse_0_90(&noise, place), md::parse_1_0(&noise, place));
        let _ = (partition::parse_head(&noise, place), partition::parse_backup(&noise, place, 512));
        let _ = (other::find(&noise), other::parse_drbd(&noise, place));
    }
}
