//! SIGKILL at random moments: of the process that runs a trial, of the checker alone, and of the
//! process that does again what was cut off.
//!
//! Whenever it comes, the device ends up wholly old or wholly new, and no log is left.

mod place;
mod storm;
mod victim;

use storm::Storm;

pub fn tests() -> Vec<libtest_mimic::Trial> {
    crate::tests![loop_kills_at_random_moments_leave_the_device_whole]
}

/// Of the short run.
const TRIES: u32 = 40;

fn loop_kills_at_random_moments_leave_the_device_whole() {
    Storm::new(rand::random()).blow(TRIES);
}

/// `integration kills TRIES [SEED]`, for `integration/test full`. A seed that was printed gives the
/// same delays, not the same moments: the machine is another one each time.
pub fn run_word(words: &[String]) {
    let seed = words.get(1).map_or_else(rand::random, |seed| seed.parse().unwrap());
    Storm::new(seed).blow(words[0].parse().unwrap());
}
