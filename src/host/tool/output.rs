//! What a tool printed: the beginning, the end, and how much lay between.

use std::collections::VecDeque;

/// What is kept of one stream, in bytes: half from its beginning, half from its end.
///
/// 1 MiB: e2fsck needs 100 bytes for a finding, so this is ten thousand of them; a checker that
/// loops prints megabytes a second, which must not become our memory.
const KEPT_BYTES: usize = 1 << 20;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Output {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    seen_bytes: u64,
}

impl Output {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.seen_bytes += bytes.len() as u64;
        let half = KEPT_BYTES / 2;
        let (head, rest) = bytes.split_at(bytes.len().min(half - self.head.len()));
        self.head.extend_from_slice(head);
        let rest = &rest[rest.len().saturating_sub(half)..];
        let overflow = (self.tail.len() + rest.len()).saturating_sub(half);
        self.tail.drain(..overflow);
        self.tail.extend(rest);
    }

    /// Bytes printed, kept or not.
    #[must_use]
    pub fn seen_bytes(&self) -> u64 {
        self.seen_bytes
    }

    /// Bytes that were printed and are not in [`Output::text`].
    #[must_use]
    pub fn dropped_bytes(&self) -> u64 {
        self.seen_bytes - (self.head.len() + self.tail.len()) as u64
    }

    /// What was kept, with one line in the place of what was not.
    #[must_use]
    pub fn text(&self) -> String {
        let mut bytes = self.head.clone();
        if self.dropped_bytes() > 0 {
            bytes.extend(format!("\n[{} bytes left out]\n", self.dropped_bytes()).bytes());
        }
        bytes.extend(&self.tail);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_output_is_kept_whole() {
        let mut output = Output::default();
        output.push(b"clean, ");
        output.push(b"11/16384 files\n");
        assert_eq!(output.text(), "clean, 11/16384 files\n");
        assert_eq!(output.dropped_bytes(), 0);
    }

    #[test]
    fn of_a_flood_the_beginning_and_the_end_are_kept() {
        let mut output = Output::default();
        output.push(b"first");
        for _ in 0..40 {
            output.push(&vec![b'x'; 100_000]);
        }
        output.push(b"last");
        assert_eq!(output.seen_bytes(), 4_000_009);
        assert_eq!(output.dropped_bytes(), 4_000_009 - KEPT_BYTES as u64);
        let text = output.text();
        assert!(text.starts_with("firstx") && text.ends_with("xlast"));
        assert!(text.contains("bytes left out"));
    }
}
