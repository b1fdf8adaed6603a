//! A node in small: a disk, the plugin stand-in with one volume on it, and a kubelet.

#![allow(dead_code, reason = "part of the kit: not every test asks for everything")]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use tempfile::TempDir;

use super::disk::LoopDisk;
use super::kubelet::{Claimed, Kubelet};
use super::mounts::{self, Mount};
use super::plugin::{Plugin, Volume};

/// The volume of every scene.
pub const VOLUME: &str = "pvc-6e1f0c9e-7f0f-4a60-9c0c-0d6c9c2b7f11";

/// The pods' uids.
pub const POD: &str = "0b1f8f5e-93c5-4f0e-8d25-7d3ce4a0e5a1";
pub const OTHER_POD: &str = "c52b7d64-1e58-4b15-a8b4-9a0f6f0b8d02";

/// Waits for something that another thread or process does, patiently: the machine may be busy.
pub fn wait_for(what: &str, happened: impl Fn() -> bool) {
    let patience = Instant::now() + Duration::from_secs(10);
    while !happened() {
        assert!(Instant::now() < patience, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Makes a node at `path` with the number of `device`, as the engine makes its own.
pub fn make_node(device: &Path, path: &Path) {
    use nix::sys::stat::{Mode, SFlag, mknod, stat};
    let number = stat(device).expect("the device").st_rdev;
    mknod(path, SFlag::S_IFBLK, Mode::from_bits_truncate(0o660), number).expect("its node");
}

/// Dropped from top to bottom: first the plugin with its mounts, then the disk below them.
#[derive(Debug)]
pub struct Scene {
    pub plugin: Plugin,
    pub kubelet: Kubelet,
    pub disk: LoopDisk,
    pub volume: Claimed,
    shared: Option<Shared>,
    dir: TempDir,
}

/// A directory whose mounts propagate into the namespaces made from this one.
#[derive(Debug)]
struct Shared(PathBuf);

impl Shared {
    fn make(dir: &Path) -> Self {
        let bind = (MsFlags::MS_BIND, MsFlags::MS_SHARED);
        mount(Some(dir), dir, None::<&str>, bind.0, None::<&str>).expect("a mount point");
        mount(None::<&str>, dir, None::<&str>, bind.1, None::<&str>).expect("a shared mount");
        Self(dir.to_owned())
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let _ = umount2(&self.0, MntFlags::MNT_DETACH);
    }
}

impl Scene {
    /// With the volume on `disk`, asked for as `fs_type`.
    pub fn new(disk: LoopDisk, fs_type: &str) -> Self {
        let device = disk.device().to_owned();
        Self::with_device(disk, &device, fs_type)
    }

    /// With the volume on `device`, which shows what is on `disk` in a way of its own.
    pub fn with_device(disk: LoopDisk, device: &Path, fs_type: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory for the scene");
        let sockets = dir.path().join("csi");
        std::fs::create_dir(&sockets).expect("the socket directory");
        let plugin = Plugin::start(&sockets);
        plugin.manager().add(VOLUME, Volume::on(device));
        let kubelet = Kubelet::new(&dir.path().join("kubelet"), plugin.socket()).with_pace(0.05);
        std::fs::create_dir(dir.path().join("dev")).expect("the directory of the devices");
        make_node(device, &dir.path().join("dev").join(VOLUME));
        Self { plugin, kubelet, disk, volume: Claimed::new(VOLUME, fs_type), shared: None, dir }
    }

    /// Lets a guard in a mount namespace of its own see what is mounted here from now on, as
    /// kubelet's directory is shared with the guard's container.
    pub fn share(&mut self) {
        self.shared.get_or_insert_with(|| Shared::make(self.dir.path()));
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Where the volumes' devices are, as Longhorn keeps them in `/dev/longhorn`.
    pub fn devices(&self) -> PathBuf {
        self.dir.path().join("dev")
    }

    /// Puts another device behind the volume, as if the engine had made its node anew.
    pub fn use_device(&self, device: &Path) {
        std::fs::remove_file(self.node()).expect("the node so far");
        make_node(device, &self.node());
        self.plugin.manager().add(VOLUME, Volume::on(device));
    }

    /// The volume's device as Longhorn would name it.
    pub fn node(&self) -> PathBuf {
        self.devices().join(VOLUME)
    }

    pub fn staging(&self) -> PathBuf {
        self.kubelet.paths().staging(&self.volume)
    }

    pub fn target(&self, pod: &str) -> PathBuf {
        self.kubelet.paths().target(pod, &self.volume)
    }

    /// What is mounted at the staging path, the topmost last.
    pub fn staged(&self) -> Vec<Mount> {
        mounts::at(&self.staging())
    }

    /// Waits for a mount that is still to come at the staging path.
    pub fn wait_until_staged(&self) {
        wait_for("a mount at the staging path", || !self.staged().is_empty());
    }

    pub fn published(&self, pod: &str) -> Vec<Mount> {
        mounts::at(&self.target(pod))
    }
}
