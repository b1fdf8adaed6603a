//! The log, and the only list of its fields and of the metrics' names.
//!
//! Fields: `volume.id`, `method`, `decision`, `ruling`, `code`, `error`, `peer.uid`, `path`,
//! `waited_ms`, `device`, `verdict`, `reason`, `text`, `tool`, `arguments`, `ended`,
//! `changed_bytes`, `undo`, `trouble`, `mount`. None of them ever holds a secret, a mount option or
//! the text of a request, nor what is on an encrypted volume.

use std::collections::BTreeSet;
use std::sync::Mutex;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use tracing::error;
use tracing_subscriber::EnvFilter;

use crate::config::{LogFormat, LogLevel};
use crate::facts::call::Method;

/// Starts the log on standard output and keeps panics from printing what they carry: a panic's
/// message may quote a request.
pub fn start_log(format: LogFormat, level: &LogLevel) {
    let filter = EnvFilter::new(level.as_str());
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_target(true);
    match format {
        LogFormat::Json => log.json().flatten_event(true).init(),
        LogFormat::Text => log.with_ansi(false).init(),
    }
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string);
        error!(place, "panic in the guard's own code");
    }));
}

/// What the guard did with a volume call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
pub enum Decision {
    /// Sent to the plugin.
    Started,
    /// Waits with an equal call.
    Joined,
    /// Answered with the result of an equal call that nobody had received.
    Kept,
    /// Refused beside another call of the volume.
    Busy,
    /// Answered before its deadline while the plugin works.
    StillRunning,
    /// Ended for a call that takes the volume from the node.
    CalledOff,
    /// The device was not handed on.
    Refused,
    /// What the plugin did was undone, or did not stand.
    NotProven,
    /// Held back because of an earlier call that was lost sight of.
    MayStillRun,
    /// The plugin's final refusal was not passed on.
    Withheld,
    /// Sent unguarded: its content is not what it should be.
    Malformed,
    /// Sent unguarded: its content is compressed.
    Compressed,
}

/// The guard's own trouble. It stops nobody, and makes readiness false.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Trouble {
    /// The socket kubelet calls is not bound.
    Endpoint,
    /// The plugin has not answered yet, or not lately.
    Plugin,
    /// The state directory cannot be used.
    StateDirectory,
    /// The node's devices, or the processes that use them, cannot be looked at.
    Node,
    /// No filesystem can be checked: no trial, or no tool.
    Checker,
    /// The guard's own code panicked while it judged.
    Judgement,
}

impl Trouble {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Endpoint => "endpoint",
            Self::Plugin => "plugin",
            Self::StateDirectory => "state_directory",
            Self::Node => "node",
            Self::Checker => "checker",
            Self::Judgement => "judgement",
        }
    }
}

/// Between whom an answer was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
pub enum Side {
    /// Between caller and guard.
    Caller,
    /// Between guard and plugin.
    Plugin,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RpcLabels {
    method: &'static str,
    code: &'static str,
    side: Side,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DecisionLabels {
    method: MethodLabel,
    decision: Decision,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ExaminationLabels {
    verdict: &'static str,
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CheckLabels {
    verdict: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct MethodLabel(Method);

impl EncodeLabelValue for MethodLabel {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        EncodeLabelValue::encode(&self.0.name(), encoder)
    }
}

/// Metrics and readiness.
pub struct Telemetry {
    registry: Registry,
    rpcs: Family<RpcLabels, Counter>,
    decisions: Family<DecisionLabels, Counter>,
    examinations: Family<ExaminationLabels, Counter>,
    checks: Family<CheckLabels, Counter>,
    connections: Gauge,
    troubles: Mutex<BTreeSet<Trouble>>,
}

impl Default for Telemetry {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("mount_guard");
        let version = vec![("version", env!("CARGO_PKG_VERSION"))];
        registry.register("build", "The guard's version", Info::new(version));
        let rpcs = Family::default();
        registry.register("rpcs", "Answers by method, gRPC code and side", rpcs.clone());
        let decisions = Family::default();
        registry.register("decisions", "What was done with volume calls", decisions.clone());
        let examinations = Family::default();
        let help = "Devices looked at before a mount, by verdict and reason";
        registry.register("examinations", help, examinations.clone());
        let checks = Family::default();
        registry.register("checks", "Filesystem checks by their end", checks.clone());
        let connections = Gauge::default();
        let help = "Connections to the plugin that are open";
        registry.register("plugin_connections", help, connections.clone());
        let troubles = Mutex::new(BTreeSet::from([Trouble::Endpoint, Trouble::Plugin]));
        Self { registry, rpcs, decisions, examinations, checks, connections, troubles }
    }
}

impl Telemetry {
    /// Counts an answer. `method` and `code` come from fixed lists, so the number of series is
    /// bounded.
    pub fn answered(&self, method: &'static str, code: &'static str, side: Side) {
        self.rpcs.get_or_create(&RpcLabels { method, code, side }).inc();
    }

    pub fn decided(&self, method: Method, decision: Decision) {
        let method = MethodLabel(method);
        self.decisions.get_or_create(&DecisionLabels { method, decision }).inc();
    }

    /// Counts a device that was looked at. Both words come from fixed lists.
    pub fn examined(&self, verdict: &'static str, reason: &'static str) {
        self.examinations.get_or_create(&ExaminationLabels { verdict, reason }).inc();
    }

    /// Counts a check that has ended.
    pub fn checked(&self, verdict: &'static str) {
        self.checks.get_or_create(&CheckLabels { verdict }).inc();
    }

    pub fn connected(&self) {
        self.connections.inc();
    }

    pub fn disconnected(&self) {
        self.connections.dec();
    }

    /// Notes trouble; says whether it is new.
    pub fn troubled(&self, trouble: Trouble) -> bool {
        self.troubles.lock().expect("nothing panics under this lock").insert(trouble)
    }

    /// Notes that a trouble is over; says whether there was one.
    pub fn cleared(&self, trouble: Trouble) -> bool {
        self.troubles.lock().expect("nothing panics under this lock").remove(&trouble)
    }

    /// What keeps the guard from being ready; empty if it is.
    pub fn troubles(&self) -> Vec<Trouble> {
        self.troubles.lock().expect("nothing panics under this lock").iter().copied().collect()
    }

    /// The metrics in the OpenMetrics text format.
    ///
    /// # Errors
    /// Only if writing to a string does.
    pub fn exposition(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)?;
        Ok(text)
    }
}
