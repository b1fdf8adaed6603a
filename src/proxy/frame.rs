//! The frames of gRPC over HTTP/2: one flag byte, a length of four, the message.

use bytes::Bytes;

/// What the body of a unary request holds.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unary<'a> {
    Message(&'a [u8]),
    /// Compressed by what `grpc-encoding` names; not decoded here.
    Compressed,
    /// Not exactly one whole frame.
    Malformed,
}

const HEADER_BYTES: usize = 5;

/// Parses the body of a unary request.
pub(super) fn parse_unary(body: &[u8]) -> Unary<'_> {
    let Some((header, message)) = body.split_first_chunk::<HEADER_BYTES>() else {
        return Unary::Malformed;
    };
    let [flag, length @ ..] = *header;
    match flag {
        _ if u32::from_be_bytes(length) as usize != message.len() => Unary::Malformed,
        0 => Unary::Message(message),
        1 => Unary::Compressed,
        _ => Unary::Malformed,
    }
}

/// `message` in its frame.
pub(super) fn framed(message: &impl prost::Message) -> Bytes {
    let length =
        u32::try_from(message.encoded_len()).expect("a message of the guard's own is short");
    let mut frame = vec![0];
    frame.extend_from_slice(&length.to_be_bytes());
    message.encode_raw(&mut frame);
    frame.into()
}

/// The frame of an empty message.
pub(super) const EMPTY_MESSAGE: [u8; HEADER_BYTES] = [0; HEADER_BYTES];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_whole_uncompressed_frame_is_a_message() {
        for (body, unary) in [
            (&b"\0\0\0\0\x02ab"[..], Unary::Message(b"ab")),
            (b"\0\0\0\0\0", Unary::Message(b"")),
            (b"\x01\0\0\0\x02ab", Unary::Compressed),
            (b"\x02\0\0\0\x02ab", Unary::Malformed),
            (b"\0\0\0\0\x02a", Unary::Malformed),
            (b"\0\0\0\0\x02abc", Unary::Malformed),
            (b"\0\0\0\0\x01a\0\0\0\0\x01b", Unary::Malformed),
            (b"\0\0\0\0", Unary::Malformed),
            (b"", Unary::Malformed),
            (b"\0\xff\xff\xff\xff", Unary::Malformed),
        ] {
            assert_eq!(parse_unary(body), unary, "{body:?}");
        }
    }
}
