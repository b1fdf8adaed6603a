//! Tests of the kit itself: a stand-in that nobody checks lies.

mod devices;
mod echo;
mod encrypted;
mod fault;
mod harm;
mod kubelet;
mod publish;
mod socket;
mod stage;

pub fn tests() -> Vec<libtest_mimic::Trial> {
    [
        devices::tests(),
        echo::tests(),
        encrypted::tests(),
        fault::tests(),
        harm::tests(),
        kubelet::tests(),
        publish::tests(),
        socket::tests(),
        stage::tests(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
