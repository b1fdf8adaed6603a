//! Requests whose map entries have an order, and change it from call to call.
//!
//! On the wire a map is a repeated message of key and value (Protocol Buffers, "Maps"); Go shuffles
//! it with every encoding. These messages turn the sorted entries by a number, so that two calls
//! with neighbouring numbers differ in their bytes wherever a map has two entries.

use std::collections::{BTreeMap, HashMap};

use mount_guard::csi::VolumeCapability;
use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub struct Entry {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    value: String,
}

/// `NodeStageVolumeRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct Stage {
    #[prost(string, tag = "1")]
    pub volume_id: String,
    #[prost(message, repeated, tag = "2")]
    pub publish_context: Vec<Entry>,
    #[prost(string, tag = "3")]
    pub staging_target_path: String,
    #[prost(message, optional, tag = "4")]
    pub volume_capability: Option<VolumeCapability>,
    #[prost(message, repeated, tag = "5")]
    pub secrets: Vec<Entry>,
    #[prost(message, repeated, tag = "6")]
    pub volume_context: Vec<Entry>,
}

/// `NodePublishVolumeRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct Publish {
    #[prost(string, tag = "1")]
    pub volume_id: String,
    #[prost(message, repeated, tag = "2")]
    pub publish_context: Vec<Entry>,
    #[prost(string, tag = "3")]
    pub staging_target_path: String,
    #[prost(string, tag = "4")]
    pub target_path: String,
    #[prost(message, optional, tag = "5")]
    pub volume_capability: Option<VolumeCapability>,
    #[prost(bool, tag = "6")]
    pub readonly: bool,
    #[prost(message, repeated, tag = "7")]
    pub secrets: Vec<Entry>,
    #[prost(message, repeated, tag = "8")]
    pub volume_context: Vec<Entry>,
}

/// The entries of `map`, sorted, then turned by `turn`.
pub fn entries(map: &HashMap<String, String>, turn: usize) -> Vec<Entry> {
    let sorted: BTreeMap<_, _> = map.iter().collect();
    let entry = |(key, value): (&String, &String)| Entry { key: key.clone(), value: value.clone() };
    let mut entries: Vec<Entry> = sorted.into_iter().map(entry).collect();
    if !entries.is_empty() {
        let by = turn % entries.len();
        entries.rotate_left(by);
    }
    entries
}
