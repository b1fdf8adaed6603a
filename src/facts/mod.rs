//! WORDS: what a node shows, as types and parsers. Nothing here acts, waits or fails.

pub mod bytes;
pub mod superblock;
