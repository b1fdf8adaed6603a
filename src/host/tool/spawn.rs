//! A child that starts from nothing: its own group, no environment, no descriptors but those given.

use std::ffi::OsString;
use std::io;
use std::os::fd::RawFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::host::descriptors::lock_copies;

/// The highest descriptor closed one by one on kernels without `CLOSE_RANGE_CLOEXEC` (5.11).
///
/// Everything Rust opens closes itself on exec; this catches what a C library left open. 65536 is
/// more than the guard ever holds.
const LAST_DESCRIPTOR: RawFd = 65_536;

/// Starts `program` with `args`, `environment` and the descriptors `kept`, which keep their
/// numbers. It dies with the thread that started it.
pub(super) fn spawn(
    program: &Path,
    args: &[OsString],
    environment: &[(OsString, OsString)],
    kept: &[RawFd],
) -> io::Result<Child> {
    let kept = kept.to_vec();
    let parent = std::process::id().cast_signed();
    let mut command = Command::new(program);
    command
        .args(args)
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("LC_ALL", "C")
        .envs(environment.iter().cloned())
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    // SAFETY: the closure runs in the child between fork and exec, where only async-signal-safe
    // calls are allowed. It makes system calls through libc and allocates nothing; `kept` was
    // allocated before the fork.
    unsafe { command.pre_exec(move || prepare(parent, &kept)) };
    // It returns once the child has exec'd: the copies are gone then.
    let _copies = lock_copies();
    command.spawn()
}

fn prepare(parent: libc::pid_t, kept: &[RawFd]) -> io::Result<()> {
    // SAFETY: these calls take integers only; none touches memory of ours.
    unsafe {
        if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
            return Err(io::Error::last_os_error());
        }
        // The parent may have died before the line above: then nobody would end this child.
        if libc::getppid() != parent {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        let flags = libc::CLOSE_RANGE_CLOEXEC;
        if libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, flags) != 0 {
            for fd in 3..LAST_DESCRIPTOR {
                libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC);
            }
        }
        for &fd in kept {
            if libc::fcntl(fd, libc::F_SETFD, 0) != 0 {
                return Err(io::Error::last_os_error());
            }
        }
    }
    Ok(())
}
