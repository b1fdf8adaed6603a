//! What happens to ext4 filesystems, region by region. All but the rows that say "clean" are marked
//! as not unmounted (see [`super::base::Base`]).

use super::inflict::Harm::{Cut, Debugfs, Flip, Garble, Set, Shutdown, Zero};
use super::inflict::Row;
use super::place::Place::{
    At, Attributes, Block, BlockBitmap, Copies, Descriptor, Descriptors, Extents, Inode,
    InodeBitmap, MmpBlock, Superblock, Table,
};
use super::tree::MANY_DIR;

/// Rows of (name, kinds, harms).
macro_rules! rows {
    ($(($name:literal, $kinds:expr, $harms:expr)),+ $(,)?) => {
        &[$(Row { name: $name, kinds: &$kinds, harms: &$harms }),+]
    };
}
pub(super) use rows;

/// One row for each region: the short run takes the first kind of each.
#[rustfmt::skip]
pub const SHORT: &[Row] = rows![
    ("superblock zeroed", ["1k", "2k", "4k", "1k-plain", "2k-no-flex", "1k-quota"], [Zero(Superblock)]),
    ("superblock and copies zeroed", ["1k", "4k"], [Zero(Superblock), Zero(Copies)]),
    ("descriptors zeroed", ["2k", "1k", "4k", "1k-plain", "2k-no-flex"], [Zero(Descriptors)]),
    ("block bitmap zeroed", ["1k-plain", "1k", "2k", "4k"], [Zero(BlockBitmap(0))]),
    ("inode bitmap garbled", ["2k-no-flex", "1k", "4k", "4k-plain"], [Garble(InodeBitmap(0))]),
    ("first inodes zeroed", ["4k-inline", "1k", "2k", "4k", "1k-plain"], [Zero(Table { group: 0, from: 0, blocks: 1 })]),
    ("inodes in the middle garbled", ["1k", "2k", "4k", "4k-plain", "1k-inline", "1k-casefold"], [Garble(Table { group: 0, from: 3, blocks: 2 })]),
    ("root directory zeroed", ["1k-casefold", "1k", "2k", "4k", "1k-plain"], [Zero(Block("/", 0))]),
    ("index of a directory garbled", ["1k", "2k", "4k", "1k-plain"], [Garble(Block(MANY_DIR, 0))]),
    ("extents garbled", ["4k", "1k", "2k", "1k-plain", "2k-encrypt"], [Garble(Extents("/holes"))]),
    ("links miscounted", ["2k-encrypt", "1k", "4k"], [Debugfs("sif /dir3/file3 links_count 9")]),
    ("journal inode cleared", ["1k-quota", "1k", "4k", "1k-plain"], [Debugfs("clri <8>")]),
    ("dirty journal", ["1k-orphans", "1k", "2k", "4k", "1k-plain", "1k-inline", "1k-ext3", "2k-bigalloc"], [Shutdown]),
    ("unknown incompat feature", ["1k", "4k-plain"], [Debugfs("feature FEATURE_I31")]),
    ("device cut", ["1k", "2k"], [Cut(24)]),
    ("clean, and a directory is gone", ["1k", "4k-plain"], [Debugfs("clri /dir2\nssv state 1")]),
];

#[rustfmt::skip]
pub const SUPERBLOCK: &[Row] = rows![
    ("superblock garbled", ["1k", "2k", "4k", "1k-plain"], [Garble(Superblock)]),
    ("superblock without magic", ["1k", "4k-plain"], [Set(Superblock, 0x38, &[0, 0])]),
    ("superblock with wrong checksum", ["2k", "4k-inline"], [Flip(Superblock, 0x3fc)]),
    ("copies zeroed", ["1k", "4k"], [Zero(Copies)]),
    ("copies garbled", ["2k-no-flex"], [Garble(Copies)]),
    ("superblock and first copy zeroed", ["1k", "1k-plain"], [Zero(Superblock), Zero(At(8193 << 10, 1024))]),
    ("superblock and descriptors zeroed", ["1k", "2k", "4k"], [Zero(Superblock), Zero(Descriptors)]),
    ("first 64 KiB garbled", ["1k", "4k"], [Garble(At(0, 64 << 10))]),
    ("first MiB zeroed", ["1k", "2k", "4k"], [Zero(At(0, 1 << 20))]),
    ("free blocks miscounted", ["1k", "2k-bigalloc"], [Debugfs("ssv free_blocks_count 3")]),
    ("free inodes miscounted", ["1k-plain", "1k-mmp"], [Debugfs("ssv free_inodes_count 3")]),
    ("more blocks than the device", ["1k", "4k"], [Debugfs("ssv blocks_count 900000")]),
    ("fewer blocks than the groups", ["1k"], [Debugfs("ssv blocks_count 20000")]),
    ("first block moved", ["1k-plain"], [Set(Superblock, 0x14, &[5])]),
    ("inodes of a group miscounted", ["1k-plain", "1k"], [Debugfs("ssv inodes_per_group 72")]),
    ("size of inodes wrong", ["1k-plain"], [Set(Superblock, 0x58, &[128, 0])]),
    ("error flag", ["1k", "4k"], [Debugfs("ssv state 2")]),
    ("clean, and errors counted", ["1k", "2k"], [Debugfs("ssv error_count 5\nssv state 1")]),
    ("clean, errors counted, and a directory is gone", ["1k", "2k"], [Debugfs("clri /dir2\nssv error_count 5\nssv state 1")]),
    ("orphan list to a file in use", ["1k", "2k"], [Debugfs("ssv last_orphan 15")]),
    ("orphan list to nowhere", ["1k", "4k-plain"], [Debugfs("ssv last_orphan 99999")]),
    ("orphan file said to be in use", ["1k-orphans"], [Debugfs("feature orphan_present")]),
    ("orphan file garbled", ["1k-orphans"], [Debugfs("feature orphan_present"), Garble(Block("<12>", 0))]),
    ("unknown compat feature", ["1k"], [Debugfs("feature FEATURE_C31")]),
    ("unknown ro_compat feature", ["1k"], [Debugfs("feature FEATURE_R31")]),
    ("unknown feature and damage", ["1k"], [Debugfs("clri /dir2\nfeature FEATURE_I31")]),
    ("multiple mount block garbled", ["1k-mmp"], [Garble(MmpBlock)]),
    ("multiple mount protection and damage", ["1k-mmp"], [Debugfs("clri /dir2\nsif /dir3/file3 links_count 9")]),
    ("device cut by one MiB", ["1k", "4k"], [Cut(31)]),
];

#[rustfmt::skip]
pub const GROUPS: &[Row] = rows![
    ("descriptors garbled", ["1k", "4k-plain", "4k-inline"], [Garble(Descriptors)]),
    ("one descriptor garbled", ["1k", "2k", "1k-plain"], [Garble(Descriptor(1))]),
    ("one descriptor zeroed", ["1k-plain", "4k"], [Zero(Descriptor(2))]),
    ("descriptor with wrong checksum", ["1k", "4k"], [Flip(Descriptor(1), 0x1e)]),
    ("descriptor with another inode table", ["1k", "1k-plain"], [Debugfs("set_bg 0 inode_table 5000")]),
    ("descriptor without bitmap", ["1k", "2k"], [Debugfs("set_bg 2 inode_bitmap 0")]),
    ("descriptor miscounted", ["1k", "1k-ext3"], [Debugfs("set_bg 1 free_blocks_count 9999")]),
    ("block bitmap garbled", ["2k-no-flex", "1k-plain"], [Garble(BlockBitmap(1))]),
    ("block bitmap full", ["1k"], [Debugfs("setb 20000 500")]),
    ("blocks in use set free", ["1k", "4k"], [Debugfs("freeb 1400 200")]),
    ("inode bitmap zeroed", ["1k", "4k-plain"], [Zero(InodeBitmap(0))]),
    ("inode in use set free", ["1k"], [Debugfs("freei <20>")]),
    ("inode bitmap of a late group garbled", ["1k-plain", "2k"], [Garble(InodeBitmap(2))]),
    ("many inodes zeroed", ["1k", "2k"], [Zero(Table { group: 0, from: 6, blocks: 12 })]),
    ("many inodes garbled", ["1k-plain", "1k-ext3"], [Garble(Table { group: 0, from: 6, blocks: 12 })]),
    ("all bitmaps of a group garbled", ["1k", "4k"], [Garble(BlockBitmap(0)), Garble(InodeBitmap(0))]),
];

#[rustfmt::skip]
pub const FILES: &[Row] = rows![
    ("root inode zeroed", ["1k", "2k", "4k", "1k-plain", "1k-casefold"], [Zero(Inode("<2>"))]),
    ("root inode garbled", ["1k", "4k-plain", "4k-inline"], [Garble(Inode("<2>"))]),
    ("root inode no directory", ["1k"], [Debugfs("sif <2> mode 0100644")]),
    ("root directory garbled", ["1k", "4k", "2k-encrypt"], [Garble(Block("/", 0))]),
    ("index of a directory flipped", ["1k", "2k"], [Flip(Block(MANY_DIR, 0), 0x1d)]),
    ("leaf of a directory zeroed", ["1k", "4k", "1k-plain"], [Zero(Block(MANY_DIR, 1))]),
    ("leaf of a directory garbled", ["2k", "1k-casefold"], [Garble(Block(MANY_DIR, 1))]),
    ("directory block garbled", ["1k", "2k", "1k-plain"], [Garble(Block("/dir3", 0))]),
    ("entry to an impossible inode", ["1k-plain", "4k-plain"], [Set(Block("/dir4", 0), 24, &[0xff, 0xff, 0xff, 0x7f])]),
    ("entry of impossible length", ["1k-plain", "1k"], [Set(Block("/dir4", 0), 28, &[0xff, 0xff])]),
    ("directory without inode", ["1k", "1k-inline"], [Debugfs("clri /dir2")]),
    ("directory linked twice", ["1k", "2k"], [Debugfs("link /dir1 /dir2/again")]),
    ("directory not linked", ["1k", "4k"], [Debugfs("unlink /dir0")]),
    ("directory that is a file", ["1k"], [Debugfs("sif /dir4 mode 0100644")]),
    ("file without inode", ["4k", "1k-inline"], [Debugfs("clri /dir1/file1")]),
    ("file not linked", ["1k", "2k-encrypt"], [Debugfs("unlink /dir5/file7")]),
    ("file of impossible size", ["1k", "1k-ext3"], [Debugfs("sif /large size 99999999")]),
    ("file with wrong count of blocks", ["1k", "2k-bigalloc"], [Debugfs("sif /large blocks 3")]),
    ("file with an impossible block", ["1k", "1k-ext3"], [Debugfs("sif /dir5/file5 block[2] 0x7fffffff")]),
    ("file without indirect block", ["1k-ext3"], [Debugfs("sif /large block[IND] 0x7fffffff")]),
    ("blocks claimed twice", ["1k", "4k", "1k-ext3"], [Debugfs("copy_inode /dir0/file7 /dir1/file7")]),
    ("extent header flipped", ["1k", "4k"], [Flip(Inode("/large"), 0x28)]),
    ("extents zeroed", ["1k", "4k-plain"], [Zero(Extents("/holes"))]),
    ("inline data flipped", ["1k-inline", "4k-inline"], [Flip(Inode("/dir0/file0"), 0x80)]),
    ("inode garbled", ["1k", "2k", "1k-plain"], [Garble(Inode("/dir0/file4"))]),
    ("link count of a directory zero", ["1k", "4k"], [Debugfs("sif /dir2 links_count 0")]),
    ("attributes zeroed", ["1k", "4k"], [Zero(Attributes("/dir1/file6"))]),
    ("attributes garbled", ["2k", "1k-plain"], [Garble(Attributes("/dir1/file6"))]),
    ("lost+found gone, and needed", ["1k", "2k"], [Debugfs("clri <11>\nclri /dir2")]),
    ("resize inode cleared", ["1k", "4k"], [Debugfs("clri <7>")]),
    ("resize inode garbled", ["2k", "1k-plain"], [Garble(Inode("<7>"))]),
    ("quota inode cleared", ["1k-quota"], [Debugfs("clri <3>")]),
    ("quota inode garbled", ["1k-quota"], [Garble(Inode("<4>"))]),
    ("quota file garbled", ["1k-quota"], [Garble(Block("<3>", 1))]),
];

#[rustfmt::skip]
pub const JOURNAL: &[Row] = rows![
    ("journal inode garbled", ["1k", "4k"], [Garble(Inode("<8>"))]),
    ("journal superblock zeroed", ["1k", "4k", "1k-plain"], [Zero(Block("<8>", 0))]),
    ("journal superblock garbled", ["2k", "1k-quota"], [Garble(Block("<8>", 0))]),
    ("dirty journal without superblock", ["1k", "4k"], [Shutdown, Zero(Block("<8>", 0))]),
    ("dirty journal, garbled inside", ["1k", "2k", "1k-plain"], [Shutdown, Garble(Block("<8>", 2))]),
    ("dirty journal, inode cleared", ["1k"], [Shutdown, Debugfs("clri <8>")]),
    ("journal with one block of zeros", ["1k-quota", "1k-casefold", "2k-encrypt"], [Debugfs("jo\njw -b 25000 /dev/zero\njc")]),
    ("journal that replays zeros", ["1k"], [Debugfs("jo\njw -b 300 /dev/zero\njc")]),
    ("dirty journal and no superblock", ["1k", "2k", "4k"], [Shutdown, Zero(Superblock)]),
    ("dirty journal and garbled inodes", ["1k", "4k"], [Shutdown, Garble(Table { group: 0, from: 3, blocks: 2 })]),
    ("dirty journal and no descriptors", ["1k", "2k-no-flex"], [Shutdown, Zero(Descriptors)]),
    ("superblock gone, root gone", ["1k", "4k"], [Zero(Superblock), Zero(Inode("<2>"))]),
    ("superblock gone, inodes garbled", ["1k", "2k", "1k-plain"], [Zero(Superblock), Garble(Table { group: 0, from: 3, blocks: 2 })]),
    ("superblock gone, bitmaps gone", ["1k", "4k-inline"], [Zero(Superblock), Zero(BlockBitmap(0)), Zero(InodeBitmap(0))]),
    ("root and journal gone", ["1k", "2k"], [Zero(Inode("<2>")), Zero(Inode("<8>"))]),
    ("root, its directory and lost+found gone", ["1k", "1k-plain"], [Zero(Inode("<2>")), Zero(Block("/", 0)), Zero(Inode("<11>"))]),
    ("descriptors and inodes garbled", ["1k", "4k"], [Garble(Descriptors), Garble(Table { group: 0, from: 5, blocks: 1 })]),
    ("everything a little", ["1k", "1k-plain", "4k"], [Garble(BlockBitmap(1)), Garble(InodeBitmap(0)), Garble(Inode("/dir1")), Garble(Block("/many", 1)), Zero(Inode("/large"))]),
];

pub fn all() -> impl Iterator<Item = &'static Row> {
    [SHORT, SUPERBLOCK, GROUPS, FILES, JOURNAL].into_iter().flatten()
}
