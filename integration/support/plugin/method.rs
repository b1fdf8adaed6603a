//! The CSI methods the stand-in knows.

use bytes::Bytes;
use mount_guard::csi;
use prost::Message;

/// A method of the Identity or the Node service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Method {
    GetPluginInfo,
    GetPluginCapabilities,
    Probe,
    Stage,
    Unstage,
    Publish,
    Unpublish,
    GetVolumeStats,
    Expand,
    GetCapabilities,
    GetInfo,
}

impl Method {
    pub const ALL: [Self; 11] = [
        Self::GetPluginInfo,
        Self::GetPluginCapabilities,
        Self::Probe,
        Self::Stage,
        Self::Unstage,
        Self::Publish,
        Self::Unpublish,
        Self::GetVolumeStats,
        Self::Expand,
        Self::GetCapabilities,
        Self::GetInfo,
    ];

    /// Its path on the wire.
    pub fn path(self) -> &'static str {
        match self {
            Self::GetPluginInfo => "/csi.v1.Identity/GetPluginInfo",
            Self::GetPluginCapabilities => "/csi.v1.Identity/GetPluginCapabilities",
            Self::Probe => "/csi.v1.Identity/Probe",
            Self::Stage => "/csi.v1.Node/NodeStageVolume",
            Self::Unstage => "/csi.v1.Node/NodeUnstageVolume",
            Self::Publish => "/csi.v1.Node/NodePublishVolume",
            Self::Unpublish => "/csi.v1.Node/NodeUnpublishVolume",
            Self::GetVolumeStats => "/csi.v1.Node/NodeGetVolumeStats",
            Self::Expand => "/csi.v1.Node/NodeExpandVolume",
            Self::GetCapabilities => "/csi.v1.Node/NodeGetCapabilities",
            Self::GetInfo => "/csi.v1.Node/NodeGetInfo",
        }
    }

    pub fn from_path(path: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.path() == path)
    }

    /// The volume a request speaks of; empty where it speaks of none or cannot be read.
    pub fn volume_of(self, request: &Bytes) -> String {
        /// Every volume request of the Node service has its volume id in field 1.
        fn field_one(request: &Bytes) -> String {
            let read = csi::NodeUnpublishVolumeRequest::decode(request.clone());
            read.map(|request| request.volume_id).unwrap_or_default()
        }
        match self {
            Self::Stage => csi::NodeStageVolumeRequest::decode(request.clone())
                .map(|request| request.volume_id)
                .unwrap_or_default(),
            Self::Publish => csi::NodePublishVolumeRequest::decode(request.clone())
                .map(|request| request.volume_id)
                .unwrap_or_default(),
            Self::Expand => csi::NodeExpandVolumeRequest::decode(request.clone())
                .map(|request| request.volume_id)
                .unwrap_or_default(),
            Self::Unstage | Self::Unpublish | Self::GetVolumeStats => field_one(request),
            Self::GetPluginInfo
            | Self::GetPluginCapabilities
            | Self::Probe
            | Self::GetCapabilities
            | Self::GetInfo => String::new(),
        }
    }
}
