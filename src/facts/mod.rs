//! WORDS: what a node shows and what is remembered of it. Types and parsers, all pure.

pub mod bytes;
pub mod call;
pub mod memory;
pub mod superblock;
pub mod tool;
