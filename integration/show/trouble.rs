//! Devices in trouble: silent, lying, taken, or not what was asked for.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;

use nix::libc::O_EXCL;

use super::{Stage, text};
use crate::support::disk::LoopDisk;
use crate::support::fault::{Direction, Fault, FaultDisk};

const CONTENT: &[(&str, &[u8])] = &[("data", b"of the database")];

/// A scene whose disk fails as it is told to.
fn set(flags: &[&str]) -> (FaultDisk, Stage) {
    let disk = LoopDisk::with_filesystem("ext4", CONTENT);
    let fault = FaultDisk::over(disk.image());
    let stage = Stage::with(disk, "ext4", flags);
    stage.scene.use_device(fault.device());
    (fault, stage)
}

fn data(stage: &Stage) -> Option<Vec<u8>> {
    std::fs::read(stage.scene.staging().join("data")).ok()
}

pub(super) fn zeros_for_three_seconds() -> Result<String, String> {
    let (fault, stage) = set(&["--format-settle", "5s"]);
    fault.fail_for(Duration::from_secs(3), 0..u64::MAX, Direction::Read, Fault::Zeros);
    println!("  (for three seconds the engine serves nothing but zeros)");
    stage.stage_with_retries().map_err(text)?;
    let data = data(&stage);
    stage.end()?;
    match data.as_deref() {
        Some(b"of the database") => Ok("watched, recognised, mounted; no mkfs".into()),
        other => Err(format!("the file reads {other:?}")),
    }
}

pub(super) fn reads_fail_while_writes_land() -> Result<String, String> {
    let (fault, stage) = set(&[]);
    fault.fail(0..u64::MAX, Direction::Read, Fault::Errno(5));
    let first = stage.stage();
    let writes = fault.writes();
    fault.heal();
    println!("  (the engine is healthy again)");
    stage.stage_with_retries().map_err(text)?;
    let data = data(&stage);
    stage.end()?;
    match (first.is_err(), writes, data.as_deref()) {
        (true, 0, Some(b"of the database")) => Ok("not formatted, not written: it waits".into()),
        other => Err(format!("refused, writes, data: {other:?}")),
    }
}

pub(super) fn a_busy_device() -> Result<String, String> {
    let disk = LoopDisk::with_filesystem("ext4", CONTENT);
    let stage = Stage::with(disk, "ext4", &[]);
    let hold = File::options().read(true).custom_flags(O_EXCL).open(stage.scene.disk.device());
    let hold = hold.map_err(|error| error.to_string())?;
    let refused = stage.stage();
    drop(hold);
    stage.stage_with_retries().map_err(text)?;
    stage.end()?;
    match refused {
        Err(status) if status.message().contains("integration") => {
            Ok("refused, naming the process that holds it; staged once it let go".into())
        }
        other => Err(format!("{other:?}")),
    }
}

pub(super) fn the_wrong_type() -> Result<String, String> {
    let disk = LoopDisk::with_filesystem("xfs", CONTENT);
    let before = disk.hash();
    let stage = Stage::with(disk, "ext4", &[]);
    let refused = stage.stage().is_err();
    match (refused, stage.scene.disk.hash() == before) {
        (true, true) => Ok("refused with both names, untouched".into()),
        other => Err(format!("refused, untouched: {other:?}")),
    }
}
