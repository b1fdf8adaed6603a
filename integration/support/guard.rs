//! The guard as a process: the real binary, in front of the plugin stand-in.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use http::HeaderMap;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use super::plugin::Plugin;
use super::rpc::{Answer, call_once};
use super::scene::{Scene, wait_for};

/// A running guard, killed when dropped. Its socket, state and log are in a directory of its own.
#[derive(Debug)]
pub struct Guard {
    dir: TempDir,
    plugin: PathBuf,
    port: u16,
    log_level: &'static str,
    /// Flags beyond those of every guard.
    flags: Vec<String>,
    /// What is mounted over the node's own, in a namespace of the guard's.
    hidden: Option<(PathBuf, &'static str)>,
    child: Option<Child>,
}

impl Guard {
    /// Starts in front of `plugin`, and waits until it listens.
    pub fn before(plugin: &Plugin) -> Self {
        let mut guard = Self::idle(plugin.socket());
        guard.start();
        guard.wait_until_it_listens();
        guard
    }

    /// Starts on a scene's node: it sees the devices of the volumes there.
    pub fn on(scene: &Scene, flags: &[&str]) -> Self {
        let mut guard = Self::idle(scene.plugin.socket());
        let devices = scene.devices().join("{volume_id}");
        guard.add_flags(&["--device-path", devices.to_str().expect("a path of the test's own")]);
        guard.add_flags(flags);
        guard.start();
        guard.wait_until_it_listens();
        guard
    }

    /// The same, in a mount namespace in which `with` lies over `hidden`. It sees only what is
    /// mounted in the scene's shared directory.
    pub fn on_with(scene: &mut Scene, flags: &[&str], with: &Path, hidden: &'static str) -> Self {
        scene.share();
        let mut guard = Self::idle(scene.plugin.socket());
        let devices = scene.devices().join("{volume_id}");
        guard.add_flags(&["--device-path", devices.to_str().expect("a path of the test's own")]);
        guard.add_flags(flags);
        guard.hidden = Some((with.to_owned(), hidden));
        guard.start();
        guard.wait_until_it_listens();
        guard
    }

    /// Not started yet, in front of whoever will listen on `plugin`.
    pub fn idle(plugin: &Path) -> Self {
        let dir = tempfile::tempdir().expect("a directory for the guard");
        // A port that was free a moment ago is as good as can be had.
        let port = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
        let port = port.expect("a free port").port();
        Self {
            dir,
            plugin: plugin.to_owned(),
            port,
            log_level: "info",
            flags: Vec::new(),
            hidden: None,
            child: None,
        }
    }

    pub fn set_log_level(&mut self, log_level: &'static str) {
        self.log_level = log_level;
    }

    pub fn add_flags(&mut self, flags: &[&str]) {
        self.flags.extend(flags.iter().map(|flag| (*flag).to_owned()));
    }

    pub fn start(&mut self) {
        assert!(self.child.is_none(), "it runs already");
        self.child = Some(self.command(self.socket()).spawn().expect("the guard starts"));
    }

    /// The command of a guard that listens on `socket`.
    pub fn command(&self, socket: PathBuf) -> Command {
        let log = File::options().create(true).append(true).open(self.log_path());
        let log = log.expect("the log file");
        let program = env!("CARGO_BIN_EXE_mount-guard");
        let mut command = match &self.hidden {
            None => Command::new(program),
            Some((with, hidden)) => {
                let script = "mount --bind \"$0\" \"$1\" && shift && exec \"$@\"";
                let mut command = Command::new("unshare");
                command.args(["--mount", "--propagation", "slave", "sh", "-c", script]);
                command.arg(with).args([hidden, program]);
                command
            }
        };
        command
            .arg("--endpoint")
            .arg(socket)
            .arg("--csi-address")
            .arg(&self.plugin)
            .args(["--http-endpoint", &format!("127.0.0.1:{}", self.port)])
            .arg("--state-dir")
            .arg(self.state_dir())
            .args(["--log-level", self.log_level])
            .args(["--host-proc", "/proc"])
            .args(&self.flags)
            .stdin(Stdio::null())
            .stderr(log.try_clone().expect("the log file"))
            .stdout(log);
        command
    }

    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("csi.sock")
    }

    /// One call on a connection of its own, without metadata.
    ///
    /// # Errors
    /// Where nobody listens.
    pub async fn ask(&self, path: &str, message: &[u8]) -> std::io::Result<Answer> {
        call_once(&self.socket(), path, &HeaderMap::new(), message).await
    }

    pub fn state_dir(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    pub fn http_port(&self) -> u16 {
        self.port
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    pub fn pid(&self) -> Pid {
        let child = self.child.as_ref().expect("it runs");
        Pid::from_raw(child.id().try_into().expect("a pid"))
    }

    pub fn wait_until_it_listens(&self) {
        wait_for("the guard listens", || {
            std::os::unix::net::UnixStream::connect(self.socket()).is_ok()
        });
    }

    /// SIGKILL, and the end of it.
    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("it runs");
        child.kill().expect("it can be killed");
        child.wait().expect("it ends");
    }

    /// SIGTERM.
    pub fn terminate(&self) {
        kill(self.pid(), Signal::SIGTERM).expect("it can be told to stop");
    }

    /// Waits until it has ended by itself.
    pub fn wait_for_its_end(&mut self) -> ExitStatus {
        let mut child = self.child.take().expect("it runs");
        child.wait().expect("it ends")
    }

    pub fn restart(&mut self) {
        self.kill();
        self.start();
        self.wait_until_it_listens();
    }

    /// Waits until it has noticed that the plugin's connections are gone: a call that comes in the
    /// same moment is cut off with them, as it would be without a guard.
    pub fn wait_until_it_misses_the_plugin(&self) {
        // A fork of another test holds the plugin's socket open until it executes its tool.
        wait_for("nobody listens", || {
            std::os::unix::net::UnixStream::connect(&self.plugin).is_err()
        });
        let none = "mount_guard_plugin_connections 0";
        wait_for("the guard notices", || {
            self.get("/metrics").is_ok_and(|(_, metrics)| metrics.lines().any(|line| line == none))
        });
    }

    /// GETs `path` from the HTTP endpoint: the status and the body.
    pub fn get(&self, path: &str) -> std::io::Result<(u16, String)> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: guard\r\nConnection: close\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        Ok((status.unwrap_or_default(), body.to_owned()))
    }

    fn log_path(&self) -> PathBuf {
        self.dir.path().join("log")
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::thread::panicking() {
            eprintln!("the guard's log:\n{}", self.log());
        }
    }
}
