//! The plugin stand-in: behaves on a node as longhorn-csi-plugin does, bad habits included.
//!
//! It serves CSI's Identity and Node services on a unix socket and really runs blkid, mkfs, fsck,
//! mount and umount. What Longhorn's manager would answer about a volume is in [`Manager`]; what
//! goes wrong on command in [`Script`]; what it was asked and what it ran in [`Counts`]; which of
//! the real plugin's habits it has in [`Habits`]; `echo.rs` adds services that show whether a
//! proxy is transparent.
//!
//! Where it differs from the real one:
//! * there is no NFS: a share is a tmpfs whose source reads `host:/export`;
//! * there is no dm-crypt: LUKS is a recognisable header and an offset (`luks.rs`), and the
//!   content is not encrypted;
//! * a malformed `:authority` is refused by the HTTP/2 library, where grpc-go takes anything;
//! * pods' phases, the storage network and NFS fallback options are left out.

#![allow(dead_code, unused_imports, reason = "part of the kit: not every test asks for everything")]

mod counts;
mod echo;
mod format;
mod habits;
mod host;
mod luks;
mod manager;
mod method;
mod mountpoint;
mod node;
mod process;
pub mod program;
mod publish;
mod request;
mod resize;
mod script;
mod serve;
mod stage;
mod tools;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub use counts::{Call, Counts, Run};
pub use habits::Habits;
pub use manager::{Access, DataEngine, Manager, Volume};
pub use method::Method;
pub use script::{Act, End, Script};

use process::{Process, Shared};

/// A running stand-in. It lives on a thread and a runtime of its own, so that any test can hold
/// one; dropping it stops it and takes away the mounts it made.
#[derive(Debug)]
pub struct Plugin {
    shared: Arc<Shared>,
    socket: PathBuf,
    process: Option<Process>,
}

impl Plugin {
    /// Starts on `<dir>/csi.sock`; returns once the socket is bound.
    pub fn start(dir: &Path) -> Self {
        let mut plugin = Self::idle(&dir.join("csi.sock"));
        plugin.process = Some(Process::start(&plugin.shared, &plugin.socket));
        plugin
    }

    /// Returns at once; the socket is bound only after `delay`.
    pub fn start_delayed(dir: &Path, delay: Duration) -> Self {
        let mut plugin = Self::idle(&dir.join("csi.sock"));
        plugin.process = Some(Process::start_after(&plugin.shared, &plugin.socket, delay));
        plugin
    }

    fn idle(socket: &Path) -> Self {
        let shared = Arc::new(Shared::default());
        Self { shared, socket: socket.to_owned(), process: None }
    }

    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// What Longhorn's manager knows; shared by all lives of the plugin.
    pub fn manager(&self) -> &Manager {
        &self.shared.manager
    }

    pub fn script(&self) -> &Script {
        &self.shared.script
    }

    pub fn counts(&self) -> &Counts {
        &self.shared.counts
    }

    /// Gives up or takes on habits, for calls that come from now on.
    pub fn change_habits(&self, change: impl FnOnce(&mut Habits)) {
        change(&mut self.shared.habits.lock().expect("habits"));
    }

    /// Where the opened encrypted volumes are, in place of `/dev/mapper`: `<dir>/<volume id>`, with
    /// `-encrypted` behind it for the v2 engine.
    pub fn mapper_dir(&self) -> PathBuf {
        self.shared.host.mapper_dir().to_owned()
    }

    /// Ends it as SIGKILL does: connections are cut, children killed, the socket file stays.
    pub fn stop(&mut self) {
        self.process = None;
    }

    /// [`Plugin::stop`], then a new life on the same socket path.
    pub fn restart(&mut self) {
        self.stop();
        self.process = Some(Process::start(&self.shared, &self.socket));
    }

    /// What the containers' preStop hooks do: `rm -f /csi/*`.
    pub fn wipe(&self) {
        let dir = self.socket.parent().expect("the socket's directory");
        for entry in std::fs::read_dir(dir).expect("the socket's directory").flatten() {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        self.stop();
        self.shared.host.clean_up();
    }
}
