//! SafeFormatAndMount of k8s.io/mount-utils, with the parameters Longhorn forces on mkfs.

use std::path::Path;

use tonic::Status;

use super::process::Life;
use crate::support::disk::path_str;

/// Printed by mount-utils where blkid found a partition table.
const PARTITIONED: &str = "unknown data, probably partitions";

/// One filesystem to be mounted.
#[derive(Debug)]
pub struct Wanted<'a> {
    pub volume: &'a str,
    pub device: &'a Path,
    pub target: &'a Path,
    pub fs_type: &'a str,
    pub options: Vec<String>,
    /// The StorageClass's `mkfsParams`.
    pub mkfs_params: Vec<String>,
}

impl Life {
    /// What blkid finds on `device`; empty where it finds nothing.
    ///
    /// # Errors
    /// blkid's own failure. A device that is missing or unreadable is *not* one: it exits with 2,
    /// as it does for a blank device.
    pub async fn disk_format(&self, volume: &str, device: &Path) -> Result<String, String> {
        let args = ["-p", "-s", "TYPE", "-s", "PTTYPE", "-o", "export", path_str(device)];
        let found = self.run(volume, "blkid", &args).await;
        match found.exit {
            Some(2) => return Ok(String::new()),
            Some(0) => {}
            _ => return Err(found.status()),
        }
        let value = |key: &str| found.output.lines().find_map(|line| line.strip_prefix(key));
        Ok(match (value("TYPE="), value("PTTYPE=")) {
            (_, Some(_)) => PARTITIONED.to_owned(),
            (Some(fs_type), None) => fs_type.to_owned(),
            (None, None) => String::new(),
        })
    }

    /// Makes a filesystem on a blank device, checks one that is there, and mounts.
    ///
    /// # Errors
    /// INTERNAL, in the plugin's words.
    pub async fn format_and_mount(&self, wanted: &Wanted<'_>) -> Result<(), Status> {
        let read_only = wanted.options.iter().any(|option| option == "ro");
        let existing =
            self.disk_format(wanted.volume, wanted.device).await.map_err(Status::internal)?;
        match (existing.as_str(), read_only) {
            ("", true) => Err(Status::internal(format!(
                "cannot mount unformatted disk {} as we are manipulating it in read-only mode",
                wanted.device.display()
            )))?,
            ("", false) => self.make_filesystem(wanted).await?,
            (_, false) => self.check(wanted).await?,
            (_, true) => {}
        }
        let options = [wanted.options.as_slice(), &["defaults".to_owned()]].concat().join(",");
        let (device, target) = (path_str(wanted.device), path_str(wanted.target));
        let args = ["-t", wanted.fs_type, "-o", options.as_str(), device, target];
        self.mount(wanted.volume, wanted.target, &args).await.map_err(|error| {
            if existing.is_empty() || existing == wanted.fs_type {
                return Status::internal(error);
            }
            Status::internal(format!(
                "failed to mount the volume as \"{}\", it already contains {existing}. {error}",
                wanted.fs_type
            ))
        })
    }

    async fn make_filesystem(&self, wanted: &Wanted<'_>) -> Result<(), Status> {
        let device = wanted.device.display();
        if !self.habits().formats_what_blkid_calls_blank {
            return Err(Status::internal(format!("disk {device} appears to be unformatted")));
        }
        let (forced, own): (&[&str], &[&str]) = match wanted.fs_type {
            "ext4" => (&["-b4096"], &["-F", "-m0"]),
            "ext3" => (&[], &["-F", "-m0"]),
            "xfs" => (&["-ssize=4096", "-bsize=4096"], &["-f"]),
            _ => (&[], &[]),
        };
        let asked: Vec<&str> = wanted.mkfs_params.iter().map(String::as_str).collect();
        let args = [forced, &asked, own, &[path_str(wanted.device)]].concat();
        let made = self.run(wanted.volume, &format!("mkfs.{}", wanted.fs_type), &args).await;
        if made.is_ok() {
            return Ok(());
        }
        Err(Status::internal(format!(
            "format of disk \"{device}\" failed: type:(\"{}\") target:(\"{}\") options:(\"{}\") \
             errcode:({}) output:({})",
            wanted.fs_type,
            wanted.target.display(),
            wanted.options.join(","),
            made.status(),
            made.output
        )))
    }

    /// `fsck -a`: only the exit code 4 stops the plugin; a missing or killed fsck does not.
    async fn check(&self, wanted: &Wanted<'_>) -> Result<(), Status> {
        let device = path_str(wanted.device);
        let checked = self.run(wanted.volume, "fsck", &["-a", device]).await;
        match checked.exit {
            Some(4) => Err(Status::internal(format!(
                "'fsck' found errors on device {device} but could not correct them: {}",
                checked.output
            ))),
            Some(exit) if exit > 4 && !self.habits().ignores_fsck_exit_above_4 => {
                Err(Status::internal(format!("`fsck` error {}", checked.output)))
            }
            _ => Ok(()),
        }
    }
}
