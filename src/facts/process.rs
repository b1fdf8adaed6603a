//! A process of the node, as far as a message has to name it.

use std::path::{Component, Path};

/// The UID of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PodUid(String);

/// Who it is that does something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// On the host, if the `proc` that was looked at is the host's.
    pub pid: u32,
    /// What `/proc/PID/comm` says; empty if the process was gone by then.
    pub comm: String,
    pub pod: Option<PodUid>,
}

impl PodUid {
    /// A UUID, or the 32 hexadecimal digits that kubelet gives a static pod.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let fit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte) || byte == b'-';
        let uid = matches!(text.len(), 32 | 36) && text.bytes().all(fit);
        uid.then(|| Self(text.to_owned()))
    }

    /// The pod whose directory `path` lies in: `<kubelet root>/pods/<uid>/…`.
    #[must_use]
    pub fn of_path(path: &Path) -> Option<Self> {
        let mut parts = path.components().map(Component::as_os_str);
        parts.by_ref().find(|part| *part == "pods")?;
        Self::parse(parts.next()?.to_str()?)
    }

    /// The pod of a process, from its `/proc/PID/cgroup`: kubelet names a pod's group `pod<uid>`
    /// (cgroupfs) or `kubepods-burstable-pod<uid with _>.slice` (systemd).
    #[must_use]
    pub fn of_cgroup(text: &str) -> Option<Self> {
        text.split(['/', '\n']).find_map(|part| {
            let part = part.strip_suffix(".slice").unwrap_or(part);
            let (before, uid) = part.rsplit_once("pod")?;
            let starts = before.is_empty() || before.ends_with('-');
            starts.then(|| Self::parse(&uid.replace('_', "-"))).flatten()
        })
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "0b3bd19a-4ee5-4e7c-8f2c-1d0b0c1f8f6e";

    #[test]
    fn a_pods_paths_name_it() {
        for path in [
            format!("/var/lib/kubelet/pods/{UID}/volumes/kubernetes.io~csi/pvc-1/mount"),
            format!("/var/lib/kubelet/pods/{UID}/volume-subpaths/pvc-1/main/0"),
            format!("/rootfs/var/lib/k0s/kubelet/pods/{UID}"),
        ] {
            assert_eq!(PodUid::of_path(Path::new(&path)).unwrap().as_str(), UID, "{path}");
        }
        for path in ["/data", "/pods", "/pods/x/volumes", "/var/lib/kubelet/plugins/pods"] {
            assert_eq!(PodUid::of_path(Path::new(path)), None, "{path}");
        }
    }

    #[test]
    fn a_process_of_a_pod_is_known_by_its_cgroup() {
        let slice = UID.replace('-', "_");
        for text in [
            format!(
                "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{slice}.slice/cri-containerd-ab.scope\n"
            ),
            format!("12:pids:/kubepods/besteffort/pod{UID}/0123\n11:cpu:/kubepods\n"),
            format!("0::/../../../kubepods-pod{slice}.slice/x\n"),
        ] {
            assert_eq!(PodUid::of_cgroup(&text).unwrap().as_str(), UID, "{text}");
        }
        for text in ["", "0::/\n", "0::/system.slice/podman.service\n", "0::/kubepods.slice/podx\n"]
        {
            assert_eq!(PodUid::of_cgroup(text), None, "{text}");
        }
    }
}
