//! What a caller is told: the plugin's answer, or one of the guard's own.

use std::fmt;
use std::time::Duration;

use super::NoReply;
use super::activity::Doing;
use super::reason::Reason;
use super::request::Request;
use crate::facts::call::{Effect, Method};
use crate::volume::VolumeId;

/// The longest text of an answer, in bytes. Kubelet puts it into an event, whose message is cut
/// at 1024 bytes (Kubernetes events API), with a prefix of its own in front.
const MAX_TEXT_BYTES: usize = 900;

/// How much of the plugin's own words is quoted, in bytes.
const MAX_QUOTE_BYTES: usize = 500;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer<R> {
    /// What the plugin said, to be passed on as it is.
    Plugin(R),
    Own(Own),
}

/// The guard's own answers. None of them is final: kubelet always comes back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Own {
    /// The device is not handed on: a proof of danger.
    Refused { volume: VolumeId, method: Method, reason: Reason },
    /// The device does not answer, or not yet.
    DeviceSilent { volume: VolumeId, method: Method, reason: Reason },
    /// A check gave way to a call that takes the volume from the node.
    CalledOff { volume: VolumeId, method: Method },
    /// The plugin said OK, and that did not stand.
    NotProven { volume: VolumeId, method: Method, why: String },
    /// Another call of this volume is under way.
    Busy { volume: VolumeId, asked: Method, running: Method, age: Duration, doing: Doing },
    /// The caller's time is nearly up and the call is not done.
    StillRunning { volume: VolumeId, method: Method, age: Duration, doing: Doing },
    /// An earlier call to the same path may still be at work in the plugin.
    MayStillRun { volume: VolumeId, method: Method, earlier: Method },
    /// The plugin refused for good, but an earlier call to the same path may have mounted.
    Withheld { volume: VolumeId, method: Method, code: &'static str, text: String },
    /// The plugin could not be reached.
    PluginAway { volume: VolumeId, method: Method, why: String },
    /// The plugin took the call and then broke the connection.
    PluginLost { volume: VolumeId, method: Method, why: String },
    /// The guard is shutting down.
    Leaving { volume: VolumeId, method: Method },
    /// The guard's own code panicked while the call was under way.
    Broken { volume: VolumeId, method: Method },
}

impl Own {
    pub(super) fn no_reply(request: &Request, no_reply: NoReply) -> Self {
        let (volume, method) = (request.volume().clone(), request.method());
        match no_reply {
            NoReply::NotSent { why } => Self::PluginAway { volume, method, why },
            NoReply::Lost { why } => Self::PluginLost { volume, method, why },
        }
    }

    /// The text as kubelet shows it: printable ASCII, at most 900 bytes.
    #[must_use]
    pub fn text(&self) -> String {
        clip(&self.to_string(), MAX_TEXT_BYTES)
    }
}

impl fmt::Display for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mount-guard: ")?;
        match self {
            Self::Refused { volume, reason, .. } => {
                write!(f, "volume {volume} is not mounted, {reason}")
            }
            Self::DeviceSilent { volume, reason, .. } => {
                write!(f, "volume {volume} is not mounted yet, {reason}")
            }
            Self::CalledOff { volume, method } => write!(
                f,
                "{method} of volume {volume} gave way to a call that takes the volume from this \
                 node; it will be tried again by itself if it is still wanted"
            ),
            Self::NotProven { volume, method, why } => {
                write!(
                    f,
                    "{method} of volume {volume} is not done: longhorn-csi-plugin said OK, {why}"
                )
            }
            Self::Busy { volume, asked, running, age, doing } => write!(
                f,
                "{asked} of volume {volume} waits: {running} is under way for {} ({doing}); it \
                 will be tried again by itself",
                Age(*age)
            ),
            Self::StillRunning { volume, method, age, doing } => write!(
                f,
                "{method} of volume {volume} goes on for {} ({doing}); the next try gets its result",
                Age(*age)
            ),
            Self::MayStillRun { volume, method, earlier } => write!(
                f,
                "{method} of volume {volume} waits: the guard lost sight of a {earlier} which the \
                 plugin may still be working on; it will be tried again by itself, and a restart \
                 of the longhorn-csi-plugin pod ends the wait"
            ),
            Self::Withheld { volume, method, code, text } => write!(
                f,
                "{method} of volume {volume} failed ({code}: {}); an earlier try of it was cut \
                 off and may have left a mount, so this is not the last word: it will be tried \
                 again, and undone when the pod goes",
                clip(text, MAX_QUOTE_BYTES)
            ),
            Self::PluginAway { volume, method, why } => write!(
                f,
                "{method} of volume {volume} not sent: longhorn-csi-plugin does not answer on \
                 its socket ({why}); look at the longhorn-csi-plugin container of this node"
            ),
            Self::PluginLost { volume, method, why } => write!(
                f,
                "{method} of volume {volume} cut off: longhorn-csi-plugin took the call and \
                 broke the connection ({why}); {}",
                match method.effect() {
                    Effect::Mounts | Effect::Neither => "it will be tried again by itself",
                    Effect::Unmounts => "it will be tried again until it is done",
                }
            ),
            Self::Leaving { volume, method } => write!(
                f,
                "{method} of volume {volume} goes on in the plugin while the guard restarts; \
                 the next try finds out how it ended"
            ),
            Self::Broken { volume, method } => write!(
                f,
                "{method} of volume {volume} was dropped by an error inside the guard (its log \
                 names the place); it will be tried again by itself"
            ),
        }
    }
}

/// Makes `text` printable ASCII of at most `max_bytes`.
fn clip(text: &str, max_bytes: usize) -> String {
    let printable = |c: char| if c == ' ' || c.is_ascii_graphic() { c } else { ' ' };
    let mut words: String = text.chars().map(printable).collect();
    if words.len() > max_bytes {
        words.truncate(max_bytes - 3);
        words.push_str("...");
    }
    words
}

/// An age in whole seconds, or in minutes where seconds would only be noise.
struct Age(Duration);

impl fmt::Display for Age {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_secs() {
            seconds @ 0..=119 => write!(f, "{seconds} s"),
            seconds => write!(f, "{} min", seconds / 60),
        }
    }
}
