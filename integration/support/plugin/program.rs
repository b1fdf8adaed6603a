//! The stand-in as a process of its own: `integration plugin --socket PATH [--volume ID=DEVICE …]`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};

use super::process::Process;
use super::{Plugin, Volume};

/// Plugin stand-in: CSI Identity and Node on a unix socket, as longhorn-csi-plugin serves them.
#[derive(Debug, Parser)]
#[command(name = "plugin")]
struct Arguments {
    /// The socket; a file of that name is replaced.
    #[arg(long)]
    socket: PathBuf,
    /// A volume that is attached here.
    #[arg(long = "volume", value_name = "ID=DEVICE", value_parser = parse_volume)]
    volumes: Vec<(String, PathBuf)>,
}

fn parse_volume(text: &str) -> Result<(String, PathBuf), String> {
    let (id, device) = text.split_once('=').ok_or("ID=DEVICE is expected")?;
    Ok((id.to_owned(), device.into()))
}

/// Serves until SIGTERM or SIGINT, then prints the counts. It mounts in the namespace it was
/// started in, and takes its mounts away at the end.
pub fn main(words: impl Iterator<Item = String>) -> ExitCode {
    let arguments = Arguments::parse_from(words);
    let mut plugin = Plugin::idle(&arguments.socket);
    for (id, device) in &arguments.volumes {
        plugin.manager().add(id, Volume::on(device));
    }
    plugin.process = Some(Process::start(&plugin.shared, &plugin.socket));
    crate::support::run(async {
        let mut terminate = signal(SignalKind::terminate()).expect("a handler for SIGTERM");
        let mut interrupt = signal(SignalKind::interrupt()).expect("a handler for SIGINT");
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    });
    plugin.stop();
    print!("{}", plugin.counts());
    ExitCode::SUCCESS
}
