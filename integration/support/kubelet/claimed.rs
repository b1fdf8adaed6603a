//! What a pod asks for.

use std::collections::HashMap;

use mount_guard::csi::volume_capability::access_mode::Mode;

/// A volume as its PV and its class describe it.
#[derive(Debug, Clone)]
pub struct Claimed {
    /// The volume handle, which is also the PV's name here.
    pub id: String,
    pub fs_type: String,
    pub mount_flags: Vec<String>,
    pub block: bool,
    pub read_only: bool,
    pub access: Mode,
    pub publish_context: HashMap<String, String>,
    pub secrets: HashMap<String, String>,
    pub volume_context: HashMap<String, String>,
}

impl Claimed {
    /// ReadWriteOnce, mounted; SINGLE_NODE_MULTI_WRITER is what kubelet makes of it for Longhorn.
    pub fn new(id: &str, fs_type: &str) -> Self {
        let pairs = [("numberOfReplicas", "3"), ("staleReplicaTimeout", "30"), ("fromBackup", "")];
        let volume_context = pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        Self {
            id: id.to_owned(),
            fs_type: fs_type.to_owned(),
            mount_flags: Vec::new(),
            block: false,
            read_only: false,
            access: Mode::SingleNodeMultiWriter,
            publish_context: HashMap::new(),
            secrets: HashMap::new(),
            volume_context,
        }
    }

    pub fn block(id: &str) -> Self {
        Self { block: true, ..Self::new(id, "") }
    }
}
