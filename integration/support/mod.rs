//! What the tests stand on: a plugin stand-in, a kubelet-like client, disks.

pub mod csi;
pub mod namespace;

pub fn tests() -> Vec<libtest_mimic::Trial> {
    namespace::tests()
}
