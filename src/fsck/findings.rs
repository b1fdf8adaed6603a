//! What a checker found first, fit for a message.

use std::fmt;

/// Lines that are kept: the first says what is wrong, the others what kind of damage it is.
const MAX_LINES: usize = 3;

/// The longest line that is kept, in bytes: three of them, and the rest of a refusal, fit into the
/// 900 bytes of an answer.
const MAX_LINE_BYTES: usize = 130;

/// The first things a checker found, in its own words. ASCII, without control characters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    lines: Vec<String>,
    /// How many there were, kept or not.
    count: usize,
}

impl Findings {
    pub(super) fn of<'a>(lines: impl IntoIterator<Item = &'a str>) -> Self {
        let mut findings = Self::default();
        for line in lines {
            findings.count += 1;
            if findings.lines.len() < MAX_LINES {
                findings.lines.push(plain(line));
            }
        }
        findings
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    #[must_use]
    pub fn lines(&self) -> &[String] {
        &self.lines
    }

    /// The first line alone, for a text that speaks of two checks.
    #[must_use]
    pub fn first(&self) -> &str {
        self.lines.first().map_or("nothing it says", String::as_str)
    }

    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("nothing it says");
        }
        write!(f, "\"{}\"", self.lines.join("; "))?;
        match self.count - self.lines.len() {
            0 => Ok(()),
            more => write!(f, " and {more} more lines"),
        }
    }
}

/// What is not printable ASCII becomes `?`: a filesystem's label and names are its own.
fn plain(line: &str) -> String {
    let shown = line.chars().map(|c| if matches!(c, ' '..='~') { c } else { '?' });
    let mut text: String = shown.take(MAX_LINE_BYTES + 1).collect();
    if text.len() > MAX_LINE_BYTES {
        text.truncate(MAX_LINE_BYTES - 3);
        text.push_str("...");
    }
    text
}
