//! NodeStageVolume through the guard, on real devices with real filesystems and a plugin that does
//! to them what the real one does. The numbers in names are those of `CASES.md`.

mod by_hand;
mod checkers;
mod claimed;
pub mod cost;
mod faults;
mod filesystems;
mod formats;
mod many;
mod modes;
mod proof;
mod refused;
mod scene;
mod sound;
mod words;

pub fn tests() -> Vec<libtest_mimic::Trial> {
    [
        by_hand::tests(),
        checkers::tests(),
        claimed::tests(),
        cost::tests(),
        faults::tests(),
        filesystems::tests(),
        formats::tests(),
        many::tests(),
        modes::tests(),
        proof::tests(),
        refused::tests(),
        sound::tests(),
        words::tests(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
