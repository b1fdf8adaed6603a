//! Effects on the node. Nothing here decides.
//!
//! `unsafe` lives in this room and in no other: in `tool/spawn.rs` (between fork and exec), in
//! `trial/arena.rs` (memory that is never swapped), in `trial/sealed.rs` and `trial/replay.rs` (a
//! thread with its own descriptors), in `trial/device.rs` and in `trial/loop_device.rs` (ioctls
//! without a binding).

mod descriptors;
pub mod tool;
pub mod trial;
