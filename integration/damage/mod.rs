//! Damaged filesystems of every sort, and the promise that the guard makes none of them worse.
//!
//! Each image holds files with known contents. Whatever the mode: what is refused is unchanged to
//! the last bit; what was written to is clean afterwards, and has at least as many files left as
//! the best repair of an untouched copy by hand.

mod base;
mod examine;
mod ext_table;
mod hand;
mod image;
mod inflict;
mod matrix;
mod place;
mod tree;
mod xfs_table;

pub fn tests() -> Vec<libtest_mimic::Trial> {
    crate::tests![loop_no_ext4_is_worse_off_than_by_hand, loop_no_xfs_is_worse_off_than_by_hand,]
}

fn loop_no_ext4_is_worse_off_than_by_hand() {
    matrix::run(&matrix::jobs(ext_table::SHORT.iter(), false));
}

fn loop_no_xfs_is_worse_off_than_by_hand() {
    matrix::run(&matrix::jobs(xfs_table::SHORT.iter(), false));
}

/// `integration all-damages [WORD]`: every row on every kind, or those with this word in a name.
pub fn run_word(words: &[String]) {
    let rows = ext_table::all().chain(xfs_table::all());
    let mut jobs = matrix::jobs(rows, true);
    jobs.retain(|job| words.iter().all(|word| job.row.name.contains(word) || job.kind == word));
    matrix::run(&jobs);
}
