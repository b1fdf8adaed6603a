//! Growing a filesystem to its device, as k8s.io/mount-utils does after every mount.

use std::path::Path;

use super::process::Life;
use super::tools::Ended;
use crate::support::disk::path_str;

impl Life {
    /// Grows the filesystem on `device`, mounted at `mount`, where the device is larger.
    ///
    /// # Errors
    /// What the tool that measures or the tool that grows said.
    pub async fn resize(&self, volume: &str, device: &Path, mount: &Path) -> Result<(), String> {
        if self.measure(volume, &["--getro", path_str(device)]).await? == 1 {
            return Ok(());
        }
        let device_bytes = self.measure(volume, &["--getsize64", path_str(device)]).await?;
        let format = self.disk_format(volume, device).await?;
        let (fs_bytes, block_bytes) = match format.as_str() {
            "" => return Ok(()),
            "ext3" | "ext4" => self.ext_size(volume, device).await?,
            "xfs" => self.xfs_size(volume, mount).await?,
            "btrfs" => self.btrfs_size(volume, device).await?,
            other => Err(format!("could not parse fs info of given filesystem format: {other}"))?,
        };
        // mount-utils forgives a difference of one block.
        if device_bytes <= fs_bytes + block_bytes {
            return Ok(());
        }
        let grown = match format.as_str() {
            "xfs" => self.run(volume, "xfs_growfs", &["-d", path_str(mount)]).await,
            "btrfs" => {
                self.run(volume, "btrfs", &["filesystem", "resize", "max", path_str(mount)]).await
            }
            _ => self.run(volume, "resize2fs", &[path_str(device)]).await,
        };
        succeeded(grown, "resize").map(drop)
    }

    async fn measure(&self, volume: &str, args: &[&str]) -> Result<u64, String> {
        let text = succeeded(self.run(volume, "blockdev", args).await, "blockdev")?;
        text.trim().parse().map_err(|_| format!("blockdev printed {text}"))
    }

    async fn ext_size(&self, volume: &str, device: &Path) -> Result<(u64, u64), String> {
        let shown = self.run(volume, "dumpe2fs", &["-h", path_str(device)]).await;
        let text = succeeded(shown, "dumpe2fs")?;
        let block_bytes = value(&text, |c| c == ':', "Block size")?;
        Ok((value(&text, |c| c == ':', "Block count")? * block_bytes, block_bytes))
    }

    async fn xfs_size(&self, volume: &str, mount: &Path) -> Result<(u64, u64), String> {
        let shown = self.run(volume, "xfs_io", &["-c", "statfs", path_str(mount)]).await;
        let text = succeeded(shown, "xfs_io")?;
        let block_bytes = value(&text, |c| c == '=', "geom.bsize")?;
        Ok((value(&text, |c| c == '=', "geom.datablocks")? * block_bytes, block_bytes))
    }

    async fn btrfs_size(&self, volume: &str, device: &Path) -> Result<(u64, u64), String> {
        let args = ["inspect-internal", "dump-super", path_str(device)];
        let text = succeeded(self.run(volume, "btrfs", &args).await, "btrfs")?;
        let total = value(&text, char::is_whitespace, "total_bytes")?;
        Ok((total, value(&text, char::is_whitespace, "sectorsize")?))
    }
}

fn succeeded(ended: Ended, what: &str) -> Result<String, String> {
    match ended.is_ok() {
        true => Ok(ended.output),
        false => Err(format!("{what} failed: {}: {}", ended.status(), ended.output)),
    }
}

/// The number behind `key` and a separator, on a line of its own.
fn value(text: &str, separator: fn(char) -> bool, key: &str) -> Result<u64, String> {
    let number = |line: &str| {
        let (name, value) = line.split_once(separator)?;
        (name.trim() == key).then(|| value.trim().parse::<u64>().ok())?
    };
    text.lines().find_map(number).ok_or_else(|| format!("no {key} in {text}"))
}
