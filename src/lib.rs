//! Mount guard for Longhorn: a CSI node-plugin sidecar between kubelet and longhorn-csi-plugin.

pub mod csi;
pub mod host;
pub mod volume;
