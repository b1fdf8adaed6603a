//! The fault disk fails as it is told to, and only then.

use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::time::{Duration, Instant};

use nix::libc::O_DIRECT;

use crate::support::disk::MIB;
use crate::support::fault::{Direction, Fault, FaultDisk};

pub fn tests() -> Vec<libtest_mimic::Trial> {
    crate::tests![
        loop_a_healthy_fault_disk_is_a_disk,
        loop_reads_fail_while_writes_land,
        loop_zeros_go_away_by_themselves,
        loop_a_short_read_is_an_error_to_the_reader,
        loop_a_delay_delays_and_a_freeze_waits,
        loop_a_vanished_write_is_acknowledged,
        loop_a_range_fails_and_the_rest_does_not,
    ]
}

const BLOCK: usize = 4096;

/// Aligned as O_DIRECT wants it.
#[repr(align(4096))]
struct Block([u8; BLOCK]);

struct Made {
    disk: FaultDisk,
    image: tempfile::NamedTempFile,
}

fn made() -> Made {
    let image = tempfile::NamedTempFile::new().unwrap();
    image.as_file().set_len(8 * MIB).unwrap();
    image.as_file().write_all_at(&[7; BLOCK], 0).unwrap();
    image.as_file().write_all_at(&[9; BLOCK], MIB).unwrap();
    Made { disk: FaultDisk::over(image.path()), image }
}

fn open(disk: &FaultDisk) -> File {
    File::options().read(true).write(true).custom_flags(O_DIRECT).open(disk.device()).unwrap()
}

fn read(disk: &FaultDisk, offset: u64) -> std::io::Result<u8> {
    let mut block = Block([0xff; BLOCK]);
    open(disk).read_exact_at(&mut block.0, offset)?;
    assert!(block.0.iter().all(|byte| *byte == block.0[0]));
    Ok(block.0[0])
}

fn write(disk: &FaultDisk, value: u8, offset: u64) -> std::io::Result<()> {
    open(disk).write_all_at(&Block([value; BLOCK]).0, offset)
}

fn loop_a_healthy_fault_disk_is_a_disk() {
    let it = made();
    assert_eq!(read(&it.disk, 0).unwrap(), 7);
    write(&it.disk, 3, 0).unwrap();
    assert_eq!(read(&it.disk, 0).unwrap(), 3);
    let mut there = [0; BLOCK];
    it.image.as_file().read_exact_at(&mut there, 0).unwrap();
    assert_eq!(there, [3; BLOCK]);
}

fn loop_reads_fail_while_writes_land() {
    let it = made();
    it.disk.fail(0..u64::MAX, Direction::Read, Fault::Errno(nix::libc::EIO));
    assert_eq!(read(&it.disk, 0).unwrap_err().raw_os_error(), Some(nix::libc::EIO));
    write(&it.disk, 5, 0).unwrap();
    it.disk.heal();
    assert_eq!(read(&it.disk, 0).unwrap(), 5);
}

fn loop_zeros_go_away_by_themselves() {
    let it = made();
    it.disk.fail_for(Duration::from_millis(700), 0..u64::MAX, Direction::Read, Fault::Zeros);
    assert_eq!(read(&it.disk, 0).unwrap(), 0);
    std::thread::sleep(Duration::from_millis(800));
    assert_eq!(read(&it.disk, 0).unwrap(), 7);
}

fn loop_a_short_read_is_an_error_to_the_reader() {
    let it = made();
    it.disk.fail(0..u64::MAX, Direction::Read, Fault::Short);
    assert!(read(&it.disk, 0).is_err());
}

fn loop_a_delay_delays_and_a_freeze_waits() {
    let it = made();
    it.disk.fail(0..u64::MAX, Direction::Both, Fault::Delay(Duration::from_millis(300)));
    let start = Instant::now();
    assert_eq!(read(&it.disk, 0).unwrap(), 7);
    assert!(start.elapsed() >= Duration::from_millis(300));
    it.disk.heal();
    it.disk.freeze();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| read(&it.disk, MIB));
        std::thread::sleep(Duration::from_millis(300));
        assert!(!reader.is_finished());
        it.disk.thaw();
        assert_eq!(reader.join().unwrap().unwrap(), 9);
    });
}

fn loop_a_vanished_write_is_acknowledged() {
    let it = made();
    it.disk.fail(0..u64::MAX, Direction::Write, Fault::Vanish);
    write(&it.disk, 1, 0).unwrap();
    assert_eq!(read(&it.disk, 0).unwrap(), 7);
    assert!(it.disk.writes() > 0);
}

fn loop_a_range_fails_and_the_rest_does_not() {
    let it = made();
    it.disk.fail(MIB..MIB + 4096, Direction::Read, Fault::Errno(nix::libc::ENODATA));
    assert_eq!(read(&it.disk, 0).unwrap(), 7);
    assert!(read(&it.disk, MIB).is_err());
}
