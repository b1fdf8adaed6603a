//! What a call is at, for whoever asks, and the way to call its check off.

use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;

use crate::facts::tool::Progress;
use crate::host::{CallOff, CalledOff};

/// The stage a call has reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    /// The guard looks at the device.
    Looking,
    /// A blank device is watched before it is believed.
    Settling,
    /// Two checks run already; this many are before this one, itself included.
    Queued {
        place: usize,
    },
    Checking {
        tool: &'static str,
        progress: Option<Progress>,
    },
    /// The result of a check is being written to the device.
    Applying,
    /// The plugin works.
    Plugin,
    /// The guard looks at what the plugin did.
    Proving,
}

/// Shared by the call that does it and by those who ask.
#[derive(Debug, Clone)]
pub struct Activity {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    doing: watch::Sender<Doing>,
    progress: watch::Sender<Option<Progress>>,
    call_off: CallOff,
}

impl Activity {
    #[must_use]
    pub fn new(doing: Doing) -> Self {
        let (doing, progress) = (watch::Sender::new(doing), watch::Sender::new(None));
        Self { shared: Arc::new(Shared { doing, progress, call_off: CallOff::default() }) }
    }

    pub(super) fn begin(&self, doing: Doing) {
        self.shared.progress.send_replace(None);
        self.shared.doing.send_replace(doing);
    }

    /// Where a checker tells how far it is.
    pub(super) fn progress(&self) -> &watch::Sender<Option<Progress>> {
        &self.shared.progress
    }

    #[must_use]
    pub fn doing(&self) -> Doing {
        match *self.shared.doing.borrow() {
            Doing::Checking { tool, .. } => {
                Doing::Checking { tool, progress: *self.shared.progress.borrow() }
            }
            doing => doing,
        }
    }

    /// Ends a check, a wait in the queue or a wait for a blank device; says whether there is one.
    /// What is being written is finished first.
    pub(super) fn call_off(&self) -> bool {
        let ends = match self.doing() {
            Doing::Looking
            | Doing::Settling
            | Doing::Queued { .. }
            | Doing::Checking { .. }
            | Doing::Applying => true,
            Doing::Plugin | Doing::Proving => false,
        };
        if ends {
            self.shared.call_off.raise();
        }
        ends
    }

    pub(super) fn called_off(&self) -> CalledOff {
        self.shared.call_off.seen()
    }
}

impl fmt::Display for Doing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Looking => f.write_str("the guard looks at its device"),
            Self::Settling => {
                f.write_str("its device reads blank, which is watched before it is believed")
            }
            Self::Queued { place } => {
                write!(f, "its check waits for others on this node (place {place} in the queue)")
            }
            Self::Checking { tool, progress: None } => write!(f, "{tool} checks its filesystem"),
            Self::Checking { tool, progress: Some(Progress { pass, percent }) } => {
                write!(f, "{tool} checks its filesystem (pass {pass} of 5, {percent} %)")
            }
            Self::Applying => f.write_str("a repair is being written to its device"),
            Self::Plugin => f.write_str("longhorn-csi-plugin works on it"),
            Self::Proving => f.write_str("the guard looks at the new mount"),
        }
    }
}
