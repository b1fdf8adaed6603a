//! A directory of device nodes in place of `/dev/longhorn`, and a host that looks at them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use mount_guard::claims::{Claim, Expected, judge};
use mount_guard::facts::device::{DeviceFacts, ExclusiveOpen, Node};
use mount_guard::host::linux::LinuxHost;
use mount_guard::host::{Exclusive, Host, Roots};
use mount_guard::volume::{DevNumber, VolumeId};
use nix::sys::stat::{Mode, SFlag, makedev, mknod};

use crate::support::mounts;

/// A directory in which one volume's node lies, and perhaps others.
pub struct Nodes {
    pub dir: tempfile::TempDir,
    pub roots: Roots,
}

impl Nodes {
    pub fn new() -> Self {
        let roots = Roots { proc: "/proc".into(), sys: "/sys".into() };
        Self { dir: tempfile::tempdir().unwrap(), roots }
    }

    /// A directory with a node `pvc-1` for the device at `device`.
    pub fn of(device: &Path) -> (Self, PathBuf) {
        let nodes = Self::new();
        let node = nodes.add("pvc-1", number_of(device));
        (nodes, node)
    }

    pub fn add(&self, name: &str, number: DevNumber) -> PathBuf {
        let path = self.dir.path().join(name);
        let device = makedev(number.major.into(), number.minor.into());
        mknod(&path, SFlag::S_IFBLK, Mode::S_IRUSR | Mode::S_IWUSR, device).unwrap();
        path
    }

    pub fn host(&self) -> LinuxHost {
        LinuxHost::new(&self.dir.path().join("state")).with_roots(self.roots.clone())
    }

    pub fn node(&self, path: &Path) -> (Node, Option<Exclusive>) {
        crate::support::run(async { self.host().read_device(path).await.unwrap() })
    }

    /// What a guard gathers before it judges.
    ///
    /// Another test that forks at this moment holds what this one has open for an instant, until
    /// its child executes a tool: a hold that nothing explains is looked at again.
    pub fn facts(&self, path: &Path) -> DeviceFacts {
        for _ in 0..10 {
            let facts = self.look(path);
            let is_held = facts.exclusive_open == ExclusiveOpen::Busy;
            let mounts = facts.users.mounts.as_ref().map_or(1, |mounts| mounts.seen.len());
            if !is_held || mounts > 0 {
                return facts;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        self.look(path)
    }

    fn look(&self, path: &Path) -> DeviceFacts {
        let (Node::Device(mut facts), exclusive) = self.node(path) else { panic!("no device") };
        drop(exclusive);
        if facts.wants_users() {
            let (host, numbers) = (self.host(), facts.numbers());
            facts.users.mounts = Some(crate::support::run(host.find_mounts(&numbers)).unwrap());
            facts.users.openers = Some(crate::support::run(host.find_openers(&numbers)).unwrap());
        }
        *facts
    }

    pub fn claim(&self, path: &Path) -> Claim {
        judge(&self.facts(path), &expected())
    }
}

/// A volume of which nothing is in use.
pub fn expected() -> Expected {
    Expected::unused(VolumeId::parse("pvc-1").unwrap())
}

pub fn number_of(device: &Path) -> DevNumber {
    DevNumber::parse(&mounts::device_number(device).unwrap()).unwrap()
}
