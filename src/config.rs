//! What was typed ([`Args`]) and what it means ([`Config`]). The only reader of flags and
//! environment.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};

use crate::claims::Multipath;
use crate::format;
use crate::fsck;
use crate::volume::{DevicePath, FsType, VolumeId};

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
    /// Say whether a device, or an image of one, may be mounted, and mend it if told to.
    Check(CheckArgs),
    /// Put the old blocks of a repair back, if nothing was written since.
    Undo(UndoArgs),
    /// Give up what a volume holds: unless that is a whole filesystem, it may then be formatted.
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

#[derive(Debug, clap::Args)]
struct CheckArgs {
    /// A block device, or a file that holds a filesystem.
    device: PathBuf,
    /// Write to the device what `--fsck` allows; without it nothing is written.
    #[arg(long)]
    repair: bool,
    /// How far to go: `check`, `preen` or `repair` [default: preen, with --repair repair].
    #[arg(long, value_parser = parse_fsck)]
    fsck: Option<fsck::Mode>,
    /// The filesystem that should be on it; any, if none is named.
    #[arg(long, value_parser = parse_fs_type)]
    fs_type: Option<FsType>,
    #[arg(long, value_enum, default_value_t = CheckFormat::Text)]
    format: CheckFormat,
    #[command(flatten)]
    common: DeviceArgs,
}

#[derive(Debug, clap::Args)]
struct UndoArgs {
    /// A file as `check` and the log name it, or its name in the state directory.
    record: PathBuf,
    /// Where the volume's device is now, if not where `--device-path` says.
    #[arg(long)]
    device: Option<PathBuf>,
    #[command(flatten)]
    common: DeviceArgs,
}

/// Where things are, for everybody who looks at devices.
#[derive(Debug, clap::Args)]
struct DeviceArgs {
    /// Where a volume's device is; `{volume_id}` stands for its id.
    #[arg(long, default_value = "/dev/longhorn/{volume_id}", value_parser = parse_device_path)]
    device_path: DevicePath,
    /// The node's /proc, as the guard sees it.
    #[arg(long, default_value = "/host/proc", value_parser = parse_dir)]
    host_proc: PathBuf,
    /// The node's /sys, as the guard sees it.
    #[arg(long, default_value = "/sys", value_parser = parse_dir)]
    host_sys: PathBuf,
    /// What is kept of a repair: `undo`, `snapshot` or `none`.
    #[arg(long, default_value = "undo", value_parser = parse_backup)]
    repair_backup: fsck::Backup,
    /// What has to outlive the process is kept here.
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
    Check(Check),
    /// `device` is told only where it is not where the volume's should be.
    Undo {
        record: PathBuf,
        device: Option<PathBuf>,
        places: Places,
    },
    Forget {
        volume: VolumeId,
        state_dir: PathBuf,
    },
    Recheck {
        volume: VolumeId,
        state_dir: PathBuf,
    },
}

/// A look at one device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    pub device: PathBuf,
    pub applies: bool,
    pub fsck: fsck::Mode,
    pub repair_backup: fsck::Backup,
    pub fs_type: Option<FsType>,
    pub format: CheckFormat,
    pub places: Places,
}

/// Where the node shows itself, and where the guard keeps things.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    pub device_path: DevicePath,
    pub host_proc: PathBuf,
    pub host_sys: PathBuf,
    pub state_dir: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CheckFormat {
    Text,
    Json,
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
    /// What to do about a filesystem that is not clean: `off`, `check` (look, never write),
    /// `preen` (what a boot does) or `repair`. A StorageClass parameter or PV attribute
    /// `mount-guard/fsck` goes before.
    #[arg(long, default_value = "preen", value_parser = parse_fsck)]
    fsck: fsck::Mode,
    /// Whether devices that may hold data are kept from being formatted: `off`, `report`,
    /// `enforce`.
    #[arg(long, default_value = "enforce", value_parser = parse_format_guard)]
    format_guard: format::Mode,
    /// How long a blank device is watched before it is believed.
    #[arg(long, default_value = "5s", value_parser = humantime::parse_duration)]
    format_settle: Duration,
    /// What to do about a device that multipath holds: `off`, `report`, `refuse`.
    #[arg(long, default_value = "refuse", value_parser = parse_multipath)]
    multipath: Multipath,
    /// Judge and report everything; refuse nothing, change nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    common: DeviceArgs,
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
    pub fsck: fsck::Mode,
    pub repair_backup: fsck::Backup,
    pub format_guard: format::Mode,
    pub format_settle: Duration,
    pub multipath: Multipath,
    pub dry_run: bool,
    pub places: Places,
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
            Some(Command::Check(args)) => Self::ByHand(ByHand::Check(args.into())),
            Some(Command::Undo(UndoArgs { record, device, common })) => {
                Self::ByHand(ByHand::Undo { record, device, places: common.into() })
            }
            Some(Command::Forget(VolumeArgs { volume, state_dir })) => {
                Self::ByHand(ByHand::Forget { volume, state_dir })
            }
            Some(Command::Recheck(VolumeArgs { volume, state_dir })) => {
                Self::ByHand(ByHand::Recheck { volume, state_dir })
            }
        }
    }
}

impl From<DeviceArgs> for Places {
    fn from(args: DeviceArgs) -> Self {
        let DeviceArgs { device_path, host_proc, host_sys, state_dir, repair_backup: _ } = args;
        Self { device_path, host_proc, host_sys, state_dir }
    }
}

impl From<CheckArgs> for Check {
    fn from(args: CheckArgs) -> Self {
        let by_default = if args.repair { fsck::Mode::Repair } else { fsck::Mode::Preen };
        Self {
            device: args.device,
            applies: args.repair,
            fsck: args.fsck.unwrap_or(by_default),
            repair_backup: args.common.repair_backup,
            fs_type: args.fs_type,
            format: args.format,
            places: args.common.into(),
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
            fsck: serve.fsck,
            repair_backup: serve.common.repair_backup,
            format_guard: serve.format_guard,
            format_settle: serve.format_settle,
            multipath: serve.multipath,
            dry_run: serve.dry_run,
            places: serve.common.into(),
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

fn parse_fsck(text: &str) -> Result<fsck::Mode, String> {
    fsck::Mode::parse(text).ok_or_else(|| "off, check, preen or repair".into())
}

fn parse_backup(text: &str) -> Result<fsck::Backup, String> {
    fsck::Backup::parse(text).ok_or_else(|| "undo, snapshot or none".into())
}

fn parse_format_guard(text: &str) -> Result<format::Mode, String> {
    format::Mode::parse(text).ok_or_else(|| "off, report or enforce".into())
}

fn parse_multipath(text: &str) -> Result<Multipath, String> {
    Multipath::parse(text).ok_or_else(|| "off, report or refuse".into())
}

fn parse_device_path(text: &str) -> Result<DevicePath, String> {
    DevicePath::parse(text).ok_or_else(|| "an absolute path with {volume_id} in it".into())
}

fn parse_fs_type(text: &str) -> Result<FsType, String> {
    FsType::parse(text).map_err(|_| "a filesystem type as mount(8) takes it".into())
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
        assert_eq!(config.places.state_dir, PathBuf::from("/var/lib/mount-guard"));
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
