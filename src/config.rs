//! What was typed ([`Args`]) and what it means ([`Config`]). The only reader of flags and
//! environment.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use clap::{Parser, ValueEnum};

use crate::volume::VolumeId;

/// A CSI node-plugin sidecar between kubelet and longhorn-csi-plugin.
#[derive(Debug, Parser)]
#[command(name = "mount-guard", version, about)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: ServeArgs,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Stand between kubelet and the plugin (the default).
    Serve(ServeArgs),
    /// Forget what a volume held: a blank device may then be formatted.
    Forget(VolumeArgs),
    /// Check a volume at its next mount, whatever its superblock says.
    Recheck(VolumeArgs),
}

#[derive(Debug, clap::Args)]
struct VolumeArgs {
    /// The volume's id: its name in Longhorn.
    #[arg(value_parser = parse_volume)]
    volume: VolumeId,
    /// The guard's state directory, as the guard sees it.
    #[arg(long, default_value = "/var/lib/mount-guard", value_parser = parse_dir)]
    state_dir: PathBuf,
}

/// What the command line asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    Serve(Config),
    ByHand(ByHand),
}

/// A command that is done and over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ByHand {
    Forget { volume: VolumeId, state_dir: PathBuf },
    Recheck { volume: VolumeId, state_dir: PathBuf },
}

#[derive(Debug, clap::Args)]
struct ServeArgs {
    /// Where kubelet calls.
    #[arg(long, default_value = "unix:///guard/csi.sock", value_parser = parse_socket)]
    endpoint: PathBuf,
    /// Where the plugin listens.
    #[arg(long, default_value = "unix:///csi/csi.sock", value_parser = parse_socket)]
    csi_address: PathBuf,
    /// The driver's name; another one on the plugin's socket is reported.
    #[arg(long, default_value = "driver.longhorn.io")]
    drivername: String,
    /// This node's name in Kubernetes.
    #[arg(long, env = "NODE_ID", default_value = "")]
    nodeid: String,
    /// Where `/healthz`, `/readyz`, `/metrics` and `/status` are served: `HOST:PORT` or `:PORT`.
    #[arg(long, default_value = ":9811", value_parser = parse_http_endpoint)]
    http_endpoint: SocketAddr,
    /// What has to outlive the process is kept here.
    #[arg(long, default_value = "/var/lib/mount-guard", value_parser = parse_dir)]
    state_dir: PathBuf,
    #[arg(long, value_enum, default_value_t = LogFormat::Json)]
    log_format: LogFormat,
    /// A level (`error`, `warn`, `info`, `debug`, `trace`), or `target=level` pairs with commas.
    #[arg(long, default_value = "info", value_parser = LogLevel::parse)]
    log_level: LogLevel,
}

/// The checked configuration of `serve`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The socket kubelet calls.
    pub endpoint: PathBuf,
    /// The plugin's socket.
    pub csi_address: PathBuf,
    pub driver_name: String,
    pub node_id: String,
    pub http_endpoint: SocketAddr,
    pub state_dir: PathBuf,
    pub log_format: LogFormat,
    pub log_level: LogLevel,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    Json,
    Text,
}

/// A log filter that parses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLevel(String);

impl LogLevel {
    /// # Errors
    /// Says what is wrong with `text`.
    pub fn parse(text: &str) -> Result<Self, String> {
        match tracing_subscriber::EnvFilter::try_new(text) {
            Ok(_) if !text.trim().is_empty() => Ok(Self(text.to_owned())),
            Ok(_) => Err("a level or target=level pairs".into()),
            Err(wrong) => Err(wrong.to_string()),
        }
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Order {
    /// Reads the command line; prints what is wrong with it and exits with 2, or prints the help
    /// that was asked for and exits with 0.
    #[must_use]
    pub fn from_command_line() -> Self {
        Args::parse().into()
    }
}

impl From<Args> for Order {
    fn from(args: Args) -> Self {
        match args.command {
            None => Self::Serve(args.serve.into()),
            Some(Command::Serve(serve)) => Self::Serve(serve.into()),
            Some(Command::Forget(VolumeArgs { volume, state_dir })) => {
                Self::ByHand(ByHand::Forget { volume, state_dir })
            }
            Some(Command::Recheck(VolumeArgs { volume, state_dir })) => {
                Self::ByHand(ByHand::Recheck { volume, state_dir })
            }
        }
    }
}

impl From<ServeArgs> for Config {
    fn from(serve: ServeArgs) -> Self {
        Self {
            endpoint: serve.endpoint,
            csi_address: serve.csi_address,
            driver_name: serve.drivername,
            node_id: serve.nodeid,
            http_endpoint: serve.http_endpoint,
            state_dir: serve.state_dir,
            log_format: serve.log_format,
            log_level: serve.log_level,
        }
    }
}

/// The longest path of a socket, in bytes: `sun_path` has 108 with its NUL (unix(7)).
const MAX_SOCKET_PATH_BYTES: usize = 107;

fn parse_socket(text: &str) -> Result<PathBuf, String> {
    let path = text.strip_prefix("unix://").or_else(|| text.strip_prefix("unix:")).unwrap_or(text);
    if path.len() > MAX_SOCKET_PATH_BYTES {
        return Err(format!("a socket path has at most {MAX_SOCKET_PATH_BYTES} bytes"));
    }
    parse_dir(path)
}

fn parse_volume(text: &str) -> Result<VolumeId, String> {
    VolumeId::parse(text).map_err(|_| "not a volume id".into())
}

fn parse_dir(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if path.is_absolute() { Ok(path) } else { Err("an absolute path is needed".into()) }
}

/// `:PORT` is every address of the pod, both families.
fn parse_http_endpoint(text: &str) -> Result<SocketAddr, String> {
    if let Some(port) = text.strip_prefix(':') {
        let port = port.parse().map_err(|_| format!("{port:?} is no port"))?;
        return Ok(SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port));
    }
    text.parse().map_err(|_| "HOST:PORT with a numeric host, or :PORT".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(args: &[&str]) -> Result<Order, clap::Error> {
        let words = std::iter::once("mount-guard").chain(args.iter().copied());
        Args::try_parse_from(words).map(Order::from)
    }

    fn parse(args: &[&str]) -> Result<Config, clap::Error> {
        order(args).map(|order| match order {
            Order::Serve(config) => config,
            Order::ByHand(command) => panic!("{command:?}"),
        })
    }

    #[test]
    fn a_command_names_a_volume() {
        let volume = VolumeId::parse("pvc-1").unwrap();
        let state_dir = PathBuf::from("/var/lib/mount-guard");
        let forget = Order::ByHand(ByHand::Forget { volume: volume.clone(), state_dir });
        assert_eq!(order(&["forget", "pvc-1"]).unwrap(), forget);
        let recheck = Order::ByHand(ByHand::Recheck { volume, state_dir: PathBuf::from("/s") });
        assert_eq!(order(&["recheck", "pvc-1", "--state-dir", "/s"]).unwrap(), recheck);
        for args in [&["forget"][..], &["forget", "../etc"], &["recheck", "a", "b"]] {
            assert_eq!(order(args).unwrap_err().exit_code(), 2, "{args:?}");
        }
    }

    #[test]
    fn the_defaults_are_the_designs() {
        let config = parse(&[]).unwrap();
        assert_eq!(config.endpoint, PathBuf::from("/guard/csi.sock"));
        assert_eq!(config.csi_address, PathBuf::from("/csi/csi.sock"));
        assert_eq!(config.driver_name, "driver.longhorn.io");
        assert_eq!(config.http_endpoint, "[::]:9811".parse().unwrap());
        assert_eq!(config.state_dir, PathBuf::from("/var/lib/mount-guard"));
        assert_eq!((config.log_format, config.log_level.as_str()), (LogFormat::Json, "info"));
    }

    #[test]
    fn serve_may_be_said_or_left_out() {
        let said = parse(&["serve", "--endpoint", "/x/s", "--http-endpoint", "127.0.0.1:1"]);
        let left_out = parse(&["--endpoint", "unix:///x/s", "--http-endpoint", "127.0.0.1:1"]);
        assert_eq!(said.unwrap(), left_out.unwrap());
    }

    #[test]
    fn what_does_not_parse_ends_the_process_with_2() {
        let long = format!("unix:///{}", "s".repeat(200));
        for args in [
            &["--endpoint", "relative.sock"][..],
            &["--endpoint", &long],
            &["--csi-address", "unix://relative"],
            &["--http-endpoint", ":http"],
            &["--http-endpoint", "localhost:1"],
            &["--log-level", "no=such=level"],
            &["--log-level", ""],
            &["--log-format", "xml"],
            &["--state-dir", "here"],
            &["--unknown"],
        ] {
            let wrong = parse(args).unwrap_err();
            assert_eq!(wrong.exit_code(), 2, "{args:?}");
        }
    }
}
