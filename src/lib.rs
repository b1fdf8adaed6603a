//! Mount guard for Longhorn: a CSI node-plugin sidecar between kubelet and longhorn-csi-plugin.
//!
//! The rooms, and who may look into whom (a test reads the `use` lines and keeps it so):
//!
//! ```text
//! main → app → proxy → guard → {claims, format, fsck} → facts → volume
//! main → cli → host      guard → host → facts
//! ```
//!
//! * [`app`] builds every room and runs them.
//! * [`cli`] runs the commands other than `serve`.
//! * [`config`] is the only reader of flags and environment.
//! * [`proxy`] is all that speaks gRPC: sockets, routes, bytes, request parsing, status.
//! * [`guard`] decides the order: one call at a time for a volume, work that outlives its caller.
//! * [`facts`] are the words for what a node shows, and pure.
//! * [`claims`] decides: who holds a device, and is it the right one?
//! * [`format`] decides: what is on a device, and may it be handed on?
//! * [`fsck`] decides: what checker to run, and what did its end mean?
//! * [`host`] acts on the node, and decides nothing.
//! * [`http`] serves health, readiness, metrics and status.
//! * [`telemetry`] is the log and the only list of its fields and of the metrics.
//! * [`volume`] holds the names that a call speaks of, checked once.

pub mod app;
pub mod claims;
pub mod cli;
pub mod config;
pub mod csi;
pub mod facts;
pub mod format;
pub mod fsck;
pub mod guard;
pub mod host;
pub mod http;
pub mod proxy;
pub mod telemetry;
pub mod volume;
