use nix::errno::Errno;

use super::*;
use crate::facts::superblock::Family;
use crate::facts::superblock::partition::Kind;
use crate::format::{Filesystem, Found, Lost, PrimaryLost};

fn lost(content: &Content) -> (Lost, bool, Option<u64>) {
    match content {
        Content::PrimaryLost(PrimaryLost { lost, damage, backup }) => {
            (*lost, damage.is_some(), backup.as_ref().map(|backup| backup.offset_bytes))
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_whole_filesystem_is_known_after_a_read_or_two() {
    for (disk, name, expected) in [(Disk::ext4(), "ext4", 1), (Disk::btrfs(), "btrfs", 2)] {
        let (content, rounds) = disk.identified();
        assert!(matches!(&content, Content::Filesystem(fs) if fs.name() == name), "{content:?}");
        assert_eq!(rounds, expected, "{name}");
    }
    assert!(matches!(Disk::luks().identified(), (Content::Luks(_), 1)));
}

#[test]
fn an_xfs_is_known_with_the_state_of_its_log() {
    let content = Disk::xfs().content();
    assert!(matches!(content, Content::Filesystem(Filesystem::Xfs { .. })), "{content:?}");
}

#[test]
fn a_lost_superblock_is_found_by_its_copy() {
    let ext4 = Disk::ext4().with(1024, vec![0; 1024]);
    let expected = (Lost::Superblock(Family::Ext), false, Some(128 << 20));
    assert_eq!(lost(&ext4.content()), expected);
    let xfs = Disk::xfs().with(0, vec![0; 512]);
    let expected = (Lost::Superblock(Family::Xfs), false, Some(100 << 20));
    assert_eq!(lost(&xfs.content()), expected);
    let btrfs = Disk::btrfs().with(btrfs::PRIMARY_OFFSET_BYTES, vec![0; 4096]);
    let expected = (Lost::Superblock(Family::Btrfs), false, Some(64 << 20));
    assert_eq!(lost(&btrfs.content()), expected);
    let luks = Disk::luks().with(0, vec![0; 512]);
    assert_eq!(lost(&luks.content()), (Lost::LuksHeader, false, Some(16_384)));
}

#[test]
fn a_damaged_superblock_is_lost_with_and_without_a_copy() {
    let ext4 = Disk::ext4().with(1024 + 0x68, vec![1]);
    let expected = (Lost::Superblock(Family::Ext), true, Some(128 << 20));
    assert_eq!(lost(&ext4.content()), expected);
    let alone = ext4.with(128 << 20, vec![0; 1024]);
    assert_eq!(lost(&alone.content()), (Lost::Superblock(Family::Ext), true, None));
}

#[test]
fn copies_of_two_kinds_are_a_conflict() {
    let disk = Disk::new(1 << 30)
        .with(128 << 20, ext::tests::sample(1))
        .with(64 << 20, btrfs::tests::sample(64 << 20));
    assert!(matches!(disk.content(), Content::Conflict { found } if found.len() == 2));
}

#[test]
fn zeros_are_blank_over_what_was_read() {
    let (content, rounds) = Disk::new(1 << 40).identified();
    let Content::Blank { proved } = content else { panic!("{content:?}") };
    assert_eq!(proved, ReadPlan::survey(1 << 40).ranges());
    assert_eq!(rounds, 3);
}

#[test]
fn one_byte_where_nothing_is_known_is_unknown_content() {
    for at in [0, 5000, (4 << 20) + 65_535, (1 << 30) - 1] {
        let disk = Disk::new(1 << 30).with(at, vec![1]);
        assert_eq!(disk.content(), Content::Unknown { offset_bytes: at });
    }
}

#[test]
fn a_range_that_cannot_be_read_is_never_blank() {
    for errno in [Errno::EIO, Errno::ENODATA, Errno::ENXIO] {
        for at in [0, 65_536, 3 << 20, 128 << 20, (1 << 30) - 512] {
            let failure = Failure::Errno(errno);
            let content = Disk::new(1 << 30).broken(at, failure).content();
            assert!(
                matches!(content, Content::Unreadable { failure: seen, .. } if seen == failure),
                "{errno} at {at}: {content:?}"
            );
        }
    }
    assert!(matches!(Disk::new(0).content(), Content::Unreadable { .. }));
}

#[test]
fn a_short_read_is_unreadable() {
    let mut bytes = DeviceBytes::new(1 << 30);
    bytes.put(ByteRange::new(0, 8192), Outcome::Bytes(vec![0; 4096]));
    let unreadable = Content::Unreadable { failure: Failure::Short, offset_bytes: 4096 };
    assert_eq!(identify(&bytes), Step::Is(unreadable));
}

#[test]
fn a_filesystem_inside_something_else_is_a_conflict() {
    let mut label = vec![0; 64];
    label[..8].copy_from_slice(b"LABELONE");
    label[20] = 32;
    label[24..32].copy_from_slice(b"LVM2 001");
    let content = Disk::ext4().with(0, label.clone()).content();
    let Content::Conflict { found } = content else { panic!("{content:?}") };
    assert!(matches!(found.as_slice(), [Found::Ext(_), Found::Lvm(_)]));
    let alone = Disk::new(1 << 30).with(0, label).content();
    assert!(matches!(alone, Content::Signature(Found::Lvm(_))), "{alone:?}");
}

#[test]
fn a_disk_image_that_a_user_keeps_is_no_conflict() {
    for magic in [(32_768_u64, b"JFS1".as_slice()), (32_769, b"CD001"), (65_588, b"ReIsEr2Fs")] {
        let content = Disk::ext4().with(magic.0, magic.1).content();
        assert!(matches!(content, Content::Filesystem(_)), "{content:?}");
    }
}

#[test]
fn the_copy_of_a_partition_table_is_enough_to_be_one() {
    let size_bytes = 1 << 30;
    let mut header = vec![0; 512];
    header[..8].copy_from_slice(b"EFI PART");
    header[24..32].copy_from_slice(&(size_bytes / 512 - 1_u64).to_le_bytes());
    let content = Disk::new(size_bytes).with(size_bytes - 512, header).content();
    assert!(matches!(content, Content::PartitionTable(table) if table.kind == Kind::GptBackup));
}

#[test]
fn an_mkfs_that_was_cut_off_is_unfinished() {
    let mut sector = xfs::tests::sample();
    sector[126] = 1;
    xfs::tests::sum(&mut sector);
    let content = Disk::new(400 << 20).with(0, sector).content();
    assert!(matches!(content, Content::Unfinished { .. }), "{content:?}");
}

#[test]
fn another_filesystem_is_known_by_its_name() {
    let content = Disk::new(1 << 30).with(1024, [0x10, 0x20, 0xf5, 0xf2]).content();
    assert!(matches!(&content, Content::Filesystem(fs) if fs.name() == "f2fs"), "{content:?}");
}
