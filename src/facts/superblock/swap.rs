//! Swap space, and an image of a sleeping machine in it.
//!
//! Layout: mkswap(8); `union swap_header` in include/linux/swap.h: the magic fills the last ten
//! bytes of the first page, whose size is the machine's that made it.

use super::fields::Fields;

/// What lies in the swap space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Swap {
    Empty,
    /// A hibernated machine will wake up from here.
    Hibernated,
}

/// Page sizes of Linux machines, in bytes.
const PAGE_BYTES: [usize; 5] = [4096, 8192, 16_384, 32_768, 65_536];

/// Looks for swap space in the first 64 KiB of a device.
#[must_use]
pub fn parse(head: &[u8]) -> Option<Swap> {
    let fields = Fields(head);
    PAGE_BYTES.into_iter().find_map(|page| {
        let magic = |text: &[u8]| fields.has(page - 10, text);
        match () {
            () if magic(b"SWAPSPACE2") || magic(b"SWAP-SPACE") => Some(Swap::Empty),
            () if magic(b"S1SUSPEND\0") || magic(b"S2SUSPEND\0") => Some(Swap::Hibernated),
            () if magic(b"ULSUSPEND\0") || magic(b"LINHIB0001") => Some(Swap::Hibernated),
            () => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swap_is_found_for_every_page_size() {
        for page in PAGE_BYTES {
            let mut head = vec![0; 65_536];
            assert_eq!(parse(&head), None);
            head[page - 10..page].copy_from_slice(b"SWAPSPACE2");
            assert_eq!(parse(&head), Some(Swap::Empty), "{page}");
        }
    }
}
