//! What is said about real devices, beside what their own tools say.

mod cost;
mod ext;
pub mod image;
mod loops;
mod others;
mod xfs;

pub fn tests() -> Vec<libtest_mimic::Trial> {
    [ext::tests(), xfs::tests(), others::tests(), loops::tests(), cost::tests()]
        .into_iter()
        .flatten()
        .collect()
}
