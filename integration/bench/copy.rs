//! `integration bench-copy`: bytes from one socket to another, the least a proxy can do.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use tokio::io::copy_bidirectional;
use tokio::net::{UnixListener, UnixStream};

use super::client::runtime;
use super::error::BenchError;

#[derive(Parser)]
struct Arguments {
    #[arg(long)]
    listen: PathBuf,
    #[arg(long)]
    to: PathBuf,
}

pub fn run(words: impl Iterator<Item = OsString>) -> ExitCode {
    let arguments = Arguments::parse_from(std::iter::once("bench-copy".into()).chain(words));
    let Err(error) = runtime().block_on(serve(&arguments.listen, &arguments.to));
    eprintln!("bench-copy: {}", error.with_causes());
    ExitCode::FAILURE
}

async fn serve(listen: &Path, to: &Path) -> Result<std::convert::Infallible, BenchError> {
    let cannot = |source| BenchError::Listen { path: listen.to_owned(), source };
    let listener = UnixListener::bind(listen).map_err(cannot)?;
    loop {
        let (mut near, _) = listener.accept().await.map_err(cannot)?;
        let to = to.to_owned();
        tokio::spawn(async move {
            // Both sides see a broken copy as a closed connection; there is nothing to add.
            if let Ok(mut far) = UnixStream::connect(to).await {
                let _ = copy_bidirectional(&mut near, &mut far).await;
            }
        });
    }
}
