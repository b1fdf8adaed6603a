//! What kubelet believes to be mounted: its actual state of the world.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use tonic::Code;

/// What kubelet takes a path for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Belief {
    Unmounted,
    /// A mount may be under way: it will be undone when the pod goes.
    Uncertain,
    Mounted,
}

/// Whether an answer means "for sure not in progress" (`isFinalError`, csi_client.go).
pub fn is_final(code: Code) -> bool {
    !matches!(
        code,
        Code::Cancelled
            | Code::DeadlineExceeded
            | Code::Unavailable
            | Code::ResourceExhausted
            | Code::Aborted
    )
}

#[derive(Debug, Default)]
pub struct Beliefs {
    /// Every path ever asked for.
    paths: HashMap<PathBuf, Belief>,
}

impl Beliefs {
    pub fn of(&self, path: &Path) -> Belief {
        self.paths.get(path).copied().unwrap_or(Belief::Unmounted)
    }

    pub fn unmounted(&self) -> Vec<PathBuf> {
        let is_unmounted = |(_, belief): &(&PathBuf, &Belief)| **belief == Belief::Unmounted;
        self.paths.iter().filter(is_unmounted).map(|(path, _)| path.clone()).collect()
    }

    /// `markDeviceErrorState`, `markVolumeErrorState`: a final error erases an uncertainty, but
    /// never a mount that is known.
    pub fn mount_ended(&mut self, path: &Path, result: Result<(), Code>) {
        let next = match (self.of(path), result) {
            (_, Ok(())) | (Belief::Mounted, Err(_)) => Belief::Mounted,
            (Belief::Uncertain | Belief::Unmounted, Err(code)) if is_final(code) => {
                Belief::Unmounted
            }
            (Belief::Uncertain | Belief::Unmounted, Err(_)) => Belief::Uncertain,
        };
        self.paths.insert(path.to_owned(), next);
    }

    /// Any failure of an unmount is an uncertainty.
    pub fn unmount_ended(&mut self, path: &Path, is_ok: bool) {
        let next = if is_ok { Belief::Unmounted } else { Belief::Uncertain };
        self.paths.insert(path.to_owned(), next);
    }

    /// Whether any path that `fits` may be mounted.
    pub fn has_user(&self, fits: &dyn Fn(&Path) -> bool) -> bool {
        self.paths.iter().any(|(path, belief)| *belief != Belief::Unmounted && fits(path))
    }
}
