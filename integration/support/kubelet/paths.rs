//! Kubelet's directories.

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::Claimed;
use crate::support::mounts;

const DRIVER: &str = "driver.longhorn.io";

/// The layout under one kubelet root.
#[derive(Debug, Clone)]
pub struct Paths {
    root: PathBuf,
}

impl Paths {
    pub fn under(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// `<root>/plugins/kubernetes.io/csi/<driver>/<sha256 of the handle>/globalmount`, and for a
    /// raw block volume `<root>/plugins/kubernetes.io/csi/volumeDevices/staging/<pv>`.
    pub fn staging(&self, volume: &Claimed) -> PathBuf {
        let csi = self.root.join("plugins/kubernetes.io/csi");
        if volume.block {
            return csi.join("volumeDevices/staging").join(&volume.id);
        }
        let hash = Sha256::digest(volume.id.as_bytes());
        let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        csi.join(DRIVER).join(hash).join("globalmount")
    }

    /// `<root>/pods/<uid>/volumes/kubernetes.io~csi/<pv>/mount`, and for a raw block volume
    /// `<root>/plugins/kubernetes.io/csi/volumeDevices/publish/<pv>/<uid>`.
    pub fn target(&self, pod: &str, volume: &Claimed) -> PathBuf {
        if volume.block {
            let devices = self.root.join("plugins/kubernetes.io/csi/volumeDevices/publish");
            return devices.join(&volume.id).join(pod);
        }
        let volumes = self.root.join("pods").join(pod).join("volumes/kubernetes.io~csi");
        volumes.join(&volume.id).join("mount")
    }

    /// Whether a path is a target of the volume, in whatever pod.
    pub fn targets_of(&self, volume: &Claimed) -> impl Fn(&Path) -> bool + use<> {
        let (block, pods) = (volume.block, self.root.join("pods"));
        let published = self.target("", volume);
        let tail = Path::new(&volume.id).join("mount");
        move |path| match block {
            true => path.starts_with(&published),
            false => path.starts_with(&pods) && path.ends_with(&tail),
        }
    }

    /// As kubelet prepares a Stage: the directory, and `vol_data.json` beside it.
    pub fn make_staging(&self, volume: &Claimed) {
        let staging = self.staging(volume);
        fs::create_dir_all(&staging).expect("the staging directory");
        if !volume.block {
            write_volume_data(&staging, volume);
        }
    }

    /// As kubelet prepares a Publish: everything but the target itself, which is the driver's.
    pub fn make_target_parent(&self, pod: &str, volume: &Claimed) {
        let target = self.target(pod, volume);
        fs::create_dir_all(target.parent().expect("a parent")).expect("the target's parent");
        if !volume.block {
            write_volume_data(&target, volume);
        }
    }

    /// `removeMountDir`: only rmdir(2), and only where nothing is mounted.
    pub fn remove_if_not_mounted(&self, path: &Path) {
        if mounts::is_mounted(path) {
            return;
        }
        let parent = path.parent().expect("a parent");
        let _ = fs::remove_dir(path);
        let _ = fs::remove_file(parent.join("vol_data.json"));
        let _ = fs::remove_dir(parent);
    }
}

fn write_volume_data(beside: &Path, volume: &Claimed) {
    let data = serde_json::json!({
        "driverName": DRIVER,
        "specVolID": volume.id,
        "volumeHandle": volume.id,
        "volumeLifecycleMode": "Persistent",
    });
    let file = beside.parent().expect("a parent").join("vol_data.json");
    fs::write(file, data.to_string()).expect("vol_data.json");
}
