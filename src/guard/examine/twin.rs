//! Another filesystem with the same UUID on this node: a clone or a restored snapshot beside its
//! source, which the kernel refuses to mount, and says "wrong fs type, bad option" (case 14).

use super::{Examiner, Subject};
use crate::facts::bytes::{ByteRange, DeviceBytes};
use crate::facts::device::{DeviceFacts, Node};
use crate::facts::mounts::Mount;
use crate::facts::superblock::Reading;
use crate::facts::superblock::xfs::Superblock;
use crate::format::{Content, Filesystem};
use crate::host::Host;

/// How much is read of another device, in bytes: the superblock is the first sector.
const HEAD_BYTES: u64 = 4096;

impl<H: Host> Examiner<'_, H> {
    /// The device of a mounted xfs that has the UUID of the one in `content`, if a mount of that
    /// failed just now.
    pub(super) async fn find_twin(
        &self,
        subject: &Subject,
        facts: &DeviceFacts,
        content: &Content,
    ) -> Option<String> {
        let Content::Filesystem(Filesystem::Xfs { superblock, .. }) = content else { return None };
        if !subject.mount_failed {
            return None;
        }
        let mounts = self.host.read_mounts().await.ok()?;
        let others =
            mounts.iter().filter(|mount| mount.fs_type == "xfs" && mount.number != facts.number);
        for other in others {
            if self.read_other(other).await.is_some_and(|other| other.uuid == superblock.uuid) {
                return Some(format!("{} ({})", other.source.display(), other.number));
            }
        }
        None
    }

    /// The superblock of a mounted device, if its path still leads to it.
    async fn read_other(&self, mount: &Mount) -> Option<Superblock> {
        let (Node::Device(facts), _) = self.host.read_device(&mount.source).await.ok()? else {
            return None;
        };
        if facts.number != mount.number {
            return None;
        }
        let mut bytes = DeviceBytes::new(facts.size_bytes?);
        let head = [ByteRange::new(0, HEAD_BYTES)];
        self.host.read_content(&facts.path, facts.number, &head, &mut bytes).await.ok()?;
        match Superblock::parse(bytes.bytes(0, 512)?) {
            Reading::Intact(superblock) => Some(superblock),
            Reading::Absent | Reading::Damaged(_) => None,
        }
    }
}
