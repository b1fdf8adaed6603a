//! WORDS: what a node shows and what is remembered of it. Types and parsers, all pure.

pub mod bytes;
pub mod call;
pub mod device;
pub mod memory;
pub mod mounts;
pub mod process;
pub mod superblock;
pub mod sysfs;
pub mod tool;
