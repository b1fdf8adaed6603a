//! What was read of a device: which ranges, with which outcome. The rest is *not read*, which is
//! never the same as *empty*.

use std::fmt;

use nix::errno::Errno;

/// A stretch of a device, in bytes from its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteRange {
    pub offset_bytes: u64,
    pub len_bytes: u64,
}

/// Why a range that exists could not be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// What read(2) said: EIO, ENODATA, ENXIO, ….
    Errno(Errno),
    /// Fewer bytes came than the device's size promises.
    Short,
}

/// How the reading of one range went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// What came, in order. Fewer bytes than asked for make the rest a [`Failure::Short`].
    Bytes(Vec<u8>),
    Failed(Failure),
}

/// What is known about one range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read<'a> {
    Bytes(&'a [u8]),
    /// Nobody has tried yet.
    NotRead,
    Failed {
        failure: Failure,
        offset_bytes: u64,
    },
    /// The device is too small to have this range.
    PastEnd,
}

/// The bytes of a device as far as they were read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceBytes {
    size_bytes: u64,
    spans: Vec<Span>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Span {
    range: ByteRange,
    content: Result<Vec<u8>, Failure>,
}

impl ByteRange {
    #[must_use]
    pub fn new(offset_bytes: u64, len_bytes: u64) -> Self {
        Self { offset_bytes, len_bytes }
    }

    /// The first byte after the range; the largest number where that does not fit.
    #[must_use]
    pub fn end_bytes(self) -> u64 {
        self.offset_bytes.saturating_add(self.len_bytes)
    }

    #[must_use]
    pub fn contains(self, other: Self) -> bool {
        self.offset_bytes <= other.offset_bytes && other.end_bytes() <= self.end_bytes()
    }

    #[must_use]
    pub fn overlaps(self, other: Self) -> bool {
        self.offset_bytes < other.end_bytes() && other.offset_bytes < self.end_bytes()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Errno(errno) => write!(f, "{errno:?} ({})", errno.desc()),
            Self::Short => f.write_str("fewer bytes than its size promises"),
        }
    }
}

impl DeviceBytes {
    /// A device of `size_bytes` (`BLKGETSIZE64`) of which nothing was read yet.
    #[must_use]
    pub fn new(size_bytes: u64) -> Self {
        Self { size_bytes, spans: Vec::new() }
    }

    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Records how the reading of `range` went.
    pub fn put(&mut self, range: ByteRange, outcome: Outcome) {
        let mut bytes = match outcome {
            Outcome::Bytes(bytes) => bytes,
            Outcome::Failed(failure) => {
                self.spans.push(Span { range, content: Err(failure) });
                return;
            }
        };
        bytes.truncate(usize::try_from(range.len_bytes).unwrap_or(usize::MAX));
        let came = bytes.len() as u64;
        if came < range.len_bytes {
            let rest = ByteRange::new(range.offset_bytes + came, range.len_bytes - came);
            self.spans.push(Span { range: rest, content: Err(Failure::Short) });
        }
        if came > 0 {
            let range = ByteRange::new(range.offset_bytes, came);
            self.spans.push(Span { range, content: Ok(bytes) });
        }
    }

    /// What is known of the `len` bytes at `offset_bytes`. They must lie in one range that was
    /// read; a plan merges what touches, so a format's own structures do.
    #[must_use]
    pub fn at(&self, offset_bytes: u64, len: usize) -> Read<'_> {
        let wanted = ByteRange::new(offset_bytes, len as u64);
        if wanted.end_bytes() > self.size_bytes {
            return Read::PastEnd;
        }
        let mut failed = None;
        for span in &self.spans {
            match &span.content {
                Ok(bytes) if span.range.contains(wanted) => {
                    if let Some(found) = slice(bytes, offset_bytes - span.range.offset_bytes, len) {
                        return Read::Bytes(found);
                    }
                }
                Err(failure) if span.range.overlaps(wanted) => {
                    let offset_bytes = span.range.offset_bytes.max(offset_bytes);
                    failed = failed.or(Some(Read::Failed { failure: *failure, offset_bytes }));
                }
                _ => {}
            }
        }
        failed.unwrap_or(Read::NotRead)
    }

    /// The bytes of that range, where they were read.
    #[must_use]
    pub fn bytes(&self, offset_bytes: u64, len: usize) -> Option<&[u8]> {
        match self.at(offset_bytes, len) {
            Read::Bytes(bytes) => Some(bytes),
            Read::NotRead | Read::Failed { .. } | Read::PastEnd => None,
        }
    }

    /// Every range that was read, with its bytes.
    pub fn read_ranges(&self) -> impl Iterator<Item = (ByteRange, &[u8])> {
        self.spans.iter().filter_map(|span| Some((span.range, span.content.as_deref().ok()?)))
    }
}

fn slice(bytes: &[u8], from: u64, len: usize) -> Option<&[u8]> {
    bytes.get(usize::try_from(from).ok()?..)?.get(..len)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device() -> DeviceBytes {
        let mut device = DeviceBytes::new(8192);
        device.put(ByteRange::new(0, 4096), Outcome::Bytes(vec![7; 4096]));
        device
    }

    #[test]
    fn what_nobody_read_is_not_empty() {
        assert_eq!(device().at(4096, 512), Read::NotRead);
        assert_eq!(device().at(4000, 512), Read::NotRead);
        assert_eq!(device().at(4000, 96), Read::Bytes(&[7; 96]));
    }

    #[test]
    fn a_range_behind_the_end_is_no_failure() {
        assert_eq!(device().at(8192, 1), Read::PastEnd);
        assert_eq!(device().at(u64::MAX, usize::MAX), Read::PastEnd);
    }

    #[test]
    fn a_short_read_names_where_it_ended() {
        let mut device = DeviceBytes::new(8192);
        device.put(ByteRange::new(0, 4096), Outcome::Bytes(vec![7; 1000]));
        let failed = Read::Failed { failure: Failure::Short, offset_bytes: 1000 };
        assert_eq!(device.at(512, 1024), failed);
        assert_eq!(device.at(0, 1000), Read::Bytes(&[7; 1000]));
    }

    #[test]
    fn a_later_success_heals_an_earlier_failure() {
        let mut device = DeviceBytes::new(8192);
        let range = ByteRange::new(0, 4096);
        device.put(range, Outcome::Failed(Failure::Errno(Errno::EIO)));
        assert!(matches!(device.at(0, 512), Read::Failed { .. }));
        device.put(range, Outcome::Bytes(vec![0; 4096]));
        assert_eq!(device.at(0, 512), Read::Bytes(&[0; 512]));
    }
}
