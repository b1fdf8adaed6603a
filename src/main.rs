//! `mount-guard`: arguments, log, runtime, signals; all else is in the library.

use std::process::ExitCode;

use mount_guard::config::Order;
use mount_guard::{app, cli, telemetry};
use tokio::signal::unix::{SignalKind, signal};

fn main() -> ExitCode {
    let config = match Order::from_command_line() {
        Order::Serve(config) => config,
        Order::ByHand(command) => return cli::run(&command),
    };
    telemetry::start_log(config.log_format, &config.log_level);
    // One thread: for small messages it beats several (DESIGN, facts/performance.md).
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(%error, "cannot start the runtime");
            return ExitCode::FAILURE;
        }
    };
    runtime.block_on(app::run(config, told_to_stop()));
    // What still blocks on a thread of its own must not keep the process.
    runtime.shutdown_background();
    ExitCode::SUCCESS
}

async fn told_to_stop() {
    let stream = |kind| signal(kind).expect("signals can be caught after the runtime has started");
    let (mut terminate, mut interrupt) =
        (stream(SignalKind::terminate()), stream(SignalKind::interrupt()));
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}
