//! Tests of the kit itself: a stand-in that nobody checks lies.

mod devices;

pub fn tests() -> Vec<libtest_mimic::Trial> {
    [devices::tests()].into_iter().flatten().collect()
}
