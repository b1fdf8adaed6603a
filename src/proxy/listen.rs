//! The socket kubelet calls: bound late, replaced when stale, never taken from a live process,
//! made again when somebody deletes it.

#![expect(clippy::disallowed_methods, reason = "the sockets are this room's")]

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use tokio::net::{UnixListener, UnixStream};

/// A bound socket, removed when dropped if it is still ours.
pub struct Endpoint {
    pub listener: UnixListener,
    path: PathBuf,
    identity: (u64, u64),
}

/// Why the socket is not bound.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    #[error("a live process listens on {path}")]
    Live { path: PathBuf },
    #[error("{path} is there and is no socket")]
    NotASocket { path: PathBuf },
    #[error("cannot lock {path}")]
    Lock { path: PathBuf, source: io::Error },
    #[error("cannot look at {path}")]
    Look { path: PathBuf, source: io::Error },
    #[error("cannot remove the stale {path}")]
    Remove { path: PathBuf, source: io::Error },
    #[error("cannot bind {path}")]
    Bind { path: PathBuf, source: io::Error },
}

impl Endpoint {
    /// Binds `path`, mode 0600, in place of a socket that nobody listens on.
    ///
    /// # Errors
    /// [`BindError`]; [`BindError::Live`] if a process answers there.
    pub async fn bind(path: &Path) -> Result<Self, BindError> {
        let at = || path.to_owned();
        let dir = path.parent().unwrap_or(Path::new("/"));
        // Two guards that start at once must not each remove what the other has just bound. The
        // lock is on the directory: CSI allows no further file beside the socket.
        let lock = |source| BindError::Lock { path: dir.to_owned(), source };
        let dir = File::open(dir).map_err(lock)?;
        let _lock = Flock::lock(dir, FlockArg::LockExclusiveNonblock)
            .map_err(|(_, errno)| lock(errno.into()))?;
        match fs::symlink_metadata(path) {
            Err(none) if none.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(BindError::Look { path: at(), source }),
            Ok(there) if !there.file_type().is_socket() => {
                return Err(BindError::NotASocket { path: at() });
            }
            Ok(_) if is_live(path).await => return Err(BindError::Live { path: at() }),
            Ok(_) => {
                fs::remove_file(path).map_err(|source| BindError::Remove { path: at(), source })?;
            }
        }
        let bind = |source| BindError::Bind { path: at(), source };
        let listener = UnixListener::bind(path).map_err(bind)?;
        fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(bind)?;
        let identity = identity(path).ok_or_else(|| bind(io::ErrorKind::NotFound.into()))?;
        Ok(Self { listener, path: path.to_owned(), identity })
    }

    /// Is the socket still where it was bound?
    #[must_use]
    pub fn is_in_place(&self) -> bool {
        identity(&self.path) == Some(self.identity)
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        if self.is_in_place() {
            // Left behind it is stale, and the next guard replaces it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Only a refused connection proves that nobody listens: with a full backlog `connect` waits, and
/// any other error proves nothing.
async fn is_live(path: &Path) -> bool {
    let second = std::time::Duration::from_secs(1);
    match tokio::time::timeout(second, UnixStream::connect(path)).await {
        Ok(Err(error)) => error.kind() != io::ErrorKind::ConnectionRefused,
        Ok(Ok(_)) | Err(_) => true,
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let there = fs::symlink_metadata(path).ok()?;
    Some((there.dev(), there.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_stale_socket_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("csi.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let bound = Endpoint::bind(&path).await.unwrap();
        assert!(bound.is_in_place());
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    }

    #[tokio::test]
    async fn a_live_socket_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("csi.sock");
        let first = Endpoint::bind(&path).await.unwrap();
        let second = Endpoint::bind(&path).await;
        assert!(matches!(second, Err(BindError::Live { .. })));
        assert!(first.is_in_place());
    }

    #[tokio::test]
    async fn what_is_no_socket_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("csi.sock");
        fs::write(&path, "data").unwrap();
        let bound = Endpoint::bind(&path).await;
        assert!(matches!(bound, Err(BindError::NotASocket { .. })));
        assert_eq!(fs::read(&path).unwrap(), b"data");
    }

    #[tokio::test]
    async fn somebody_elses_socket_is_not_removed_on_the_way_out() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("csi.sock");
        let bound = Endpoint::bind(&path).await.unwrap();
        fs::remove_file(&path).unwrap();
        assert!(!bound.is_in_place());
        let other = Endpoint::bind(&path).await.unwrap();
        drop(bound);
        assert!(other.is_in_place());
        drop(other);
        assert!(!path.exists());
    }
}
