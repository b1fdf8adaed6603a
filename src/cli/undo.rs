//! `mount-guard undo RECORD`: puts the old blocks of a repair back.

use std::path::{Path, PathBuf};

use crate::config::Places;
use crate::facts::bytes::DeviceBytes;
use crate::facts::device::Node;
use crate::facts::memory::Event;
use crate::facts::superblock::Uuid;
use crate::format::{self, Content, Step};
use crate::host::linux::LinuxHost;
use crate::host::trial::{
    HeldDevice, HoldError, Identity, LogError, Quota, RedoError, StateError, Trials,
};
use crate::host::{Host, HostError, LoopDevice};
use crate::volume::VolumeId;

/// Why a repair was not put back. But for [`UndoError::Undo`], nothing was written.
#[derive(Debug, thiserror::Error)]
pub(super) enum UndoError {
    #[error("cannot use the state directory")]
    State(#[from] StateError),
    #[error("cannot read the record")]
    Record(#[from] LogError),
    #[error("{record} names no volume")]
    NoVolume { record: PathBuf },
    #[error("there is no device at {path}; --device names another")]
    NoDevice { path: PathBuf },
    #[error("cannot use the file as a disk")]
    Image { source: std::io::Error },
    #[error("cannot look at the device")]
    Look(#[from] HostError),
    #[error("cannot hold the device")]
    Hold(#[from] HoldError),
    #[error("cannot undo")]
    Undo(#[from] RedoError),
}

/// # Errors
/// Why nothing was put back.
pub(super) fn run(
    record: &Path,
    device: Option<&Path>,
    places: &Places,
    host: &LinuxHost,
) -> Result<String, UndoError> {
    let trials = Trials::open(&places.state_dir.join("trials"), Quota::new(u64::MAX))?;
    // A bare name is one in the state directory.
    let record = match record.components().count() {
        1 => trials.dir().join(record),
        _ => record.to_owned(),
    };
    let header = Trials::read_header(&record)?;
    let volume = VolumeId::parse(&header.identity.volume)
        .map_err(|_| UndoError::NoVolume { record: record.clone() })?;
    let named = device.map_or_else(|| places.device_path.of(&volume), Path::to_owned);
    let image = match crate::host::is_file(&named) {
        true => Some(LoopDevice::over(&named).map_err(|source| UndoError::Image { source })?),
        false => None,
    };
    let device = image.as_ref().map_or(named, |image| image.path().to_owned());
    let fs_uuid = super::wait_for(read_uuid(host, &device))?;
    let held = HeldDevice::hold(&device)?;
    let fs_uuid = fs_uuid.map(|uuid| uuid.to_string());
    let identity = Identity { volume: volume.as_str().into(), fs_uuid };
    trials.undo(&record, &held, &identity, &mut |_| {})?;
    drop(held);
    // What the repair mended is damaged again.
    let remembered = super::wait_for(host.remember(&volume, &Event::Recheck));
    let next = match remembered {
        Ok(()) => "it is checked when it is staged next",
        Err(_) => "run `mount-guard recheck` for it: that could not be written down",
    };
    Ok(format!("{volume} is what it was before the repair; {next}"))
}

async fn read_uuid(host: &LinuxHost, device: &Path) -> Result<Option<Uuid>, UndoError> {
    let absent = || UndoError::NoDevice { path: device.into() };
    let (Node::Device(facts), _) = host.read_device(device).await? else { return Err(absent()) };
    let mut bytes = DeviceBytes::new(facts.size_bytes.ok_or_else(absent)?);
    loop {
        match format::identify(&bytes) {
            Step::Is(Content::Filesystem(fs)) => return Ok(fs.uuid()),
            Step::Is(_) => return Ok(None),
            Step::Needs(plan) => {
                host.read_content(device, facts.number, plan.ranges(), &mut bytes).await?;
            }
        }
    }
}
