//! What the tests stand on: a plugin stand-in, a kubelet-like client, disks.

pub mod csi;
pub mod disk;
pub mod fault;
pub mod guard;
pub mod kubelet;
pub mod mounts;
pub mod namespace;
pub mod plugin;
pub mod rpc;
pub mod scene;
mod tests;

pub fn tests() -> Vec<libtest_mimic::Trial> {
    [namespace::tests(), tests::tests()].into_iter().flatten().collect()
}

/// Runs one asynchronous test to its end, on a runtime of its own.
pub fn run<F: Future>(test: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(test)
}
