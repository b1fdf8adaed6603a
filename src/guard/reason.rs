//! Why a device is not handed on, as an operator reads it.

use std::fmt;

use crate::facts::device::DeviceFacts;

/// A reason in words: the device, what is the matter, and the one thing that would change it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// One word for log, metric and `check`'s JSON.
    pub kind: &'static str,
    /// The device's path and number, where there is one.
    pub device: Option<String>,
    pub why: String,
    /// Empty where `why` says it.
    pub remedy: String,
}

/// How much of a device's path is quoted, and how much of why, in bytes: a default path has 50, and
/// the longest remedy with both fits into the 900 bytes of an answer.
const MAX_PATH_BYTES: usize = 150;
const MAX_WHY_BYTES: usize = 520;

impl Reason {
    #[must_use]
    pub fn of(kind: &'static str, facts: &DeviceFacts, why: &str, remedy: &str) -> Self {
        let path = clipped(&facts.path.to_string_lossy(), MAX_PATH_BYTES);
        let device = Some(format!("{path} ({})", facts.number));
        Self { kind, device, why: clipped(why, MAX_WHY_BYTES), remedy: remedy.to_owned() }
    }

    /// About what is no device.
    #[must_use]
    pub fn without_device(kind: &'static str, why: String) -> Self {
        Self { kind, device: None, why, remedy: String::new() }
    }
}

/// The first `max_bytes` of a text, cut between characters.
fn clipped(text: &str, max_bytes: usize) -> String {
    match text.char_indices().map(|(at, _)| at).find(|at| *at >= max_bytes) {
        Some(end) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

impl fmt::Display for Reason {
    /// `device /dev/longhorn/pvc-1 (8:16): why; what to do`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(device) = &self.device {
            write!(f, "device {device}: ")?;
        }
        f.write_str(&self.why)?;
        if self.remedy.is_empty() { Ok(()) } else { write!(f, "; {}", self.remedy) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::device::ExclusiveOpen;
    use crate::volume::DevNumber;

    #[test]
    fn a_long_why_leaves_room_for_what_to_do() {
        let number = DevNumber { major: 8, minor: 16 };
        let path = format!("/dev/{}", "\u{fc}".repeat(200)).into();
        let facts = DeviceFacts::unread(path, number, ExclusiveOpen::Granted);
        let reason = Reason::of("damaged", &facts, &"x".repeat(2000), "do this");
        let text = reason.to_string();
        assert!(text.chars().count() < 740 && text.ends_with("...; do this"), "{text}");
        let plain = Reason { device: None, ..Reason::of("damaged", &facts, "it is", "") };
        assert_eq!(plain.to_string(), "it is");
    }
}
