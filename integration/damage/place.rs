//! Where things lie on a sound image: what a damage hits.

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::base::Base;

/// A place by its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Superblock,
    /// All copies of it.
    Copies,
    /// The block of group descriptors.
    Descriptors,
    Descriptor(u64),
    BlockBitmap(u64),
    InodeBitmap(u64),
    /// Some blocks of a group's inode table.
    Table {
        group: u64,
        from: u64,
        blocks: u64,
    },
    /// An inode, as debugfs names it.
    Inode(&'static str),
    /// The n-th block of a file or directory.
    Block(&'static str, u64),
    /// The block of extents behind a file's inode.
    Extents(&'static str),
    /// The block of a file's attributes.
    Attributes(&'static str),
    MmpBlock,
    /// What xfs_db shows after these commands, one sector of it or so many bytes.
    Db(&'static str, u64),
    At(u64, u64),
}

/// Bytes of the device.
#[derive(Debug, Clone, Copy)]
pub struct Range {
    pub offset: u64,
    pub length: u64,
}

impl Place {
    pub fn find(self, base: &Base) -> Vec<Range> {
        let one = |offset, length| vec![Range { offset, length }];
        match self {
            Self::At(offset, length) => one(offset, length),
            Self::Db(commands, length) => one(daddr(base, commands) * 512, length),
            _ => Ext::of(base).find(base, self),
        }
    }
}

/// What the superblock of a sound ext image says.
struct Ext {
    block: u64,
    first_block: u64,
    blocks: u64,
    blocks_per_group: u64,
    inode_bytes: u64,
    descriptor_bytes: u64,
    mmp_block: u64,
    image: File,
}

impl Ext {
    fn of(base: &Base) -> Self {
        let image = File::open(base.image()).unwrap();
        let mut superblock = [0; 1024];
        image.read_exact_at(&mut superblock, 1024).unwrap();
        let word =
            |at: usize| u64::from(u32::from_le_bytes(superblock[at..at + 4].try_into().unwrap()));
        let descriptor_bytes = word(0xfe) & 0xffff;
        Self {
            block: 1024 << word(0x18),
            first_block: word(0x14),
            blocks: word(0x04),
            blocks_per_group: word(0x20),
            inode_bytes: word(0x58) & 0xffff,
            descriptor_bytes: if descriptor_bytes == 0 { 32 } else { descriptor_bytes },
            mmp_block: word(0x168),
            image,
        }
    }

    fn find(&self, base: &Base, place: Place) -> Vec<Range> {
        let one = |offset, length| vec![Range { offset, length }];
        let blocks = |first: u64, count: u64| one(first * self.block, count * self.block);
        match place {
            Place::Superblock => one(1024, 1024),
            Place::Copies => self.copies(),
            Place::Descriptors => blocks(self.first_block + 1, 1),
            Place::Descriptor(group) => one(self.descriptor(group), self.descriptor_bytes),
            Place::BlockBitmap(group) => blocks(self.pointer(group, 0), 1),
            Place::InodeBitmap(group) => blocks(self.pointer(group, 4), 1),
            Place::Table { group, from, blocks: count } => {
                blocks(self.pointer(group, 8) + from, count)
            }
            Place::Inode(name) => {
                let said = base.told("/sbin/debugfs", &["-R", &format!("imap {name}")]);
                let (block, offset) = said
                    .split_once("located at block ")
                    .unwrap()
                    .1
                    .split_once(", offset 0x")
                    .unwrap();
                let offset = u64::from_str_radix(offset.trim(), 16).unwrap();
                one(block.parse::<u64>().unwrap() * self.block + offset, self.inode_bytes)
            }
            Place::Block(name, nth) => {
                let said = base.told("/sbin/debugfs", &["-R", &format!("bmap {name} {nth}")]);
                let block = said.trim().parse().unwrap();
                assert_ne!(block, 0, "{}: {name} has no block {nth}", base.kind.name);
                blocks(block, 1)
            }
            Place::Extents(name) => blocks(number_after(base, name, "(ETB0):"), 1),
            Place::Attributes(name) => blocks(number_after(base, name, "File ACL: "), 1),
            Place::MmpBlock => blocks(self.mmp_block, 1),
            Place::Db(..) | Place::At(..) => unreachable!("not of ext"),
        }
    }

    /// In the groups 1 and the powers of 3, 5 and 7 (`sparse_super`).
    fn copies(&self) -> Vec<Range> {
        let groups = (self.blocks - self.first_block).div_ceil(self.blocks_per_group);
        let offset = |group| (self.first_block + group * self.blocks_per_group) * self.block;
        let is_one = |group: &u64| [1, 3, 5, 7, 9, 25, 27, 49].contains(group);
        let places = (1..groups).filter(is_one).map(offset);
        places.map(|offset| Range { offset, length: 1024 }).collect()
    }

    fn descriptor(&self, group: u64) -> u64 {
        (self.first_block + 1) * self.block + group * self.descriptor_bytes
    }

    /// A block number in a descriptor; no image here has so many that it takes its high half.
    fn pointer(&self, group: u64, at: u64) -> u64 {
        let mut word = [0; 4];
        self.image.read_exact_at(&mut word, self.descriptor(group) + at).unwrap();
        u64::from(u32::from_le_bytes(word))
    }
}

/// The number that debugfs prints behind `words` in what it says of an inode.
fn number_after(base: &Base, name: &str, words: &str) -> u64 {
    let said = base.told("/sbin/debugfs", &["-R", &format!("stat {name}")]);
    let rest = said.split_once(words).unwrap_or_else(|| panic!("{name}: {said}")).1;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next();
    digits.unwrap().parse().unwrap()
}

/// The 512-byte sector at which xfs_db stands after these commands, parted by `;`.
fn daddr(base: &Base, commands: &str) -> u64 {
    let mut args = vec!["-r"];
    for command in commands.split(';').chain(["daddr"]) {
        args.extend(["-c", command.trim()]);
    }
    let said = base.told("/sbin/xfs_db", &args);
    let number = said.rsplit_once("current daddr is ").unwrap_or_else(|| panic!("{said}")).1;
    number.trim().parse().unwrap()
}
