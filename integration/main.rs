//! Every test that needs sockets, devices or a guest, and the programs such tests start.
//!
//! `integration [TESTS]` runs tests (libtest's arguments); `integration plugin …` and the other
//! words in [`main`] run a program instead, in the mount namespace it was started in. Before the
//! first thread starts, the process of the tests enters a private one: whatever a test mounts is
//! gone when the last process of it is.

#![allow(clippy::disallowed_methods, reason = "tests act on the node they run on")]

mod bench;
mod claims;
mod content;
mod damage;
mod kills;
mod memory;
mod show;
mod stage;
mod support;
mod trial;
mod wall;
mod wire;

use std::process::ExitCode;

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

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    match words.next().as_deref().and_then(|word| word.to_str()) {
        Some("plugin") => support::plugin::program::main(std::env::args().skip(1)),
        Some("demo") => {
            support::namespace::enter();
            show::demo()
        }
        Some("panic-with-a-secret") => wire::panic_with_a_secret(),
        Some("memory-writer") => memory::write(words),
        Some("bench") => bench::run(words),
        Some("bench-plugin") => bench::run_plugin(words),
        Some("bench-copy") => bench::run_copy(words),
        Some("run-trial") => {
            support::namespace::enter();
            trial::word::run(&rest(words));
            ExitCode::SUCCESS
        }
        Some("trial-cost") => {
            support::namespace::enter();
            trial::cost::run_word(&rest(words));
            ExitCode::SUCCESS
        }
        Some("stage-cost") => {
            support::namespace::enter();
            stage::cost::run_word();
            ExitCode::SUCCESS
        }
        Some("all-damages") => {
            support::namespace::enter();
            damage::run_word(&rest(words));
            ExitCode::SUCCESS
        }
        Some("kills") => {
            support::namespace::enter();
            kills::run_word(&rest(words));
            ExitCode::SUCCESS
        }
        _ => run_tests(),
    }
}

fn rest(words: impl Iterator<Item = std::ffi::OsString>) -> Vec<String> {
    words.map(|word| word.to_string_lossy().into_owned()).collect()
}

fn run_tests() -> ExitCode {
    support::namespace::enter();
    let trials = [
        bench::tests(),
        claims::tests(),
        content::tests(),
        damage::tests(),
        kills::tests(),
        memory::tests(),
        stage::tests(),
        support::tests(),
        trial::tests(),
        wall::tests(),
        wire::tests(),
    ];
    let trials: Vec<Trial> = trials.into_iter().flatten().collect();
    let mut arguments = Arguments::from_args();
    // Most tests wait half of the time; with more of them at once, forks of one hold what another
    // has let go of.
    arguments.test_threads.get_or_insert(3);
    libtest_mimic::run(&arguments, trials).exit_code()
}
