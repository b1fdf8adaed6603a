//! NodeStageVolume through the guard, on real devices with real filesystems and a plugin that does
//! to them what the real one does.

mod refused;
mod scene;
mod sound;

pub fn tests() -> Vec<libtest_mimic::Trial> {
    [refused::tests(), sound::tests()].into_iter().flatten().collect()
}
