//! What the tests stand on: a plugin stand-in, a kubelet-like client, disks.

pub mod csi;
pub mod disk;
pub mod mounts;
pub mod namespace;
mod tests;

pub fn tests() -> Vec<libtest_mimic::Trial> {
    [namespace::tests(), tests::tests()].into_iter().flatten().collect()
}
