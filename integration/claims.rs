//! What is said about real devices: held, shared, gone, or free.

mod content;
mod held;
mod scene;
mod shape;
mod stack;

pub fn tests() -> Vec<libtest_mimic::Trial> {
    [content::tests(), held::tests(), shape::tests(), stack::tests()]
        .into_iter()
        .flatten()
        .collect()
}
