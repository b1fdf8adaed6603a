//! Tools that misbehave.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use fuser::{Config, Filesystem, INodeNo, OpenFlags, ReplyOpen, Request, Session, SessionACL};
use mount_guard::facts::tool::{End, Progress, Why};
use mount_guard::host::tool::{Cancel, ProgressPipe, Tool, ToolError, ToolExit};

use super::disks::{Lab, path};

pub fn tests() -> Vec<libtest_mimic::Trial> {
    crate::tests![
        an_exit_and_a_signal_are_answers,
        a_tool_has_no_environment_and_no_descriptor_but_what_it_is_given,
        a_program_is_named_by_its_whole_path,
        a_flood_is_kept_at_both_ends_and_ended,
        a_grandchild_that_keeps_the_pipes_holds_nobody_up,
        a_tool_that_ignores_sigterm_dies_at_its_deadline,
        a_raised_signal_ends_a_tool_at_once,
        loop_the_steps_of_e2fsck_are_seen,
        loop_a_tool_that_cannot_be_killed_is_left_to_itself,
    ]
}

const LONG: Duration = Duration::from_secs(60);

/// Far more than anything here takes, and far less than [`LONG`].
const SOON: Duration = Duration::from_secs(20);

fn run(tool: Tool) -> ToolExit {
    let begun = Instant::now();
    let exit = tool.run(&[]).unwrap();
    assert!(begun.elapsed() < SOON, "{exit:?}");
    exit
}

fn shell(script: &str) -> Tool {
    Tool::new("/bin/sh", LONG).arg("-c").arg(script)
}

fn an_exit_and_a_signal_are_answers() {
    let exit = run(shell("echo out; echo err >&2; exit 4"));
    assert_eq!(exit.end, End::Exited(4));
    assert_eq!((exit.stdout.text(), exit.stderr.text()), ("out\n".into(), "err\n".into()));
    assert_eq!(run(shell("kill -SEGV $$")).end, End::Signalled(11));
}

fn a_tool_has_no_environment_and_no_descriptor_but_what_it_is_given() {
    let exit = run(Tool::new("/usr/bin/env", LONG));
    let text = exit.stdout.text();
    let mut names: Vec<&str> = text.lines().map(|line| line.split('=').next().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["LC_ALL", "PATH"]);

    // A descriptor as a careless C library leaves it: open across exec.
    let leaked = rustix::fs::open("/", rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty());
    let leaked = leaked.unwrap();
    let given: OwnedFd = std::fs::File::open("/dev/null").unwrap().into();
    let number = given.as_raw_fd();
    let exit = run(Tool::new("/bin/ls", LONG).arg("/proc/self/fd").keep(number));
    let text = exit.stdout.text();
    let mut seen: Vec<i32> = text.lines().map(|line| line.parse().unwrap()).collect();
    // One of them is ls reading the directory, under the lowest number that is free.
    seen.retain(|fd| *fd > 2 && *fd != number);
    assert_eq!(seen.len(), 1, "{text}");
    assert!(text.lines().any(|line| line == number.to_string()));
    drop(leaked);
}

fn a_program_is_named_by_its_whole_path() {
    let relative = Tool::new("sh", LONG).run(&[]);
    assert!(matches!(relative, Err(ToolError::Relative { .. })));
    let missing = Tool::new("/nowhere/e2fsck", LONG).run(&[]);
    let Err(ToolError::Start { program, source }) = missing else { panic!("{missing:?}") };
    assert_eq!(program, Path::new("/nowhere/e2fsck"));
    assert_eq!(source.kind(), std::io::ErrorKind::NotFound);
}

fn a_flood_is_kept_at_both_ends_and_ended() {
    let exit = run(Tool::new("/usr/bin/yes", LONG).output_limit_bytes(8 << 20));
    assert_eq!(exit.end, End::Killed(Why::Flood));
    assert!(exit.stdout.seen_bytes() > 8 << 20 && exit.stdout.seen_bytes() < 16 << 20);
    assert!(exit.stdout.text().len() < (1 << 20) + 100);
}

fn a_grandchild_that_keeps_the_pipes_holds_nobody_up() {
    let exit = run(shell("sleep 50 & echo $!; exit 0"));
    assert_eq!(exit.end, End::Exited(0));
    wait_until_gone(exit.stdout.text().trim());
    // One that left the group lives on; the runner does not wait for it.
    let exit = run(shell("setsid sleep 50 & echo $!; sleep 0.3; exit 0"));
    assert_eq!(exit.end, End::Exited(0));
    let pid = exit.stdout.text().trim().parse().unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

fn a_tool_that_ignores_sigterm_dies_at_its_deadline() {
    let script = "trap '' TERM INT HUP; sleep 50 & echo $!; while :; do sleep 1; done";
    let tool = Tool::new("/bin/sh", Duration::from_millis(500)).arg("-c").arg(script);
    let exit = run(tool);
    assert_eq!(exit.end, End::Killed(Why::Deadline));
    wait_until_gone(exit.stdout.text().trim());
}

fn a_raised_signal_ends_a_tool_at_once() {
    let cancel = Cancel::new().unwrap();
    let waiting = cancel.on_drop();
    let tool = thread::spawn(move || {
        let exit = shell("sleep 50").run(&[&cancel]).unwrap();
        (exit.end, exit.took)
    });
    thread::sleep(Duration::from_millis(200));
    drop(waiting);
    let (end, took) = tool.join().unwrap();
    assert_eq!(end, End::Killed(Why::Cancelled));
    assert!(took < SOON);
}

fn loop_the_steps_of_e2fsck_are_seen() {
    let lab = Lab::with_ext4();
    let (latest, seen) = tokio::sync::watch::channel(None);
    let pipe = ProgressPipe::new(latest).unwrap();
    let tool = Tool::new("/sbin/e2fsck", LONG).args(["-f", "-n", "-C"]);
    let tool = tool.arg(pipe.number().to_string()).arg(lab.disk()).progress(pipe);
    assert_eq!(run(tool).end, End::Exited(0));
    assert_eq!(*seen.borrow(), Some(Progress { pass: 5, percent: 100 }));
}

/// A filesystem that takes an open and never answers it: its caller sleeps in state D, whatever
/// signal it gets.
struct Silent(Mutex<Vec<ReplyOpen>>);

impl Filesystem for Silent {
    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        self.0.lock().unwrap().push(reply);
    }
}

fn loop_a_tool_that_cannot_be_killed_is_left_to_itself() {
    let lab = Lab::new();
    let device = std::fs::File::options().read(true).write(true).open("/dev/fuse").unwrap();
    let options = format!("fd={},rootmode=100000,user_id=0,group_id=0", device.as_raw_fd());
    let options = std::ffi::CString::new(options).unwrap();
    let file = lab.path("silent");
    std::fs::write(&file, "").unwrap();
    let flags = rustix::mount::MountFlags::empty();
    rustix::mount::mount("silent", &file, "fuse", flags, options.as_c_str()).unwrap();
    let silent = Silent(Mutex::default());
    let session = Session::from_fd(silent, device.into(), SessionACL::All, Config::default());
    let serving = session.unwrap().spawn().unwrap();
    let tool = Tool::new("/bin/cat", Duration::from_millis(500)).arg(path(&file));
    let exit = run(tool.grace(Duration::from_millis(500)));
    let End::Stuck { pid, why: Why::Deadline } = exit.end else { panic!("{exit:?}") };
    assert!(Path::new(&format!("/proc/{pid}")).exists());
    // The connection ends, the wait ends, and somebody reaps it.
    // "Busy" or not: with -f the connection is cut (umount2(2), MNT_FORCE).
    std::process::Command::new("/bin/umount").arg("-f").arg(&file).output().unwrap();
    wait_until_gone(&pid.to_string());
    drop(serving);
}

fn wait_until_gone(pid: &str) {
    let begun = Instant::now();
    while Path::new(&format!("/proc/{pid}")).exists() {
        assert!(begun.elapsed() < SOON, "{pid} is still there");
        thread::sleep(Duration::from_millis(10));
    }
}
