//! The CSI messages, generated from `proto/csi.proto`.
//!
//! Requests that carry secrets show only their volume id when printed.

#![allow(clippy::doc_markdown, reason = "generated code")]

use std::fmt;

include!(concat!(env!("OUT_DIR"), "/csi.v1.rs"));

macro_rules! debug_without_secrets {
    ($($request:ty),+) => {$(
        impl fmt::Debug for $request {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($request))
                    .field("volume_id", &self.volume_id)
                    .finish_non_exhaustive()
            }
        }
    )+};
}

debug_without_secrets!(NodeStageVolumeRequest, NodePublishVolumeRequest, NodeExpandVolumeRequest);
