//! xfs beside xfs_db, xfs_logprint and blkid.

use std::fs::File;
use std::os::unix::fs::FileExt;

use mount_guard::facts::superblock::Family;
use mount_guard::facts::superblock::xfs::Superblock;
use mount_guard::facts::superblock::xfs::log::LogState;
use mount_guard::format::{Content, Filesystem, Found, Lost};

use super::image::{Image, MIB, look_patched};

pub fn tests() -> Vec<libtest_mimic::Trial> {
    crate::tests![
        every_mkfs_is_read_as_its_tools_read_it,
        a_copy_is_found_without_the_first_sector,
        a_copy_is_found_without_the_first_megabytes,
        a_copy_is_found_after_the_filesystem_grew,
        a_changed_uuid_shows_beside_the_first_one,
        an_mkfs_that_was_cut_off_is_unfinished,
        a_log_on_another_device_is_said_so,
        no_flipped_bit_of_a_real_superblock_harms,
    ]
}

const MKFS: [&str; 9] = [
    "mkfs.xfs -qf",
    "mkfs.xfs -qf -ssize=4096 -bsize=4096",
    "mkfs.xfs -qf -b size=1024",
    "mkfs.xfs -qf -b size=2048 -d agcount=7",
    "mkfs.xfs -qf -d agcount=8",
    "mkfs.xfs -qf -d su=64k,sw=4",
    "mkfs.xfs -qf -l su=256k",
    "mkfs.xfs -qf -m crc=0,finobt=0 -s size=2048",
    "mkfs.xfs -qf -m rmapbt=1,bigtime=1,inobtcount=1 -i nrext64=1",
];

fn read(image: &Image) -> (Box<Superblock>, LogState) {
    match image.filesystem() {
        Filesystem::Xfs { superblock, log } => (superblock, log),
        other => panic!("{other:?}"),
    }
}

fn every_mkfs_is_read_as_its_tools_read_it() {
    for line in MKFS {
        let image = Image::made(1000 * MIB, line);
        let (found, log) = read(&image);
        let names = "blocksize dblocks agblocks agcount sectsize inprogress";
        let said = image.tool_with_input("xfs_db -r {}", &format!("sb 0\nprint {names}\n"));
        for (name, number) in [
            ("blocksize", u64::from(found.block_bytes)),
            ("dblocks", found.blocks),
            ("agblocks", u64::from(found.ag_blocks)),
            ("agcount", u64::from(found.ag_count)),
            ("sectsize", u64::from(found.sector_bytes)),
            ("inprogress", u64::from(found.in_progress)),
        ] {
            assert!(said.contains(&format!("{name} = {number}\n")), "{line}: {name}: {said}");
        }
        assert_eq!(found.uuid.to_string(), image.blkid("UUID"), "{line}");
        assert_eq!(found.meta_uuid, found.uuid, "{line}");
        assert!(found.features.unknown().is_empty(), "{line}: {:?}", found.features);
        assert_eq!(log, LogState::Clean, "{line}");
        assert!(image.told("xfs_logprint -t").contains("<CLEAN>"), "{line}");
    }
}

/// Where the second group starts, in bytes.
fn second_group(image: &Image) -> u64 {
    read(image).0.ag_offset_bytes(1)
}

/// The copy must lie at the start of a group whose length nobody told.
fn assert_found(image: &Image, group_bytes: u64, what: &str) {
    let (lost, at) = image.lost();
    let at = at.unwrap_or_else(|| panic!("{what}: no copy"));
    assert_eq!(lost, Lost::Superblock(Family::Xfs), "{what}");
    assert!(at > 0 && at % group_bytes == 0, "{what}: {at} of {group_bytes}");
}

fn a_copy_is_found_without_the_first_sector() {
    for line in MKFS {
        let image = Image::made(1000 * MIB, line);
        let group_bytes = second_group(&image);
        image.zero(0, u64::from(read(&image).0.sector_bytes));
        assert_found(&image, group_bytes, line);
    }
}

fn a_copy_is_found_without_the_first_megabytes() {
    for (mib, line) in [
        (600, "mkfs.xfs -qf"),
        (601, "mkfs.xfs -qf -ssize=4096 -bsize=4096"),
        (1 << 20, "mkfs.xfs -qf"),
        (5 << 20, "mkfs.xfs -qf"),
        (10_000, "mkfs.xfs -qf -d agcount=9"),
    ] {
        let image = Image::made(mib * MIB, line);
        let group_bytes = second_group(&image);
        image.zero(0, 4 * MIB);
        assert_found(&image, group_bytes, line);
    }
}

fn a_copy_is_found_after_the_filesystem_grew() {
    let image = Image::made(600 * MIB, "mkfs.xfs -qf");
    let group_bytes = second_group(&image);
    image.resize(1000 * MIB);
    image.zero(0, 512);
    assert_found(&image, group_bytes, "grown");
}

fn a_changed_uuid_shows_beside_the_first_one() {
    let image = Image::made(600 * MIB, "mkfs.xfs -qf");
    let first = read(&image).0.uuid;
    image.tool("xfs_admin -U generate");
    let now = read(&image).0;
    assert_eq!(now.uuid.to_string(), image.blkid("UUID"));
    assert_eq!(now.meta_uuid, first);
    assert_ne!(now.uuid, first);
}

fn an_mkfs_that_was_cut_off_is_unfinished() {
    let image = Image::made(600 * MIB, "mkfs.xfs -qf");
    image.tool_with_input("xfs_db -x {}", "sb 0\nwrite inprogress 1\n");
    let (content, expected) = (image.content(), image.blkid("UUID"));
    assert!(
        matches!(&content, Content::Unfinished { uuid } if uuid.to_string() == expected),
        "{content:?}"
    );
}

fn a_log_on_another_device_is_said_so() {
    let log = Image::new(64 * MIB);
    let place = log.path();
    let line = format!("mkfs.xfs -qf -l logdev={},size=64m", place.display());
    let image = Image::made(600 * MIB, &line);
    assert_eq!(read(&image).1, LogState::External);
    let content = log.content();
    assert!(
        matches!(&content, Content::Signature(Found::Other(other)) if other.name == log.blkid("TYPE")),
        "{content:?}"
    );
}

fn no_flipped_bit_of_a_real_superblock_harms() {
    for line in ["mkfs.xfs -qf", "mkfs.xfs -qf -m crc=0,finobt=0"] {
        let image = Image::made(320 * MIB, line);
        let mut sector = [0; 512];
        File::open(image.path()).unwrap().read_exact_at(&mut sector, 0).unwrap();
        for (at, byte) in sector.iter().enumerate().take(272) {
            let flipped = byte ^ (1 << (at % 8));
            let (content, cost) = look_patched(&image.path(), &[(at as u64, flipped)]);
            assert!(cost.reads < 500, "{content:?}");
            assert!(!matches!(content, Content::Blank { .. }), "bit in byte {at}");
        }
    }
}
