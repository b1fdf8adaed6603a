//! Case 106: what a caller may put into `:authority`.
//!
//! Kubelet sends `localhost` since Kubernetes 1.26 and its socket's path before that. Rust's h2
//! refuses the path before the guard sees the call; that limit is in the README, and shown here
//! with bytes made by hand, since no Rust client can send it.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::support::guard::Guard;
use crate::support::plugin::{Method, Plugin};

pub fn tests() -> Vec<libtest_mimic::Trial> {
    crate::tests![case_106_an_authority_is_a_host_or_the_call_is_reset]
}

/// HTTP/2 frame types and codes (RFC 9113, 6 and 7).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PROTOCOL_ERROR: u32 = 1;

#[derive(Debug, PartialEq)]
enum Fate {
    Answered,
    Reset(u32),
}

fn case_106_an_authority_is_a_host_or_the_call_is_reset() {
    let dir = tempfile::tempdir().unwrap();
    let plugin = Plugin::start(dir.path());
    let guard = Guard::before(&plugin);
    for (authority, fate) in [
        (Some("localhost"), Fate::Answered),
        (Some(""), Fate::Reset(PROTOCOL_ERROR)),
        (None, Fate::Answered),
        (Some("csi.sock"), Fate::Answered),
        (Some("/csi/csi.sock"), Fate::Reset(PROTOCOL_ERROR)),
        (Some("%2Fcsi%2Fcsi.sock"), Fate::Reset(PROTOCOL_ERROR)),
    ] {
        assert_eq!(probe(&guard, authority), fate, "{authority:?}");
    }
    assert_eq!(plugin.counts().asked(Method::Probe), 3);
}

fn probe(guard: &Guard, authority: Option<&str>) -> Fate {
    let mut stream = UnixStream::connect(guard.socket()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
    write_frame(&mut stream, SETTINGS, 0, 0, &[]);
    let mut block = Vec::new();
    let path = Method::Probe.path();
    let fields = [
        (":method", Some("POST")),
        (":scheme", Some("http")),
        (":path", Some(path)),
        (":authority", authority),
        ("content-type", Some("application/grpc")),
        ("te", Some("trailers")),
    ];
    for (name, value) in fields.into_iter().filter_map(|(name, value)| Some((name, value?))) {
        // A literal header field that is not indexed, with a new name (RFC 7541, 6.2.2).
        block.push(0);
        for text in [name, value] {
            block.push(u8::try_from(text.len()).unwrap());
            block.extend_from_slice(text.as_bytes());
        }
    }
    write_frame(&mut stream, HEADERS, END_HEADERS, 1, &block);
    write_frame(&mut stream, DATA, END_STREAM, 1, &[0; 5]);
    loop {
        let (kind, number, payload) = read_frame(&mut stream);
        match kind {
            HEADERS if number == 1 => return Fate::Answered,
            RST_STREAM => return Fate::Reset(u32::from_be_bytes(payload.try_into().unwrap())),
            _ => {}
        }
    }
}

fn write_frame(stream: &mut UnixStream, kind: u8, flags: u8, number: u32, payload: &[u8]) {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(number.to_be_bytes());
    frame.extend_from_slice(payload);
    stream.write_all(&frame).unwrap();
}

fn read_frame(stream: &mut UnixStream) -> (u8, u32, Vec<u8>) {
    let mut head = [0; 9];
    stream.read_exact(&mut head).unwrap();
    let [a, b, c, kind, _, number @ ..] = head;
    let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
    stream.read_exact(&mut payload).unwrap();
    (kind, u32::from_be_bytes(number) & 0x7fff_ffff, payload)
}
