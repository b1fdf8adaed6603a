//! What is on an image, to the last bit.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{SeekFrom, seek};
use sha2::{Digest, Sha256};

const BLOCK: usize = 4096;

/// SHA-256 over the length and every block that is not zero, with its place: an image is mostly
/// holes.
pub fn fingerprint(image: &Path) -> [u8; 32] {
    let file = File::open(image).unwrap();
    let length = file.metadata().unwrap().len();
    let mut hash = Sha256::new();
    hash.update(length.to_le_bytes());
    let mut buffer = vec![0; 1 << 20];
    let mut offset = 0;
    while let Ok(data) = seek(&file, SeekFrom::Data(offset)) {
        // From the start of a block: where the data begins says nothing of what it is.
        offset = data / BLOCK as u64 * BLOCK as u64;
        let came = usize::try_from((length - offset).min(buffer.len() as u64)).unwrap();
        file.read_exact_at(&mut buffer[..came], offset).unwrap();
        for (at, block) in buffer[..came].chunks(BLOCK).enumerate() {
            if block.iter().any(|byte| *byte != 0) {
                hash.update((offset + (at * BLOCK) as u64).to_le_bytes());
                hash.update(block);
            }
        }
        offset += came as u64;
    }
    hash.finalize().into()
}
