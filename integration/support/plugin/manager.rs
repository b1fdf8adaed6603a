//! What longhorn-manager's REST answer says about each volume.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// The volumes Longhorn knows, as of now; tests change it while calls run.
#[derive(Debug, Default)]
pub struct Manager {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    volumes: HashMap<String, Volume>,
    outage: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Rwo,
    Rwop,
    Rwx,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataEngine {
    V1,
    V2,
}

#[derive(Debug, Clone)]
pub struct Volume {
    /// `controllers[0].endpoint`; `None` is an empty endpoint.
    pub device: Option<PathBuf>,
    pub attached: bool,
    pub ready: bool,
    pub not_ready_message: String,
    pub encrypted: bool,
    pub access: Access,
    pub migratable: bool,
    /// `nfs://host/export`.
    pub share_endpoint: Option<String>,
    pub share_running: bool,
    pub frontend: String,
    pub frontend_disabled: bool,
    pub engine: DataEngine,
    pub controllers: usize,
    pub size_bytes: i64,
}

impl Volume {
    /// A healthy v1 volume, attached here as `device`.
    pub fn on(device: &Path) -> Self {
        Self {
            device: Some(device.to_owned()),
            attached: true,
            ready: true,
            not_ready_message: String::new(),
            encrypted: false,
            access: Access::Rwo,
            migratable: false,
            share_endpoint: None,
            share_running: false,
            frontend: "blockdev".to_owned(),
            frontend_disabled: false,
            engine: DataEngine::V1,
            controllers: 1,
            size_bytes: 1 << 30,
        }
    }

    /// A healthy shared volume; its share is up.
    pub fn shared(device: &Path, share_endpoint: &str) -> Self {
        Self {
            access: Access::Rwx,
            share_endpoint: Some(share_endpoint.to_owned()),
            share_running: true,
            ..Self::on(device)
        }
    }
}

impl Manager {
    pub fn add(&self, id: &str, volume: Volume) {
        self.state.lock().expect("volumes").volumes.insert(id.to_owned(), volume);
    }

    /// Alters a volume that is there.
    pub fn change(&self, id: &str, change: impl FnOnce(&mut Volume)) {
        change(self.state.lock().expect("volumes").volumes.get_mut(id).expect("a known volume"));
    }

    pub fn remove(&self, id: &str) {
        self.state.lock().expect("volumes").volumes.remove(id);
    }

    /// From now on every question fails with `message`, or none with `None`.
    pub fn set_outage(&self, message: Option<&str>) {
        self.state.lock().expect("volumes").outage = message.map(str::to_owned);
    }

    /// # Errors
    /// The message of the outage a test asked for.
    pub fn by_id(&self, id: &str) -> Result<Option<Volume>, String> {
        let state = self.state.lock().expect("volumes");
        match &state.outage {
            Some(message) => Err(message.clone()),
            None => Ok(state.volumes.get(id).cloned()),
        }
    }
}
