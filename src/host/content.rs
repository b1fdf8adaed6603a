//! Bytes of a device, past every cache: what the page cache remembers is not what is on a disk.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use nix::errno::Errno as Number;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, pread};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::HostError;
use super::device::check_number;
use super::threads::Threads;
use crate::facts::bytes::{ByteRange, DeviceBytes, Failure, Outcome};
use crate::volume::DevNumber;

/// How long one read may take.
///
/// A healthy volume answers in milliseconds, one whose replicas are slow in a second. An engine
/// that is away answers after 120 s or never, and half of it would call a busy one away.
pub(super) const READ_DEADLINE: Duration = Duration::from_secs(5);

/// What reads past the cache have to be aligned to, in bytes: no block of a disk is larger.
const ALIGN_BYTES: u64 = 4096;

/// What the thread that reads tells of one range.
type Told = Result<Outcome, HostError>;

/// Reads `ranges` one after the other. What is late counts as ETIMEDOUT, and so does all behind
/// it: a device that is silent is not asked again.
///
/// # Errors
/// [`HostError::Changed`] if another device is behind `path` by now. That a device cannot be
/// opened or read is no error but an outcome.
pub(super) async fn read(
    threads: &Threads,
    deadline: Duration,
    (path, number): (&Path, DevNumber),
    ranges: &[ByteRange],
    bytes: &mut DeviceBytes,
) -> Result<(), HostError> {
    // One at a time: the deadline is for the read that is waited for.
    let (sender, mut told) = mpsc::channel(1);
    let (device, wanted) = (path.to_owned(), ranges.to_vec());
    threads.spawn(path, move || read_all(&device, number, &wanted, &sender))?;
    collect(deadline, ranges, &mut told, bytes).await
}

async fn collect(
    deadline: Duration,
    ranges: &[ByteRange],
    told: &mut mpsc::Receiver<Told>,
    bytes: &mut DeviceBytes,
) -> Result<(), HostError> {
    let mut silent = false;
    for range in ranges {
        let outcome = if silent { None } else { timeout(deadline, told.recv()).await.ok() };
        silent = outcome.is_none();
        let outcome = match outcome {
            Some(told) => told.expect("a thread tells of every range")?,
            None => Outcome::Failed(Failure::Errno(Number::ETIMEDOUT)),
        };
        bytes.put(*range, outcome);
    }
    Ok(())
}

fn read_all(path: &Path, number: DevNumber, ranges: &[ByteRange], told: &mpsc::Sender<Told>) {
    let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let opened = open(path, flags, Mode::empty());
    if let Ok(Err(changed)) = opened.as_ref().map(|fd| check_number(path, fd, number)) {
        let _ = told.blocking_send(Err(changed));
        return;
    }
    for range in ranges {
        let outcome = match &opened {
            Ok(fd) => read_range(fd, *range),
            Err(errno) => failed(*errno),
        };
        // Whoever no longer listens was told that it took too long.
        if told.blocking_send(Ok(outcome)).is_err() {
            return;
        }
    }
}

/// The bytes of `range`, and as few as there are.
fn read_range(fd: &OwnedFd, range: ByteRange) -> Outcome {
    let start = range.offset_bytes / ALIGN_BYTES * ALIGN_BYTES;
    let end = range.end_bytes().div_ceil(ALIGN_BYTES).saturating_mul(ALIGN_BYTES);
    let (Ok(len), Ok(skipped)) =
        (usize::try_from(end - start), usize::try_from(range.offset_bytes - start))
    else {
        return failed(Errno::INVAL);
    };
    let mut memory = vec![0_u8; len + ALIGN_BYTES as usize];
    let at = memory.as_ptr().align_offset(ALIGN_BYTES as usize);
    let buffer = &mut memory[at..at + len];
    let mut came = 0;
    while came < len {
        match pread(fd, &mut buffer[came..], start + came as u64) {
            Ok(0) => break,
            Ok(more) => came += more,
            Err(Errno::INTR) => {}
            // An end of the device that is not aligned: what is behind it cannot be asked for.
            Err(Errno::INVAL) if came > 0 => break,
            Err(errno) => return failed(errno),
        }
    }
    let wanted = usize::try_from(range.len_bytes).unwrap_or(usize::MAX);
    let read = buffer.get(skipped..came).unwrap_or_default();
    Outcome::Bytes(read[..read.len().min(wanted)].to_vec())
}

fn failed(errno: Errno) -> Outcome {
    Outcome::Failed(Failure::Errno(Number::from_raw(errno.raw_os_error())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::bytes::Read;

    #[tokio::test(start_paused = true)]
    async fn a_device_that_falls_silent_is_not_asked_again() {
        let ranges = [0, 4096, 8192].map(|at| ByteRange::new(at, 4096));
        let (tells, mut told) = mpsc::channel(1);
        tells.send(Ok(Outcome::Bytes(vec![7; 4096]))).await.unwrap();
        let mut bytes = DeviceBytes::new(1 << 20);
        let start = tokio::time::Instant::now();
        collect(READ_DEADLINE, &ranges, &mut told, &mut bytes).await.unwrap();
        assert_eq!(start.elapsed(), READ_DEADLINE);
        assert_eq!(bytes.at(0, 4096), Read::Bytes(&[7; 4096]));
        for offset_bytes in [4096, 8192] {
            let failure = Failure::Errno(Number::ETIMEDOUT);
            assert_eq!(bytes.at(offset_bytes, 1), Read::Failed { failure, offset_bytes });
        }
    }
}
