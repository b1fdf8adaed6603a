//! btrfs, LUKS, swap, partition tables and FAT, beside blkid.

use mount_guard::facts::superblock::luks::Version;
use mount_guard::facts::superblock::partition::Kind;
use mount_guard::facts::superblock::{Family, btrfs, md};
use mount_guard::format::{Content, Filesystem, Found, Lost, ReadPlan};

use super::image::{Image, MIB};

pub fn tests() -> Vec<libtest_mimic::Trial> {
    crate::tests![
        every_checksum_of_btrfs_is_read,
        a_btrfs_without_its_superblock_is_found_by_its_mirror,
        both_versions_of_luks_are_read,
        a_luks2_without_its_header_is_found_by_the_second_one,
        swap_is_a_signature,
        both_partition_tables_are_read,
        every_place_of_an_md_superblock_is_where_blkid_looks,
        a_fat_boot_sector_is_no_partition_table,
        an_mkfs_over_something_else_leaves_no_conflict,
        a_new_volume_is_blank,
    ]
}

fn every_checksum_of_btrfs_is_read() {
    use btrfs::Checksum::{Crc32c, Sha256};
    for (name, verified) in
        [("crc32c", Some(Crc32c)), ("xxhash", None), ("sha256", Some(Sha256)), ("blake2", None)]
    {
        let image = Image::made(300 * MIB, &format!("mkfs.btrfs -qf --csum {name}"));
        let Filesystem::Btrfs(found) = image.filesystem() else { panic!("{name}") };
        assert_eq!(found.checksum_verified, verified, "{name}");
        assert_eq!(found.uuid.to_string(), image.blkid("UUID"), "{name}");
        assert_eq!((found.device_bytes, found.devices), (300 * MIB, 1), "{name}");
        let said = image.told("btrfs inspect-internal dump-super");
        let generation = format!("generation\t\t{}\n", found.generation);
        assert!(said.contains(&generation), "{name}: {said}");
        assert!(!found.has_log);
    }
}

fn a_btrfs_without_its_superblock_is_found_by_its_mirror() {
    let image = Image::made(300 * MIB, "mkfs.btrfs -qf");
    image.zero(64 << 10, 4096);
    assert_eq!(image.lost(), (Lost::Superblock(Family::Btrfs), Some(64 * MIB)));
}

fn luks(line: &str) -> Image {
    let image = Image::new(64 * MIB);
    image.tool_with_input(&format!("{line} {{}} -"), "a passphrase");
    image
}

const LUKS1: &str = "cryptsetup luksFormat -q --type luks1 --pbkdf-force-iterations 1000";
const LUKS2: &str =
    "cryptsetup luksFormat -q --type luks2 --pbkdf pbkdf2 --pbkdf-force-iterations 1000";

fn both_versions_of_luks_are_read() {
    for (line, version) in [(LUKS1, Version::One), (LUKS2, Version::Two)] {
        let image = luks(line);
        let Content::Luks(header) = image.content() else { panic!("{:?}", image.content()) };
        assert_eq!(header.version, version);
        assert_eq!(header.uuid.unwrap().to_string(), image.blkid("UUID"));
    }
}

fn a_luks2_without_its_header_is_found_by_the_second_one() {
    for (size, at) in [("16k", 16_384), ("64k", 65_536), ("1024k", 1 << 20), ("4096k", 4 << 20)] {
        let image = luks(&format!("{LUKS2} --luks2-metadata-size {size}"));
        image.zero(0, 4096);
        assert_eq!(image.lost(), (Lost::LuksHeader, Some(at)), "{size}");
    }
}

fn swap_is_a_signature() {
    for line in ["mkswap", "mkswap -p 65536"] {
        let image = Image::made(64 * MIB, line);
        assert!(matches!(image.content(), Content::Signature(Found::Swap(_))), "{line}");
    }
}

/// What sfdisk (util-linux 2.38.1) wrote on 64 MiB for `label: dos` and `label: gpt` with one
/// partition from sector 2048 on: recorded, since it ends with a sync(2) of the whole machine, which
/// any filesystem in trouble holds up.
const DOS: &[u8] = include_bytes!("testdata/sfdisk-2.38.1-dos.bin");
const GPT_HEAD: &[u8] = include_bytes!("testdata/sfdisk-2.38.1-gpt-head.bin");
const GPT_TAIL: &[u8] = include_bytes!("testdata/sfdisk-2.38.1-gpt-tail.bin");

fn both_partition_tables_are_read() {
    let dos = Image::new(64 * MIB);
    dos.write(0, DOS);
    assert_eq!((table(&dos), dos.blkid("PTTYPE").as_str()), (Kind::Mbr { partitions: 1 }, "dos"));
    let gpt = Image::new(64 * MIB);
    gpt.write(0, GPT_HEAD);
    gpt.write(64 * MIB - 512, GPT_TAIL);
    assert_eq!((table(&gpt), gpt.blkid("PTTYPE").as_str()), (Kind::Gpt, "gpt"));
    // Its protective MBR is left, and then only the copy at the end.
    gpt.zero(512, 34 * 512);
    table(&gpt);
    gpt.zero(0, 512);
    assert_eq!(table(&gpt), Kind::GptBackup);
}

fn table(image: &Image) -> Kind {
    match image.content() {
        Content::PartitionTable(table) => table.kind,
        other => panic!("{other:?}"),
    }
}

/// mdadm makes arrays only with the kernel's help, so the superblocks are made here.
fn every_place_of_an_md_superblock_is_where_blkid_looks() {
    let size_bytes = 100 * MIB + 12 * 1024;
    let magic = 0xa92b_4efc_u32.to_le_bytes();
    for (version, at) in [
        ("1.0", md::offset_1_0(size_bytes).unwrap()),
        ("1.1", 0),
        ("1.2", 4096),
        ("0.90", md::offset_0_90(size_bytes).unwrap()),
    ] {
        let mut block = vec![0; 256];
        block[..4].copy_from_slice(&magic);
        if version == "0.90" {
            block[8] = 90;
            block[20..24].copy_from_slice(&[4, 3, 2, 1]);
            block[52] = 5;
        } else {
            block[4] = 1;
            block[16..32].fill(0xab);
            block[144..152].copy_from_slice(&(at / 512).to_le_bytes());
            let words = block
                .chunks_exact(4)
                .map(|word| u64::from(u32::from_le_bytes(word.try_into().unwrap())));
            let sum: u64 = words.sum();
            let sum = u32::try_from((sum & 0xffff_ffff) + (sum >> 32)).unwrap();
            block[216..220].copy_from_slice(&sum.to_le_bytes());
        }
        let image = Image::new(size_bytes);
        image.write(at, &block);
        let Content::Signature(Found::Md(member)) = image.content() else {
            panic!("{version}: {:?}", image.content())
        };
        assert_eq!(image.blkid("TYPE"), "linux_raid_member", "{version}");
        assert!(image.blkid("VERSION").starts_with(member.version), "{version}");
        assert_eq!(member.uuid.to_string(), image.blkid("UUID"), "{version}");
    }
}

fn a_fat_boot_sector_is_no_partition_table() {
    for (bits, mib) in [(12, 4), (16, 64), (32, 600)] {
        let image = Image::made(mib * MIB, &format!("mkfs.vfat -F {bits}"));
        assert_eq!(image.filesystem().name(), "vfat", "{bits}");
        assert_eq!(image.blkid("TYPE"), "vfat");
    }
}

fn an_mkfs_over_something_else_leaves_no_conflict() {
    let earlier = [
        "mkfs.btrfs -qf",
        "mkswap",
        "mkfs.xfs -qf",
        "mkfs.ext4 -qF",
        "mkfs.vfat",
        "mkfs.ext2 -qFb1024",
    ];
    for first in earlier {
        for (second, name) in
            [("mkfs.ext4 -qF", "ext4"), ("mkfs.xfs -qf", "xfs"), ("mkfs.btrfs -qf", "btrfs")]
        {
            let image = Image::made(400 * MIB, first);
            image.tool(second);
            assert_eq!(image.filesystem().name(), name, "{first}, then {second}");
        }
    }
}

fn a_new_volume_is_blank() {
    for mib in [1, 16, 4096, 1 << 20] {
        let size_bytes = mib * MIB;
        let Content::Blank { proved } = Image::new(size_bytes).content() else { panic!("{mib}") };
        assert_eq!(proved, ReadPlan::survey(size_bytes).ranges());
    }
}
