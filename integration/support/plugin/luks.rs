//! A model of LUKS for kernels without dm-crypt.
//!
//! "Format" writes a header that blkid calls `crypto_LUKS`, with the passphrase's hash in it;
//! "open" maps what lies behind the header with a loop device and holds the encrypted device
//! exclusively, as dm does. The content is not encrypted. What is faithful: who writes where and
//! when, that a blank read leads to a new header over the old one, and who holds which device.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use tonic::Status;

use super::process::Life;

/// LUKS2's magic and its version, big-endian.
const MAGIC: [u8; 8] = *b"LUKS\xba\xbe\x00\x02";

/// Where the model keeps the hash of the passphrase: past all fields blkid reads.
const HASH_OFFSET_BYTES: u64 = 2048;

/// Where the plain content begins: cryptsetup's default.
const DATA_OFFSET_BYTES: u64 = 16 << 20;

impl Life {
    /// Formats where blkid found nothing, opens as `name`, and returns the plain device.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for a missing passphrase or another content, INTERNAL for the rest.
    pub fn open_encrypted(
        &self,
        volume: &str,
        name: &str,
        device: &Path,
        format: &str,
        secrets: &HashMap<String, String>,
    ) -> Result<PathBuf, Status> {
        let secret = |key: &str| secrets.get(key).map_or("", String::as_str);
        if !matches!(secret("CRYPTO_KEY_PROVIDER"), "" | "secret") {
            return Err(Status::invalid_argument(format!(
                "unsupported key provider {} for encrypted volume {volume}",
                secret("CRYPTO_KEY_PROVIDER")
            )));
        }
        let passphrase = secret("CRYPTO_KEY_VALUE");
        if passphrase.is_empty() {
            let text = format!("missing passphrase for encrypted volume {volume}");
            return Err(Status::invalid_argument(text));
        }
        match format {
            "" => self.luks_format(volume, device, passphrase)?,
            "crypto_LUKS" => {}
            other => {
                let text = format!("unsupported disk encryption format {other}");
                return Err(Status::invalid_argument(text));
            }
        }
        self.luks_open(volume, name, device, passphrase)
    }

    fn luks_format(&self, volume: &str, device: &Path, passphrase: &str) -> Result<(), Status> {
        let mut header = vec![0; 4096];
        header[..MAGIC.len()].copy_from_slice(&MAGIC);
        let at = HASH_OFFSET_BYTES as usize;
        header[at..at + 32].copy_from_slice(&hash(passphrase));
        let written = OpenOptions::new()
            .write(true)
            .open(device)
            .and_then(|file| file.write_all_at(&header, 0).and_then(|()| file.sync_all()));
        self.note_run(volume, "luksFormat", device, i32::from(written.is_err()), "");
        written.map_err(|error| Status::internal(format!("luksFormat: {error}")))
    }

    fn luks_open(
        &self,
        volume: &str,
        name: &str,
        device: &Path,
        passphrase: &str,
    ) -> Result<PathBuf, Status> {
        let mut header = vec![0; 4096];
        let read = File::open(device).and_then(|file| file.read_exact_at(&mut header, 0));
        let at = HASH_OFFSET_BYTES as usize;
        let opened = match read {
            Err(error) => Err(error.to_string()),
            Ok(()) if header[..MAGIC.len()] != MAGIC => {
                Err(format!("Device {} is not a valid LUKS device.", device.display()))
            }
            Ok(()) if header[at..at + 32] != hash(passphrase) => {
                Err("No key available with this passphrase.".to_owned())
            }
            Ok(()) => {
                let mapped = self.shared.host.map(volume, name, device, DATA_OFFSET_BYTES);
                mapped.map_err(|error| format!("Cannot use device {}: {error}", device.display()))
            }
        };
        let text = opened.as_ref().err().cloned().unwrap_or_default();
        self.note_run(volume, "luksOpen", device, i32::from(opened.is_err()), &text);
        opened.map_err(|error| Status::internal(format!("luksOpen: {error}")))
    }

    /// Closes what was opened for `volume`, if anything.
    pub fn luks_close(&self, volume: &str) {
        if let Some(plain) = self.shared.host.is_mapped(volume) {
            self.shared.host.unmap(volume);
            self.note_run(volume, "luksClose", &plain, 0, "");
        }
    }
}

fn hash(passphrase: &str) -> [u8; 32] {
    Sha256::digest(passphrase.as_bytes()).into()
}
