//! Tests of the kit itself: a stand-in that nobody checks lies.

mod devices;
mod echo;

pub fn tests() -> Vec<libtest_mimic::Trial> {
    [devices::tests(), echo::tests()].into_iter().flatten().collect()
}
