//! What a verdict on a healthy filesystem costs, on a loop device.

use std::time::{Duration, Instant};

use mount_guard::format::Content;

use super::image::{Image, MIB, look};
use super::loops::Loop;

pub fn tests() -> Vec<libtest_mimic::Trial> {
    crate::tests![loop_a_healthy_filesystem_costs_little, a_blank_volume_is_known_within_a_bound]
}

/// The best of many: what the code takes, not what the machine is doing beside it.
fn best(mut work: impl FnMut()) -> Duration {
    let once = |work: &mut dyn FnMut()| {
        let start = Instant::now();
        work();
        start.elapsed()
    };
    (0..1000).map(|_| once(&mut work)).min().unwrap()
}

fn loop_a_healthy_filesystem_costs_little() {
    for (line, budget, reads) in [
        ("mkfs.ext4 -qF -b 4096 -m0", Duration::from_micros(100), 1),
        ("mkfs.xfs -qf -ssize=4096 -bsize=4096", Duration::from_micros(200), 4),
    ] {
        let device = Loop::over(&Image::made(1024 * MIB, line));
        let (content, cost) = look(device.path());
        assert!(matches!(content, Content::Filesystem(_)));
        assert_eq!(cost.reads, reads, "{line}: {cost:?}");
        let took = best(|| drop(look(device.path())));
        println!("{line}: {took:?}, {cost:?}");
        assert!(took <= budget, "{line}: {took:?}, {cost:?}");
    }
}

fn a_blank_volume_is_known_within_a_bound() {
    let image = Image::new(1 << 40);
    let (_, cost) = look(&image.path());
    assert!(cost.reads < 350 && cost.bytes < 8 * MIB, "{cost:?}");
}
