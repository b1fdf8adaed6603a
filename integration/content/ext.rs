//! ext2, ext3 and ext4 beside dumpe2fs, debugfs, e2fsck and blkid.

use mount_guard::facts::superblock::ext::groups::{self, Flaw};
use mount_guard::facts::superblock::ext::health::{Due, Health};
use mount_guard::facts::superblock::ext::{Journal, Superblock};
use mount_guard::facts::superblock::{Damage, Family};
use mount_guard::format::{
    Content, Decision, Filesystem, Found, Lost, Memory, Mode, PrimaryLost, Question, Wanted, judge,
};

use super::image::{Image, MIB, look_patched};

pub fn tests() -> Vec<libtest_mimic::Trial> {
    crate::tests![
        every_mkfs_of_the_family_is_read_as_its_tools_read_it,
        a_copy_lies_where_dumpe2fs_says,
        a_filesystem_that_grew_still_shows_its_copies,
        a_wrong_checksum_is_damage,
        marks_that_debugfs_sets_are_health,
        a_check_is_due_when_e2fsck_thinks_so,
        features_nobody_knows_are_named_as_e2fsck_names_them,
        a_device_that_shrank_is_smaller_than_its_filesystem,
        a_journal_kept_for_another_device_is_no_filesystem,
        an_mkfs_that_was_killed_may_be_run_again,
        no_flipped_bit_of_a_real_superblock_harms,
    ]
}

/// Command lines, with how many MiB they are given.
const MKFS: [(&str, u64); 16] = [
    ("mkfs.ext4 -qF -b 4096", 600),
    ("mkfs.ext4 -qF -b 2048", 200),
    ("mkfs.ext4 -qF -b 1024", 64),
    ("mkfs.ext4 -qF -b 4096 -m0", 300),
    ("mkfs.ext4 -qF -b 4096 -O ^metadata_csum", 300),
    ("mkfs.ext4 -qF -b 4096 -O ^metadata_csum,uninit_bg,^64bit", 300),
    ("mkfs.ext4 -qF -b 4096 -O metadata_csum_seed", 300),
    ("mkfs.ext4 -qF -b 4096 -O sparse_super2", 600),
    ("mkfs.ext4 -qF -b 1024 -O sparse_super2", 100),
    ("mkfs.ext4 -qF -b 4096 -O orphan_file", 300),
    ("mkfs.ext4 -qF -b 4096 -O fast_commit", 300),
    ("mkfs.ext4 -qF -b 4096 -O meta_bg,^resize_inode", 300),
    ("mkfs.ext4 -qF -b 4096 -O ^has_journal", 300),
    ("mkfs.ext4 -qF -b 4096 -O mmp,quota,casefold,inline_data", 300),
    ("mkfs.ext3 -qF -b 4096", 300),
    ("mkfs.ext2 -qF -b 1024", 64),
];

fn superblock(image: &Image) -> Box<Superblock> {
    match image.filesystem() {
        Filesystem::Ext(superblock) => superblock,
        other => panic!("{other:?}"),
    }
}

fn now_seconds() -> u64 {
    std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs()
}

fn health(image: &Image) -> Health {
    Health::of(&superblock(image), 1_800_000_000)
}

/// What is wrong with the group descriptors.
fn flaw(image: &Image) -> Option<Flaw> {
    groups::find_flaw(&superblock(image), &image.bytes())
}

fn image_descriptors(superblock: &Superblock) -> u64 {
    groups::range(superblock).unwrap().offset_bytes
}

/// The number behind `name:` in what dumpe2fs says.
fn number(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|value| value.trim().parse().ok()).unwrap_or_else(|| panic!("{name}: {text}"))
}

fn every_mkfs_of_the_family_is_read_as_its_tools_read_it() {
    for (line, mib) in MKFS {
        let image = Image::made(mib * MIB, line);
        let (found, said) = (superblock(&image), image.told("dumpe2fs -h"));
        assert_eq!(found.kind.name(), image.blkid("TYPE"), "{line}");
        assert_eq!(found.uuid.to_string(), image.blkid("UUID"), "{line}");
        assert_eq!(u64::from(found.block_bytes), number(&said, "Block size"), "{line}");
        assert_eq!(found.blocks, number(&said, "Block count"), "{line}");
        assert_eq!(u64::from(found.blocks_per_group), number(&said, "Blocks per group"), "{line}");
        assert_eq!(u64::from(found.first_data_block), number(&said, "First block"), "{line}");
        assert_eq!(u64::from(found.mounts), number(&said, "Mount count"), "{line}");
        assert_eq!(found.journal == Journal::None, !said.contains("has_journal"), "{line}");
        let health = health(&image);
        assert_eq!(flaw(&image), None, "{line}");
        image.zero(image_descriptors(&found), 64);
        assert_eq!(flaw(&image), Some(Flaw { group: 0 }), "{line}");
        assert!(health.is_clean() && said.contains("state:         clean"), "{line}: {health:?}");
        assert!(health.unknown_features.is_empty(), "{line}: {}", health.unknown_features);
        assert_eq!(health.multiple_mount_protection, said.contains(" mmp"), "{line}");
    }
}

fn a_copy_lies_where_dumpe2fs_says() {
    for (line, mib) in MKFS {
        let image = Image::made(mib * MIB, line);
        let block_bytes = u64::from(superblock(&image).block_bytes);
        let said = image.told("dumpe2fs");
        image.zero(1024, 1024);
        let (lost, at) = image.lost();
        assert_eq!(lost, Lost::Superblock(Family::Ext), "{line}");
        let block = at.unwrap() / block_bytes;
        assert!(said.contains(&format!("Backup superblock at {block},")), "{line}: {block}");
        let Content::PrimaryLost(PrimaryLost { backup: Some(backup), .. }) = image.content() else {
            panic!("{line}")
        };
        let (block, block_bytes) = backup.ext_block.unwrap();
        let checked = image.told(&format!("e2fsck -fn -b {block} -B {block_bytes}"));
        assert!(checked.contains("Pass 5"), "{line}: {checked}");
    }
}

fn a_filesystem_that_grew_still_shows_its_copies() {
    let image = Image::made(300 * MIB, "mkfs.ext4 -qF -b 4096 -O sparse_super2");
    image.resize(900 * MIB);
    image.tool("e2fsck -fp");
    image.tool("resize2fs");
    image.zero(0, 64 << 10);
    assert_eq!(image.lost(), (Lost::Superblock(Family::Ext), Some(128 * MIB)));
}

fn a_wrong_checksum_is_damage() {
    let image = Image::made(300 * MIB, "mkfs.ext4 -qF -b 4096");
    image.write(1024 + 0x3fc, &[1, 2, 3, 4]);
    let Content::PrimaryLost(lost) = image.content() else { panic!("{:?}", image.content()) };
    assert!(matches!(lost.damage, Some(Damage::Checksum { stored: 0x0403_0201, .. })));
    assert_eq!(lost.backup.unwrap().offset_bytes, 128 * MIB);
    let small = Image::made(64 * MIB, "mkfs.ext4 -qF -b 4096");
    small.write(1024 + 0x3fc, &[1, 2, 3, 4]);
    assert_eq!(small.lost(), (Lost::Superblock(Family::Ext), None));
}

fn marks_that_debugfs_sets_are_health() {
    let set = |request: &str| {
        let image = Image::made(100 * MIB, "mkfs.ext4 -qF -b 4096 -O orphan_file");
        image.tool_with_input("debugfs -w -f - {}", request);
        health(&image)
    };
    assert!(set("").is_clean());
    assert_eq!(set("ssv error_count 3").error_count, 3);
    assert!(set("ssv state 3").error_flag);
    assert!(!set("ssv state 0").marked_clean);
    assert!(set("ssv last_orphan 12").orphans);
    assert!(set("feature orphan_present").orphans);
    assert!(set("feature needs_recovery").journal_to_replay);
    let error = set("ssv error_count 1\nssv last_error_func ext4_find\nssv last_error_line 77\n");
    let error = error.last_error.unwrap();
    assert_eq!((error.function.as_str(), error.line), ("ext4_find", 77));
}

fn a_check_is_due_when_e2fsck_thinks_so() {
    let forced = |image: &Image| image.told("e2fsck -p").contains("check forced");
    let due = |image: &Image| Health::of(&superblock(image), now_seconds()).check_due;
    for (line, mounts) in [("-c 20 -C 19", None), ("-c 20 -C 20", Some(20)), ("-c -1 -C 99", None)]
    {
        let image = Image::made(100 * MIB, "mkfs.ext4 -qF -b 4096");
        image.tool(&format!("tune2fs {line}"));
        let expected = mounts.map(|mounts| Due::Mounts { mounts, max: 20 });
        assert_eq!(due(&image), expected, "{line}");
        assert_eq!(forced(&image), mounts.is_some(), "{line}");
    }
    for (line, expected) in [("-i 1d -T 20200101", true), ("-i 1d -T now", false)] {
        let image = Image::made(100 * MIB, "mkfs.ext4 -qF -b 4096");
        image.tool(&format!("tune2fs {line}"));
        assert_eq!(matches!(due(&image), Some(Due::Interval { .. })), expected, "{line}");
        assert_eq!(forced(&image), expected, "{line}");
    }
}

fn features_nobody_knows_are_named_as_e2fsck_names_them() {
    for feature in ["FEATURE_C31", "FEATURE_R31", "FEATURE_I31"] {
        let image = Image::made(100 * MIB, "mkfs.ext4 -qF -b 4096");
        image.tool_with_input("debugfs -w -f - {}", &format!("feature {feature}"));
        let health = health(&image);
        assert_eq!(health.unknown_features.to_string(), feature);
        let said = image.told("e2fsck -n");
        assert!(said.contains(feature), "{said}");
    }
}

fn a_device_that_shrank_is_smaller_than_its_filesystem() {
    let image = Image::made(600 * MIB, "mkfs.ext4 -qF -b 4096");
    image.resize(500 * MIB);
    assert_eq!(image.filesystem().fs_bytes(), Some(600 * MIB));
}

fn a_journal_kept_for_another_device_is_no_filesystem() {
    let image = Image::made(64 * MIB, "mkfs.ext4 -qF -b 4096 -O journal_dev");
    assert_eq!(image.blkid("TYPE"), "jbd");
    let Content::Signature(Found::Ext(found)) = image.content() else {
        panic!("{:?}", image.content())
    };
    assert_eq!(found.kind.name(), "jbd");
}

/// Killed early it has written nothing that lasts; later, tables; at last, copies of the superblock
/// alone. All of that may be formatted again by whoever forwarded the format, and by nobody else.
fn an_mkfs_that_was_killed_may_be_run_again() {
    let wanted = Wanted::Filesystem(None);
    for after_ms in (0..60).step_by(3) {
        let image = Image::new(64 << 30);
        let forwarded = Memory::FormatForwarded { at_seconds: now_seconds() };
        let mut mkfs = std::process::Command::new("mkfs.ext4")
            .args(["-qF", "-b4096", "-Elazy_itable_init=0,nodiscard", "-i16384"])
            .arg(image.path())
            .spawn()
            .unwrap();
        std::thread::sleep(std::time::Duration::from_millis(after_ms));
        mkfs.kill().unwrap();
        let finished = mkfs.wait().unwrap().success();
        let content = image.content();
        let decided = |memory| {
            let question = Question {
                wanted: &wanted,
                memory,
                size_bytes: 64 << 30,
                mode: Mode::Enforce,
                may_repair: false,
                format_allowed: false,
                blank_settled: true,
                written_bytes: None,
            };
            judge(&content, &question)
        };
        let label = content.label();
        println!("killed after {after_ms} ms: {label}");
        if matches!(content, Content::Filesystem(_)) {
            continue;
        }
        assert!(!finished, "{label}");
        assert_eq!(decided(&forwarded), Decision::HandOnToFormat, "{after_ms} ms: {label}");
        let refused = matches!(decided(&Memory::Nothing), Decision::Refuse(_));
        assert_eq!(refused, label != "blank", "{after_ms} ms: {label}");
    }
}

fn no_flipped_bit_of_a_real_superblock_harms() {
    for line in ["mkfs.ext4 -qF -b 4096", "mkfs.ext4 -qF -b 4096 -O ^metadata_csum"] {
        let image = Image::made(64 * MIB, line);
        let before = std::fs::read(image.path()).unwrap();
        for at in (1024..2048).step_by(3) {
            let flipped = before[at] ^ (1 << (at % 8));
            let (content, cost) = look_patched(&image.path(), &[(at as u64, flipped)]);
            assert!(cost.reads < 400, "{content:?}");
            assert!(!matches!(content, Content::Blank { .. }), "bit in byte {at}");
        }
    }
}
