//! The composition root: builds every room, and runs them until told to stop.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use crate::config::{Config, Places};
use crate::guard::Guard;
use crate::guard::policy::Policy;
use crate::host::Roots;
use crate::host::linux::LinuxHost;
use crate::http::{self, Status};
use crate::proxy::plugin::Plugin;
use crate::proxy::pool::Pool;
use crate::proxy::router::Router;
use crate::proxy::server::Server;
use crate::telemetry::{Telemetry, Trouble};

/// How long calls may go on after the order to stop. Kubelet kills after 30 s (the pod's default
/// grace period); five of them are for what stops before and after us.
const DRAIN: Duration = Duration::from_secs(25);

/// Of which the last second is for carrying the last answers out.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// How long the plugin may take for its first answer before it is asked again.
const FIRST_ANSWER: Duration = Duration::from_secs(5);

/// Stands between kubelet and the plugin until `shutdown` completes, then lets calls finish.
pub async fn run(config: Config, shutdown: impl Future<Output = ()>) {
    let telemetry = Arc::new(Telemetry::default());
    let pool = Arc::new(Pool::new(&config.csi_address, Arc::clone(&telemetry)));
    let plugin = Plugin::new(Arc::clone(&pool));
    let guard =
        Guard::new(plugin, host(&config.places), policy(&config), Arc::clone(&telemetry)).await;
    let shown: Arc<dyn Status> = Arc::new(Shown {
        guard: Arc::clone(&guard),
        telemetry: Arc::clone(&telemetry),
        config: config.clone(),
    });
    tokio::spawn(http::serve(config.http_endpoint, Arc::clone(&telemetry), shown));
    let router = Router::new(Arc::clone(&guard), pool, Arc::clone(&telemetry));
    let server = Server::new(router, telemetry);
    info!(version = env!("CARGO_PKG_VERSION"), "guard starts");

    let serve = async {
        // Before anything else touches their devices.
        guard.finish_what_was_cut_off().await;
        wait_for_plugin(guard.upstream(), &config.driver_name).await;
        server.run(&config.endpoint).await;
    };
    tokio::select! {
        () = shutdown => {}
        () = serve => {}
    }

    info!("guard stops");
    let give_up = Instant::now() + DRAIN;
    guard.drain(give_up - LAST_ANSWERS).await;
    server.drain(give_up).await;
    info!("guard stopped");
}

/// The node, as the flags say it can be seen.
fn host(places: &Places) -> LinuxHost {
    let roots = Roots { proc: places.host_proc.clone(), sys: places.host_sys.clone() };
    LinuxHost::new(&places.state_dir).with_roots(roots)
}

fn policy(config: &Config) -> Policy {
    Policy {
        fsck: config.fsck,
        repair_backup: config.repair_backup,
        format_guard: config.format_guard,
        format_settle: config.format_settle,
        multipath: config.multipath,
        device_path: config.places.device_path.clone(),
        dry_run: config.dry_run,
    }
}

/// Waits until the plugin has answered for the first time: the registrar waits for a socket, but
/// gives a call on it just one second.
async fn wait_for_plugin(plugin: &Plugin, driver_name: &str) {
    loop {
        match plugin.read_info(Instant::now() + FIRST_ANSWER).await {
            Ok(Some(info)) if info.name != driver_name => {
                warn!(name = info.name, expected = driver_name, "another driver is on the socket");
                return;
            }
            Ok(Some(info)) => {
                info!(name = info.name, version = info.vendor_version, "plugin answers");
                return;
            }
            Ok(None) => {
                warn!("plugin answers, but not with its name");
                return;
            }
            Err(_) => sleep(Duration::from_millis(100)).await,
        }
    }
}

/// What `/status` tells.
struct Shown {
    guard: Arc<Guard<Plugin, LinuxHost>>,
    telemetry: Arc<Telemetry>,
    config: Config,
}

impl Status for Shown {
    fn status(&self) -> serde_json::Value {
        let calls: Vec<_> = self
            .guard
            .in_flight()
            .iter()
            .map(|flight| {
                json!({
                    "volume": flight.volume.as_str(),
                    "method": flight.method.name(),
                    "age_seconds": flight.age.as_secs(),
                    "doing": flight.doing.to_string(),
                })
            })
            .collect();
        let troubles: Vec<_> = self.telemetry.troubles().into_iter().map(Trouble::name).collect();
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "node": self.config.node_id,
            "calls": calls,
            "troubles": troubles,
        })
    }
}
