//! Numbers and texts at fixed places in bytes from a disk.

use super::Uuid;

/// Bytes from a disk. A field that does not lie in them is `None`, so no parser can panic.
#[derive(Debug, Clone, Copy)]
pub struct Fields<'a>(pub &'a [u8]);

macro_rules! numbers {
    ($($name:ident: $number:ident::$from:ident),+) => {$(
        #[must_use]
        pub fn $name(self, at: usize) -> Option<$number> {
            self.array(at).map($number::$from)
        }
    )+};
}

impl Fields<'_> {
    numbers!(
        le16: u16::from_le_bytes,
        le32: u32::from_le_bytes,
        le64: u64::from_le_bytes,
        be16: u16::from_be_bytes,
        be32: u32::from_be_bytes,
        be64: u64::from_be_bytes
    );

    #[must_use]
    pub fn byte(self, at: usize) -> Option<u8> {
        self.0.get(at).copied()
    }

    #[must_use]
    pub fn array<const N: usize>(self, at: usize) -> Option<[u8; N]> {
        self.0.get(at..)?.first_chunk().copied()
    }

    #[must_use]
    pub fn has(self, at: usize, magic: &[u8]) -> bool {
        self.0.get(at..).is_some_and(|rest| rest.starts_with(magic))
    }

    #[must_use]
    pub fn uuid(self, at: usize) -> Option<Uuid> {
        self.array(at).map(Uuid::from_bytes)
    }

    /// The text in `len` bytes at `at`, up to the first NUL. It goes to messages, so anything but
    /// printable ASCII becomes `?`.
    #[must_use]
    pub fn text(self, at: usize, len: usize) -> Option<String> {
        let bytes = self.0.get(at..)?.get(..len)?;
        let printable =
            |byte: &u8| if (b' '..=b'~').contains(byte) { char::from(*byte) } else { '?' };
        Some(bytes.iter().take_while(|byte| **byte != 0).map(printable).collect())
    }
}

/// Whether every byte is zero. Compared in blocks: the first look at a new volume goes through
/// megabytes.
#[must_use]
pub fn is_zero(bytes: &[u8]) -> bool {
    bytes.chunks(ZEROS.len()).all(|chunk| ZEROS.starts_with(chunk))
}

/// Where the first byte that is not zero lies.
#[must_use]
pub fn first_nonzero(bytes: &[u8]) -> Option<usize> {
    let chunk = bytes.chunks(ZEROS.len()).position(|chunk| !ZEROS.starts_with(chunk))?;
    let from = chunk * ZEROS.len();
    bytes[from..].iter().position(|byte| *byte != 0).map(|at| from + at)
}

const ZEROS: [u8; 4096] = [0; 4096];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_past_the_end_is_none() {
        let fields = Fields(&[1, 0, 0, 0, 2]);
        assert_eq!(fields.le32(0), Some(1));
        assert_eq!(fields.le32(2), None);
        assert_eq!(fields.le16(9), None);
        assert_eq!(fields.text(3, 3), None);
    }

    #[test]
    fn text_from_a_disk_is_printable_ascii() {
        assert_eq!(Fields(b"a\n\xffb\0c").text(0, 6).unwrap(), "a??b");
    }

    #[test]
    fn one_bit_among_zeros_is_found() {
        let mut bytes = vec![0; 10_000];
        assert!(is_zero(&bytes));
        assert_eq!(first_nonzero(&bytes), None);
        bytes[9_999] = 1;
        assert!(!is_zero(&bytes));
        assert_eq!(first_nonzero(&bytes), Some(9_999));
    }
}
