//! How much of a binary is loaded.

/// Bytes of all loadable segments, if this is a 64-bit little-endian ELF file.
///
/// Offsets from elf(5), `Elf64_Ehdr` and `Elf64_Phdr`.
pub fn loaded_bytes(file: &[u8]) -> Option<u64> {
    const LOAD: u64 = 1;
    file.starts_with(b"\x7fELF\x02\x01").then_some(())?;
    let table = usize::try_from(number(file, 0x20, 8)?).ok()?;
    let entry = usize::try_from(number(file, 0x36, 2)?).ok()?;
    let entries = usize::try_from(number(file, 0x38, 2)?).ok()?;
    (0..entries).map(|index| table + index * entry).try_fold(0, |sum, at| {
        let loaded = number(file, at, 4)? == LOAD;
        Some(if loaded { sum + number(file, at + 0x20, 8)? } else { sum })
    })
}

fn number(file: &[u8], at: usize, width: usize) -> Option<u64> {
    let bytes = file.get(at..at + width)?;
    Some(bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}

pub fn tests() -> Vec<libtest_mimic::Trial> {
    crate::tests![this_binary_is_loaded_in_part, a_text_is_no_binary]
}

fn this_binary_is_loaded_in_part() {
    let own = std::fs::read("/proc/self/exe").unwrap();
    let loaded = loaded_bytes(&own).unwrap();
    assert!(loaded > 100_000 && loaded < own.len() as u64, "{loaded} of {}", own.len());
}

fn a_text_is_no_binary() {
    assert_eq!(loaded_bytes(b"#!/bin/sh\n"), None);
}
