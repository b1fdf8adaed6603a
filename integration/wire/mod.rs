//! The guard on real sockets: what crosses, who may call, and in which order.

mod authority;
mod crossing;
mod flights;
mod probes;
mod sameness;
mod secrets;
mod sockets;

pub use secrets::panic_with_a_secret;

pub fn tests() -> Vec<libtest_mimic::Trial> {
    [
        authority::tests(),
        crossing::tests(),
        flights::tests(),
        probes::tests(),
        sameness::tests(),
        secrets::tests(),
        sockets::tests(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
