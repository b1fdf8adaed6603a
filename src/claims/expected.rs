//! What may hold a volume's device without being somebody else.

use std::path::{Path, PathBuf};

use super::Identity;
use crate::facts::device::{LoopOnTop, MapName, MountSighting, Target};
use crate::facts::process::PodUid;
use crate::volume::VolumeId;

/// Which of Longhorn's data engines serves a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// An iSCSI disk of the instance manager's tgtd.
    V1,
    /// A device-mapper map with the volume's name, over NVMe or ublk.
    V2,
}

/// The volume whose device it should be, and what is known to be its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected {
    pub volume: VolumeId,
    /// `None`: nobody asked Longhorn.
    pub engine: Option<Engine>,
    /// Staging path, target paths, and for a raw block volume kubelet's directory of it
    /// (`…/volumeDevices/<pv>`): what is mounted, or loops over, at or below one of them.
    pub paths: Vec<PathBuf>,
    /// The pods that use the volume: what their containers have mounted, or kubelet has below
    /// their directories (subPaths).
    pub pods: Vec<PodUid>,
}

impl Expected {
    /// A volume of which nothing is known to be in use.
    #[must_use]
    pub fn unused(volume: VolumeId) -> Self {
        Self { volume, engine: None, paths: Vec::new(), pods: Vec::new() }
    }

    /// The name that a v1 engine's target has: go-iscsi-helper puts `:` for `_`.
    #[must_use]
    pub fn iqn(&self) -> String {
        format!("iqn.2019-10.io.longhorn:{}", self.volume.as_str().replace('_', ":"))
    }

    /// The volume whose target has this name; a `:` in it stands for the volume's `_`.
    #[must_use]
    pub fn volume_of_iqn(iqn: &str) -> Option<VolumeId> {
        let name = iqn.strip_prefix("iqn.2019-10.io.longhorn:")?;
        VolumeId::parse(&name.replace(':', "_")).ok()
    }

    /// Whether a map is the volume's own: the v2 engine's, or the plain side of an encrypted one
    /// (`<volume>`, for v2 `<volume>-encrypted`). A multipath map or a logical volume of that
    /// name is not.
    #[must_use]
    pub fn owns_map(&self, map: &MapName) -> bool {
        let foreign = ["mpath-", "LVM-", "DMRAID-"].iter().any(|who| map.uuid.starts_with(who));
        let volume = self.volume.as_str();
        let is_named = map
            .name
            .strip_prefix(volume)
            .is_some_and(|rest| rest.is_empty() || rest == "-encrypted");
        is_named && !foreign
    }

    #[must_use]
    pub fn owns_mount(&self, sighting: &MountSighting) -> bool {
        let pods = [&sighting.pod, &sighting.process.pod];
        self.owns_path(&sighting.mount.path)
            || pods.into_iter().flatten().any(|pod| self.pods.contains(pod))
    }

    /// Kubelet keeps a loop device over the node of a raw block volume, to hold its number.
    #[must_use]
    pub fn owns_loop(&self, on_top: &LoopOnTop) -> bool {
        let path = &on_top.backing_file;
        let pod = path.file_name().and_then(|name| PodUid::parse(name.to_str()?));
        self.owns_path(path) || pod.is_some_and(|pod| self.pods.contains(&pod))
    }

    pub(super) fn target(&self) -> Identity {
        Identity::Target(Target::Iqn(self.iqn()))
    }

    fn owns_path(&self, path: &Path) -> bool {
        self.paths.iter().any(|own| path.starts_with(own))
    }
}
