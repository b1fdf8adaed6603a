//! When are two calls equal? When their decoded content is.
//!
//! protobuf may write one content in many ways: map entries come in any order (Go shuffles them
//! on purpose). So the top-level fields of a request are sorted, the entries of a map by their
//! bytes, and the result is hashed. Fields that are not known count like any other.

use std::cmp::Ordering;
use std::ops::Range;

use sha2::{Digest, Sha256};

use crate::facts::call::Method;
use crate::guard::ContentDigest;

/// A top-level field of a message: its number and where it stands, key included.
struct Field {
    number: u64,
    span: Range<usize>,
}

/// The digest of a request of `method`; `None` if it is no protobuf message.
pub(super) fn digest(method: Method, message: &[u8]) -> Option<ContentDigest> {
    let mut fields = parse(message)?;
    let maps = map_fields(method);
    fields.sort_by(|a, b| {
        let in_map = maps.contains(&a.number) && a.number == b.number;
        let entries = || message[a.span.clone()].cmp(&message[b.span.clone()]);
        // A stable sort keeps the order of what is no map: there the last one wins.
        a.number.cmp(&b.number).then_with(|| if in_map { entries() } else { Ordering::Equal })
    });
    let mut hash = Sha256::new();
    for field in &fields {
        let bytes = &message[field.span.clone()];
        hash.update(bytes.len().to_le_bytes());
        hash.update(bytes);
    }
    Some(ContentDigest(hash.finalize().into()))
}

/// The numbers of the map fields of a request (CSI specification 1.13.0).
fn map_fields(method: Method) -> &'static [u64] {
    match method {
        Method::Stage => &[2, 5, 6],
        Method::Publish => &[2, 7, 8],
        Method::Expand => &[6],
        Method::Unstage | Method::Unpublish => &[],
    }
}

/// Splits a message into its top-level fields (protobuf encoding, "Message Structure").
fn parse(message: &[u8]) -> Option<Vec<Field>> {
    let mut fields = Vec::new();
    let mut at = 0;
    while at < message.len() {
        let start = at;
        let key = varint(message, &mut at)?;
        let skip = match key & 7 {
            0 => {
                varint(message, &mut at)?;
                0
            }
            1 => 8,
            2 => usize::try_from(varint(message, &mut at)?).ok()?,
            5 => 4,
            // Groups (3, 4) are not part of proto3.
            _ => return None,
        };
        at = at.checked_add(skip).filter(|end| *end <= message.len())?;
        fields.push(Field { number: key >> 3, span: start..at });
    }
    Some(fields)
}

/// Reads a varint of at most ten bytes and moves `at` behind it.
fn varint(message: &[u8], at: &mut usize) -> Option<u64> {
    let mut value = 0;
    for shift in (0..70).step_by(7) {
        let byte = *message.get(*at)?;
        *at += 1;
        value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;
    use prost::Message;

    use super::*;
    use crate::csi::NodeStageVolumeRequest;

    fn stage(context: &[(&str, &str)], secrets: &[(&str, &str)]) -> Vec<u8> {
        // Entries are written one by one, in the order given.
        let mut bytes = NodeStageVolumeRequest {
            volume_id: "pvc-1".into(),
            staging_target_path: "/s".into(),
            ..Default::default()
        }
        .encode_to_vec();
        for (key, value) in context {
            let volume_context = HashMap::from([((*key).into(), (*value).into())]);
            NodeStageVolumeRequest { volume_context, ..Default::default() }
                .encode(&mut bytes)
                .unwrap();
        }
        for (key, value) in secrets {
            let secrets = HashMap::from([((*key).into(), (*value).into())]);
            NodeStageVolumeRequest { secrets, ..Default::default() }.encode(&mut bytes).unwrap();
        }
        bytes
    }

    fn same(a: &[u8], b: &[u8]) -> bool {
        digest(Method::Stage, a).unwrap() == digest(Method::Stage, b).unwrap()
    }

    #[test]
    fn the_order_of_map_entries_does_not_count() {
        let one = stage(&[("a", "1"), ("b", "2"), ("c", "3")], &[("k", "s"), ("l", "t")]);
        let two = stage(&[("c", "3"), ("a", "1"), ("b", "2")], &[("l", "t"), ("k", "s")]);
        assert_ne!(one, two);
        assert!(same(&one, &two));
    }

    #[test]
    fn content_counts() {
        let base = stage(&[("a", "1")], &[("k", "s")]);
        for other in [
            stage(&[("a", "2")], &[("k", "s")]),
            stage(&[("a", "1")], &[("k", "t")]),
            stage(&[("a", "1"), ("b", "2")], &[("k", "s")]),
            stage(&[("k", "s")], &[("a", "1")]),
            stage(&[], &[]),
        ] {
            assert!(!same(&base, &other), "{other:?}");
        }
    }

    #[test]
    fn an_unknown_field_counts() {
        let known = stage(&[("a", "1")], &[]);
        let with = |number: u8, content: &[u8]| {
            let key = [(number << 3) | 2, u8::try_from(content.len()).unwrap()];
            [known.as_slice(), &key, content].concat()
        };
        assert!(!same(&known, &with(15, b"x")));
        assert!(!same(&with(15, b"x"), &with(15, b"y")));
        assert!(same(&with(15, b"x"), &with(15, b"x")));
    }

    #[test]
    fn what_is_no_message_has_no_digest() {
        for bytes in [
            &b"\x0a"[..],
            b"\x0a\x05abc",
            b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            b"\x0b",
            b"\x80",
            b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80",
            b"\x09abc",
        ] {
            assert!(digest(Method::Stage, bytes).is_none(), "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = digest(Method::Stage, &bytes);
        }

        #[test]
        fn shuffled_maps_are_equal(
            mut entries in proptest::collection::vec(("[a-z]{0,4}", "[a-z]{0,4}"), 0..12),
            seed in any::<prop::sample::Index>(),
        ) {
            let list = |entries: &[(String, String)]| -> Vec<u8> {
                let entries: Vec<_> =
                    entries.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
                stage(&entries, &[])
            };
            let before = list(&entries);
            if !entries.is_empty() {
                let middle = seed.index(entries.len());
                entries.rotate_left(middle);
            }
            prop_assert!(same(&before, &list(&entries)));
        }
    }
}
