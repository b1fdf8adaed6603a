//! Every test that needs sockets, devices or a guest, and the programs such tests start.
//!
//! `integration [TESTS]` runs tests (libtest's arguments); `integration plugin …` and the other
//! words in [`main`] run a program instead. Before the first thread starts, the process enters a
//! private mount namespace: whatever a test mounts is gone when the last process of it is.

mod support;
mod trial;

use libtest_mimic::{Arguments, Trial};

/// Names the tests of a module: `tests![a, b]` is a list of trials `module::a`, `module::b`.
/// A test function that is left out of its module's list is dead code, which clippy refuses.
#[macro_export]
macro_rules! tests {
    ($($name:ident),+ $(,)?) => {
        vec![$(libtest_mimic::Trial::test(
            concat!(module_path!(), "::", stringify!($name)).trim_start_matches("integration::"),
            || {
                $name();
                Ok(())
            },
        )),+]
    };
}

fn main() {
    support::namespace::enter();
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        Some("run-trial") => return trial::word::run(&args[1..]),
        Some("trial-cost") => return trial::cost::run_word(&args[1..]),
        _ => {}
    }
    let trials: Vec<Trial> = [support::tests(), trial::tests()].into_iter().flatten().collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
