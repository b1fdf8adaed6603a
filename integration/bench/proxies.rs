//! How each program between caller and plugin is started.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::error::BenchError;

/// A directory with one socket for every program, and the logs.
pub struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Result<Self, BenchError> {
        let directory = tempfile::tempdir()
            .map_err(|source| BenchError::Write { path: std::env::temp_dir(), source })?;
        Ok(Self { directory })
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn socket(&self, name: &str) -> PathBuf {
        self.file(&format!("{name}.sock"))
    }

    pub fn plugin_socket(&self) -> PathBuf {
        self.socket("plugin")
    }

    fn write(&self, name: &str, text: &str) -> Result<PathBuf, BenchError> {
        let path = self.file(name);
        fs::write(&path, text)
            .map_err(|source| BenchError::Write { path: path.clone(), source })?;
        Ok(path)
    }
}

pub fn plugin(place: &Place) -> Result<Command, BenchError> {
    let mut command = word("bench-plugin")?;
    command.arg("--socket").arg(place.plugin_socket());
    Ok(command)
}

pub fn copy(place: &Place) -> Result<Command, BenchError> {
    let mut command = word("bench-copy")?;
    command.arg("--listen").arg(place.socket("copy")).arg("--to").arg(place.plugin_socket());
    Ok(command)
}

/// The guard with its socket and its state under `name`.
pub fn guard(binary: &Path, place: &Place, name: &str) -> Command {
    let mut command = Command::new(binary);
    guard_words(&mut command, place, name);
    command
}

/// The guard, with every start of a program by it written to `trace`.
pub fn traced_guard(binary: &Path, place: &Place, name: &str, trace: &Path) -> Option<Command> {
    let mut command = Command::new(find("strace")?);
    command.args(["-f", "-qq", "-e", "trace=execve,execveat", "-e", "signal=none", "-o"]);
    command.arg(trace).arg(binary);
    guard_words(&mut command, place, name);
    Some(command)
}

fn guard_words(command: &mut Command, place: &Place, name: &str) {
    let address = |path: PathBuf| format!("unix://{}", path.display());
    command.args(["--endpoint", &address(place.socket(name))]);
    command.args(["--csi-address", &address(place.plugin_socket())]);
    // Any free port: two guards may run at once.
    command.args(["--http-endpoint", "127.0.0.1:0", "--log-level", "warn"]);
    command.arg("--state-dir").arg(place.file(&format!("{name}.state")));
    // The machine of the bench is no node of a cluster.
    command.env_remove("KUBERNETES_SERVICE_HOST");
}

pub fn nginx(place: &Place) -> Result<Command, BenchError> {
    let program = find("nginx").ok_or(BenchError::Missing { program: "nginx" })?;
    let directory = place.directory.path().display();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {directory}/nginx-temp;\n"))
        .concat();
    // The limits on requests per connection are lifted: every call of a kept connection counts.
    let config = format!(
        "daemon off;\nmaster_process off;\nworker_processes 1;\nuser root;\n\
         pid {directory}/nginx.pid;\nerror_log stderr warn;\n\
         events {{ worker_connections 256; }}\n\
         http {{\naccess_log off;\n{temporary}\
         upstream plugin {{ server unix:{plugin}; keepalive 8; keepalive_requests 100000000; }}\n\
         server {{\nlisten unix:{listen} http2;\nkeepalive_requests 100000000;\n\
         location / {{ grpc_pass grpc://plugin; }}\n}}\n}}\n",
        plugin = place.plugin_socket().display(),
        listen = place.socket("nginx").display(),
    );
    let mut command = Command::new(program);
    command.arg("-p").arg(place.directory.path()).args(["-e", "stderr"]);
    command.arg("-c").arg(place.write("nginx.conf", &config)?);
    Ok(command)
}

pub fn haproxy(place: &Place) -> Result<Command, BenchError> {
    let program = find("haproxy").ok_or(BenchError::Missing { program: "haproxy" })?;
    let config = format!(
        "global\n  nbthread 1\n  maxconn 256\n\
         defaults\n  mode http\n  http-reuse always\n\
         \x20 timeout connect 5s\n  timeout client 60s\n  timeout server 60s\n\
         frontend kubelet\n  bind unix@{listen} proto h2\n  default_backend plugin\n\
         backend plugin\n  server plugin unix@{plugin} proto h2\n",
        plugin = place.plugin_socket().display(),
        listen = place.socket("haproxy").display(),
    );
    let mut command = Command::new(program);
    command.arg("-db").arg("-f").arg(place.write("haproxy.conf", &config)?);
    Ok(command)
}

/// This binary, as one of its other programs.
fn word(word: &str) -> Result<Command, BenchError> {
    let own = std::env::current_exe()
        .map_err(|source| BenchError::Read { path: "/proc/self/exe".into(), source })?;
    let mut command = Command::new(own);
    command.arg(word);
    Ok(command)
}

/// Where `program` is installed: Debian keeps servers out of a user's path.
fn find(program: impl AsRef<OsStr>) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/usr/local/sbin", "/sbin"].map(PathBuf::from))
        .map(|directory| directory.join(program.as_ref()))
        .find(|candidate| candidate.is_file())
}
