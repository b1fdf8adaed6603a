//! What trials keep in the state directory, and the redo of what was cut off.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::checks::{Subject, hold, on_thread, said};
use super::trial::{Identity, Quota, Trials};
use crate::facts::superblock::Uuid;
use crate::volume::VolumeId;

/// All that trials may keep: the design's 2 GiB.
///
/// A repair of a 1 TiB filesystem rewrites tens of megabytes, the journal of a large one 1 GiB. At
/// half, that would not fit; at double, the disk of a small node would be in danger.
const QUOTA_BYTES: u64 = 2 << 30;

/// The trials of a state directory, opened when first needed, and again until that works.
#[derive(Debug)]
pub(super) struct Shelf {
    dir: PathBuf,
    opened: Arc<OnceLock<Trials>>,
}

impl Shelf {
    pub(super) fn new(state_dir: &Path) -> Self {
        Self { dir: state_dir.join("trials"), opened: Arc::default() }
    }

    /// # Errors
    /// Why the directory cannot be used.
    pub(super) async fn trials(&self) -> Result<Trials, String> {
        if let Some(trials) = self.opened.get() {
            return Ok(trials.clone());
        }
        let (dir, opened) = (self.dir.clone(), Arc::clone(&self.opened));
        let open = move || {
            let trials =
                Trials::open(&dir, Quota::new(QUOTA_BYTES)).map_err(|error| said(&error))?;
            // Another call may have been faster: one quota is for all.
            Ok(opened.get_or_init(|| trials).clone())
        };
        on_thread(open).await.unwrap_or_else(|| Err("its thread was lost".into()))
    }

    /// The volumes whose devices may be half written.
    ///
    /// # Errors
    /// Why the directory cannot be used.
    pub(super) async fn pending(&self) -> Result<Vec<VolumeId>, String> {
        let trials = self.trials().await?;
        let list = move || {
            let pending = trials.pending().map_err(|error| said(&error))?;
            Ok(pending.iter().filter_map(|pending| pending.volume()).collect())
        };
        on_thread(list).await.unwrap_or_else(|| Err("its thread was lost".into()))
    }
}

/// Does again what was cut off on this device.
///
/// # Errors
/// Why the log does not fit it, or could not be written.
pub(super) async fn redo(
    trials: Trials,
    subject: Subject,
    fs_uuid: Option<Uuid>,
) -> Result<(), String> {
    let work = move || {
        let volume = subject.volume.clone();
        let held = hold(subject).map_err(|_| "its device cannot be held".to_owned())?;
        let fs_uuid = fs_uuid.map(|uuid| uuid.to_string());
        let identity = Identity { volume: volume.as_str().into(), fs_uuid };
        let pending = trials.pending().map_err(|error| said(&error))?;
        let own = pending.iter().filter(|pending| pending.volume().as_ref() == Some(&volume));
        own.map(|pending| trials.redo(pending, &held, &identity, &mut |_| {}))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| said(&error))?;
        Ok(())
    };
    on_thread(work).await.unwrap_or_else(|| Err("its thread was lost".into()))
}
