//! Names of things a call speaks of, checked once so that nobody has to check them again.

use std::fmt;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

/// A CSI volume id that is safe to use as a file name and as part of a path.
///
/// Longhorn's volume names are Kubernetes object names; this type admits a little more: 1 to 253
/// ASCII letters, digits, `-`, `_`, `.`, and neither `.` nor `..`. An id of any other shape is
/// *malformed* and its call is forwarded unguarded.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct VolumeId(String);

/// The longest volume id taken, in bytes: a Kubernetes object name has at most 253, and a file
/// name at most 255.
const MAX_VOLUME_ID_BYTES: usize = 253;

/// The longest path taken, in bytes (`PATH_MAX`, limits.h).
const MAX_PATH_BYTES: usize = 4096;

/// Why a text is not the name it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unfit {
    Empty,
    TooLong,
    /// A character, or a sequence of them, that has no place there.
    Characters,
    /// A path that does not start at the root.
    Relative,
    /// A path that climbs (`..`).
    Climbs,
}

impl VolumeId {
    /// # Errors
    /// Says what is wrong with `text`.
    pub fn parse(text: &str) -> Result<Self, Unfit> {
        let fit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        match text {
            "" => Err(Unfit::Empty),
            _ if text.len() > MAX_VOLUME_ID_BYTES => Err(Unfit::TooLong),
            "." | ".." => Err(Unfit::Climbs),
            _ if !text.bytes().all(fit) => Err(Unfit::Characters),
            _ => Ok(Self(text.to_owned())),
        }
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for VolumeId {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text).map_err(|_| "not a volume id")
    }
}

impl From<VolumeId> for String {
    fn from(id: VolumeId) -> Self {
        id.0
    }
}

impl fmt::Display for VolumeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for VolumeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Where a volume's device is: an absolute path with `{volume_id}` in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DevicePath(String);

const PLACE: &str = "{volume_id}";

impl DevicePath {
    /// `None` if it is not absolute, or names the same device for all volumes.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        (text.starts_with('/') && text.contains(PLACE)).then(|| Self(text.to_owned()))
    }

    #[must_use]
    pub fn of(&self, volume: &VolumeId) -> PathBuf {
        self.0.replace(PLACE, volume.as_str()).into()
    }
}

impl Default for DevicePath {
    fn default() -> Self {
        Self(format!("/dev/longhorn/{PLACE}"))
    }
}

/// Where kubelet wants a volume staged: `<root>/plugins/kubernetes.io/csi/<driver>/<hash>/globalmount`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StagingPath(PathBuf);

/// Where kubelet wants a volume published: `<root>/pods/<uid>/volumes/kubernetes.io~csi/<pv>/mount`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TargetPath(PathBuf);

macro_rules! absolute_path {
    ($($name:ident),+) => {$(
        impl $name {
            /// # Errors
            /// Says what is wrong with `text`: a path here is absolute, has at most 4096 bytes,
            /// no NUL and no `..`.
            pub fn parse(text: &str) -> Result<Self, Unfit> {
                parse_path(text).map(Self)
            }

            #[must_use]
            pub fn as_path(&self) -> &Path {
                &self.0
            }
        }
    )+};
}

absolute_path!(StagingPath, TargetPath);

/// A filesystem type as a capability names it (`ext4`, `xfs`, …).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FsType(String);

impl FsType {
    /// # Errors
    /// Says what is wrong with `text`: 1 to 64 ASCII letters, digits, `_`, `-` or `.`.
    pub fn parse(text: &str) -> Result<Self, Unfit> {
        let fit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        match text {
            "" => Err(Unfit::Empty),
            _ if text.len() > 64 => Err(Unfit::TooLong),
            _ if !text.bytes().all(fit) => Err(Unfit::Characters),
            _ => Ok(Self(text.to_owned())),
        }
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The number of a device: what identifies it on a node, whatever its nodes are called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DevNumber {
    pub major: u32,
    pub minor: u32,
}

impl DevNumber {
    /// Reads `major:minor`, as the mount table and sysfs print it.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (major, minor) = text.split_once(':')?;
        Some(Self { major: major.parse().ok()?, minor: minor.parse().ok()? })
    }
}

impl fmt::Display for DevNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

fn parse_path(text: &str) -> Result<PathBuf, Unfit> {
    let path = Path::new(text);
    match text {
        "" => Err(Unfit::Empty),
        _ if text.len() > MAX_PATH_BYTES => Err(Unfit::TooLong),
        _ if text.contains('\0') => Err(Unfit::Characters),
        _ if !path.is_absolute() => Err(Unfit::Relative),
        _ if path.components().any(|part| part == Component::ParentDir) => Err(Unfit::Climbs),
        _ => Ok(path.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_could_leave_a_directory_is_no_volume_id() {
        let long = "v".repeat(4096);
        for (text, unfit) in [
            ("", Unfit::Empty),
            (".", Unfit::Climbs),
            ("..", Unfit::Climbs),
            ("../../etc/passwd", Unfit::Characters),
            ("a/b", Unfit::Characters),
            ("a\0b", Unfit::Characters),
            ("a\nb", Unfit::Characters),
            ("a b", Unfit::Characters),
            ("größe", Unfit::Characters),
            (long.as_str(), Unfit::TooLong),
        ] {
            assert_eq!(VolumeId::parse(text), Err(unfit), "{text:?}");
        }
    }

    #[test]
    fn longhorns_names_are_volume_ids() {
        for text in ["pvc-0b3bd19a-4ee5-4e7c-8f2c-1d0b0c1f8f6e", "v", "a.b_c-D9", &"v".repeat(253)]
        {
            assert_eq!(VolumeId::parse(text).unwrap().as_str(), text);
        }
    }

    #[test]
    fn a_path_is_absolute_and_does_not_climb() {
        let long = format!("/{}", "p".repeat(4096));
        for (text, unfit) in [
            ("", Unfit::Empty),
            ("relative/globalmount", Unfit::Relative),
            ("/var/lib/kubelet/../../etc", Unfit::Climbs),
            ("/var/lib\0/x", Unfit::Characters),
            (long.as_str(), Unfit::TooLong),
        ] {
            assert_eq!(StagingPath::parse(text), Err(unfit), "{text:?}");
            assert_eq!(TargetPath::parse(text), Err(unfit), "{text:?}");
        }
        let odd = "/var/lib/kubelet/a b\n\u{e9}/..c/globalmount";
        assert_eq!(StagingPath::parse(odd).unwrap().as_path(), Path::new(odd));
    }

    #[test]
    fn a_device_number_is_two_numbers() {
        let number = DevNumber { major: 259, minor: 1_048_575 };
        assert_eq!(DevNumber::parse("259:1048575"), Some(number));
        assert_eq!(number.to_string(), "259:1048575");
        for text in ["", ":", "8", "8:", "8:x", "8:0:1", "-1:0", "8:99999999999"] {
            assert_eq!(DevNumber::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_template_names_one_device_for_each_volume() {
        let volume = VolumeId::parse("pvc-1").unwrap();
        let of = |text| DevicePath::parse(text).map(|template| template.of(&volume));
        assert_eq!(DevicePath::default().of(&volume), Path::new("/dev/longhorn/pvc-1"));
        assert_eq!(of("/d/{volume_id}/x"), Some("/d/pvc-1/x".into()));
        for wrong in ["", "dev/{volume_id}", "/dev/longhorn/volume"] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }
}
