//! The trial: a checker that changes nothing until it is right.

mod containment;
pub mod cost;
pub mod disks;
pub mod redo;
mod runner;
mod same;
pub mod word;
mod xfs;

pub fn tests() -> Vec<libtest_mimic::Trial> {
    [containment::tests(), redo::tests(), runner::tests(), same::tests(), xfs::tests()]
        .into_iter()
        .flatten()
        .collect()
}
