//! Protobuf becomes our own types here, once. What does not fit is *malformed*, and forwarded:
//! the plugin's own refusal must come back.

use std::collections::HashMap;

use prost::Message;

use crate::csi;
use crate::csi::volume_capability::AccessType;
use crate::csi::volume_capability::access_mode::Mode;
use crate::facts::call::Method;
use crate::guard::request::{
    Access, Capability, ExpandRequest, PublishRequest, Request, Settings, StageRequest,
    UnpublishRequest, UnstageRequest,
};
use crate::volume::{FsType, StagingPath, TargetPath, Unfit, VolumeId};

/// Why a request is not what CSI says it should be. It names a field, never a content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Malformed {
    /// The bytes are no such message.
    Encoding,
    /// A field that must be there is not.
    Missing(&'static str),
    /// A field holds something that has no place there.
    Field(&'static str, Unfit),
}

/// Decodes the request of `method`. The secrets in it are dropped on the spot.
pub(super) fn parse(method: Method, message: &[u8]) -> Result<Request, Malformed> {
    match method {
        Method::Stage => parse_stage(decode(message)?).map(Request::Stage),
        Method::Unstage => parse_unstage(&decode(message)?).map(Request::Unstage),
        Method::Publish => parse_publish(decode(message)?).map(Request::Publish),
        Method::Unpublish => parse_unpublish(&decode(message)?).map(Request::Unpublish),
        Method::Expand => parse_expand(&decode(message)?).map(Request::Expand),
    }
}

fn decode<M: Message + Default>(message: &[u8]) -> Result<M, Malformed> {
    M::decode(message).map_err(|_| Malformed::Encoding)
}

fn parse_stage(req: csi::NodeStageVolumeRequest) -> Result<StageRequest, Malformed> {
    Ok(StageRequest {
        volume: volume(&req.volume_id)?,
        staging: staging(&req.staging_target_path)?,
        capability: capability(req.volume_capability)?,
        settings: settings(&req.volume_context, &req.secrets),
    })
}

/// What is set in `context`. Of the secrets only that there is a passphrase (longhorn-manager
/// `csi/crypto`).
fn settings(context: &HashMap<String, String>, secrets: &HashMap<String, String>) -> Settings {
    let is_set = |key: &str| context.get(key).is_some_and(|value| value == "true");
    Settings {
        encrypted: is_set("encrypted") || secrets.contains_key("CRYPTO_KEY_VALUE"),
        migratable: is_set("migratable"),
        fsck: context.get("mount-guard/fsck").cloned(),
    }
}

fn parse_unstage(req: &csi::NodeUnstageVolumeRequest) -> Result<UnstageRequest, Malformed> {
    Ok(UnstageRequest {
        volume: volume(&req.volume_id)?,
        staging: staging(&req.staging_target_path)?,
    })
}

fn parse_publish(req: csi::NodePublishVolumeRequest) -> Result<PublishRequest, Malformed> {
    Ok(PublishRequest {
        volume: volume(&req.volume_id)?,
        staging: match req.staging_target_path.as_str() {
            "" => None,
            path => Some(staging(path)?),
        },
        target: target("target_path", &req.target_path)?,
        capability: capability(req.volume_capability)?,
        read_only: req.readonly,
    })
}

fn parse_unpublish(req: &csi::NodeUnpublishVolumeRequest) -> Result<UnpublishRequest, Malformed> {
    Ok(UnpublishRequest {
        volume: volume(&req.volume_id)?,
        target: target("target_path", &req.target_path)?,
    })
}

fn parse_expand(req: &csi::NodeExpandVolumeRequest) -> Result<ExpandRequest, Malformed> {
    Ok(ExpandRequest {
        volume: volume(&req.volume_id)?,
        path: target("volume_path", &req.volume_path)?,
    })
}

fn volume(text: &str) -> Result<VolumeId, Malformed> {
    VolumeId::parse(text).map_err(|unfit| field("volume_id", unfit))
}

fn staging(text: &str) -> Result<StagingPath, Malformed> {
    StagingPath::parse(text).map_err(|unfit| field("staging_target_path", unfit))
}

fn target(name: &'static str, text: &str) -> Result<TargetPath, Malformed> {
    TargetPath::parse(text).map_err(|unfit| field(name, unfit))
}

fn capability(capability: Option<csi::VolumeCapability>) -> Result<Capability, Malformed> {
    let capability = capability.ok_or(Malformed::Missing("volume_capability"))?;
    let mode = capability.access_mode.ok_or(Malformed::Missing("access_mode"))?.mode();
    let reads_only = matches!(mode, Mode::SingleNodeReaderOnly | Mode::MultiNodeReaderOnly);
    let multi_node = matches!(
        mode,
        Mode::MultiNodeReaderOnly | Mode::MultiNodeSingleWriter | Mode::MultiNodeMultiWriter
    );
    let access = match capability.access_type.ok_or(Malformed::Missing("access_type"))? {
        AccessType::Block(_) => Access::Block,
        AccessType::Mount(mount) => Access::Mount {
            fs_type: match mount.fs_type.as_str() {
                "" => None,
                text => Some(FsType::parse(text).map_err(|unfit| field("fs_type", unfit))?),
            },
            flags: mount.mount_flags,
        },
    };
    Ok(Capability { access, reads_only, multi_node })
}

fn field(name: &'static str, unfit: Unfit) -> Malformed {
    match unfit {
        Unfit::Empty => Malformed::Missing(name),
        unfit => Malformed::Field(name, unfit),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stage() -> csi::NodeStageVolumeRequest {
        csi::NodeStageVolumeRequest {
            volume_id: "pvc-1".into(),
            staging_target_path: "/k/globalmount".into(),
            volume_capability: Some(mount("xfs", Mode::SingleNodeMultiWriter)),
            secrets: [("CRYPTO_KEY_VALUE".to_owned(), "sentinel".to_owned())].into(),
            ..Default::default()
        }
    }

    fn mount(fs_type: &str, mode: Mode) -> csi::VolumeCapability {
        csi::VolumeCapability {
            access_mode: Some(csi::volume_capability::AccessMode { mode: mode.into() }),
            access_type: Some(AccessType::Mount(csi::volume_capability::MountVolume {
                fs_type: fs_type.into(),
                mount_flags: vec!["noatime".into()],
                volume_mount_group: String::new(),
            })),
        }
    }

    fn check_stage(change: impl FnOnce(&mut csi::NodeStageVolumeRequest), wrong: Malformed) {
        let mut req = stage();
        change(&mut req);
        assert_eq!(parse(Method::Stage, &req.encode_to_vec()), Err(wrong));
    }

    #[test]
    fn a_whole_stage_request_becomes_ours_without_its_secrets() {
        let Ok(Request::Stage(parsed)) = parse(Method::Stage, &stage().encode_to_vec()) else {
            panic!("a good request");
        };
        assert_eq!(parsed.volume.as_str(), "pvc-1");
        assert!(!parsed.capability.reads_only);
        let fs_type = Some(FsType::parse("xfs").unwrap());
        let flags = vec!["noatime".to_owned()];
        assert_eq!(parsed.capability.access, Access::Mount { fs_type, flags });
        assert!(!format!("{parsed:?}").contains("sentinel"));
    }

    #[test]
    fn what_csi_asks_for_and_is_not_there_is_malformed() {
        check_stage(|req| req.volume_id.clear(), Malformed::Missing("volume_id"));
        check_stage(
            |req| req.staging_target_path.clear(),
            Malformed::Missing("staging_target_path"),
        );
        check_stage(|req| req.volume_capability = None, Malformed::Missing("volume_capability"));
        check_stage(
            |req| req.volume_capability.as_mut().unwrap().access_mode = None,
            Malformed::Missing("access_mode"),
        );
        check_stage(
            |req| req.volume_capability.as_mut().unwrap().access_type = None,
            Malformed::Missing("access_type"),
        );
    }

    #[test]
    fn a_name_that_could_become_another_path_is_malformed() {
        for id in ["../../etc", "a/b", "a\0b", "a\nb", "\u{fc}", &"v".repeat(4096)] {
            let mut req = stage();
            req.volume_id = id.into();
            let parsed = parse(Method::Stage, &req.encode_to_vec());
            assert!(matches!(parsed, Err(Malformed::Field("volume_id", _))), "{id:?}");
        }
        check_stage(
            |req| req.staging_target_path = "/k/../../etc".into(),
            Malformed::Field("staging_target_path", Unfit::Climbs),
        );
        check_stage(
            |req| req.volume_capability = Some(mount("ext4 -o x", Mode::SingleNodeWriter)),
            Malformed::Field("fs_type", Unfit::Characters),
        );
    }

    #[test]
    fn reader_modes_only_read() {
        for (mode, reads_only) in [
            (Mode::SingleNodeReaderOnly, true),
            (Mode::MultiNodeReaderOnly, true),
            (Mode::SingleNodeWriter, false),
            (Mode::MultiNodeMultiWriter, false),
            (Mode::Unknown, false),
        ] {
            let parsed = capability(Some(mount("", mode))).unwrap();
            assert_eq!(parsed.reads_only, reads_only, "{mode:?}");
        }
    }

    #[test]
    fn secrets_are_not_printed_by_the_messages_that_carry_them() {
        let secret = || [("k".to_owned(), "sentinel".to_owned())].into();
        let printed = [
            format!("{:?}", stage()),
            format!(
                "{:?}",
                csi::NodePublishVolumeRequest {
                    secrets: secret(),
                    volume_context: secret(),
                    ..Default::default()
                }
            ),
            format!(
                "{:?}",
                csi::NodeExpandVolumeRequest { secrets: secret(), ..Default::default() }
            ),
        ];
        for text in printed {
            assert!(!text.contains("sentinel"), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            for method in [Method::Stage, Method::Publish, Method::Expand, Method::Unstage] {
                let _ = parse(method, &bytes);
            }
        }
    }
}
