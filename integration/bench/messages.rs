//! The calls of the bench, encoded before the clock starts.

use bytes::{BufMut, Bytes, BytesMut};
use mount_guard::csi::{
    NodeGetCapabilitiesRequest, NodeGetVolumeStatsRequest, NodePublishVolumeRequest,
    NodeStageVolumeRequest, NodeUnpublishVolumeRequest, NodeUnstageVolumeRequest, VolumeCapability,
    volume_capability::{AccessMode, AccessType, MountVolume, access_mode::Mode},
};
use prost::Message;

use super::client::Answer;
use super::plugin;

/// A volume the plugin stand-in does not know.
pub const ABSENT: &str = "absent";
/// A volume whose statistics never come.
pub const SLOW: &str = "slow";

const NODE: &str = "http://localhost/csi.v1.Node/";

pub struct Call {
    pub path: String,
    /// The message in gRPC's frame.
    pub body: Bytes,
    pub expected: Answer,
}

/// Volumes nobody has seen before: nothing a proxy remembers of one helps with the next.
#[derive(Default)]
pub struct Volumes {
    count: usize,
}

pub struct Volume {
    id: String,
    staging: String,
    target: String,
}

impl Volumes {
    pub fn next(&mut self) -> Volume {
        self.count += 1;
        let number = self.count;
        let id = format!("pvc-5e1f0000-bec4-4000-8000-{number:012x}");
        let kubelet = "/var/lib/kubelet";
        let staging = format!(
            "{kubelet}/plugins/kubernetes.io/csi/driver.longhorn.io/{number:064x}/globalmount"
        );
        let pod = format!("{kubelet}/pods/9d0c0000-0000-4000-8000-{number:012x}");
        let target = format!("{pod}/volumes/kubernetes.io~csi/{id}/mount");
        Volume { id, staging, target }
    }
}

pub fn capabilities() -> Call {
    let reply = plugin::capabilities().encoded_len();
    call("NodeGetCapabilities", &NodeGetCapabilitiesRequest {}, reply)
}

pub fn stage(volume: &Volume) -> Call {
    let request = NodeStageVolumeRequest {
        volume_id: volume.id.clone(),
        staging_target_path: volume.staging.clone(),
        volume_capability: Some(ext4()),
        volume_context: volume_context(),
        ..Default::default()
    };
    call("NodeStageVolume", &request, 0)
}

pub fn publish(volume: &Volume) -> Call {
    let request = NodePublishVolumeRequest {
        volume_id: volume.id.clone(),
        staging_target_path: volume.staging.clone(),
        target_path: volume.target.clone(),
        volume_capability: Some(ext4()),
        volume_context: volume_context(),
        ..Default::default()
    };
    call("NodePublishVolume", &request, 0)
}

pub fn unpublish(volume: &Volume) -> Call {
    let (volume_id, target_path) = (volume.id.clone(), volume.target.clone());
    call("NodeUnpublishVolume", &NodeUnpublishVolumeRequest { volume_id, target_path }, 0)
}

pub fn unstage(volume: &Volume) -> Call {
    let (volume_id, staging_target_path) = (volume.id.clone(), volume.staging.clone());
    call("NodeUnstageVolume", &NodeUnstageVolumeRequest { volume_id, staging_target_path }, 0)
}

/// Statistics: a large reply, no reply, or ([`ABSENT`], [`SLOW`]) a failure or a long wait.
pub fn statistics(volume_id: &str) -> Call {
    let request = NodeGetVolumeStatsRequest {
        volume_id: volume_id.to_owned(),
        volume_path: "/var/lib/kubelet/pods/some/mount".to_owned(),
        ..Default::default()
    };
    let reply = plugin::statistics(plugin::LARGE_REPLY_BYTES).encoded_len();
    let mut call = call("NodeGetVolumeStats", &request, reply);
    if volume_id == ABSENT {
        call.expected = Answer { grpc_status: "5".to_owned(), bytes: 0 };
    }
    call
}

fn ext4() -> VolumeCapability {
    VolumeCapability {
        access_type: Some(AccessType::Mount(MountVolume {
            fs_type: "ext4".to_owned(),
            ..Default::default()
        })),
        access_mode: Some(AccessMode { mode: Mode::SingleNodeWriter.into() }),
    }
}

/// What Longhorn's provisioner writes into a volume.
fn volume_context() -> std::collections::HashMap<String, String> {
    let entries = [
        ("backupTargetName", "default"),
        ("dataEngine", "v1"),
        ("dataLocality", "disabled"),
        ("disableRevisionCounter", "true"),
        ("fromBackup", ""),
        ("fsType", "ext4"),
        ("numberOfReplicas", "3"),
        ("staleReplicaTimeout", "30"),
        ("storage.kubernetes.io/csiProvisionerIdentity", "1767225600000-1234-driver.longhorn.io"),
        ("unmapMarkSnapChainRemoved", "ignored"),
    ];
    entries.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn call(method: &str, request: &impl Message, reply_bytes: usize) -> Call {
    let length = u32::try_from(request.encoded_len()).expect("a request is small");
    let mut body = BytesMut::with_capacity(FRAME_HEAD_BYTES + request.encoded_len());
    body.put_u8(0);
    body.put_u32(length);
    request.encode(&mut body).expect("the buffer grows");
    let expected = Answer { grpc_status: "0".to_owned(), bytes: FRAME_HEAD_BYTES + reply_bytes };
    Call { path: format!("{NODE}{method}"), body: body.freeze(), expected }
}

/// gRPC puts a flag and a length of four bytes before every message.
const FRAME_HEAD_BYTES: usize = 5;
