//! The one table that speaks gRPC codes.

use http::{HeaderMap, HeaderName, HeaderValue, Response};
use tonic::{Code, Status};

use super::body::Body;
use crate::guard::Outcome;
use crate::guard::answer::Own;

pub const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
pub const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

/// The code of each of the guard's own answers. None is final: after a final one kubelet forgets
/// a mount that may be there (`facts/csi.md` 1.3).
fn code_of(own: &Own) -> Code {
    match own {
        Own::Refused { .. }
        | Own::CalledOff { .. }
        | Own::NotProven { .. }
        | Own::Busy { .. }
        | Own::StillRunning { .. }
        | Own::MayStillRun { .. }
        | Own::Withheld { .. } => Code::Aborted,
        Own::DeviceSilent { .. }
        | Own::PluginAway { .. }
        | Own::PluginLost { .. }
        | Own::Leaving { .. }
        | Own::Broken { .. } => Code::Unavailable,
    }
}

/// One of the guard's own answers, as a response.
pub(super) fn response_of(own: &Own) -> Response<Body> {
    trailers_only(Status::new(code_of(own), own.text()))
}

/// The plugin cannot be reached, said to a call that the guard has no part in.
pub(super) fn unavailable(text: &str) -> Response<Body> {
    trailers_only(Status::new(Code::Unavailable, text))
}

/// The caller's deadline passed while its call waited for the plugin.
pub(super) fn deadline_exceeded(text: &str) -> Response<Body> {
    trailers_only(Status::new(Code::DeadlineExceeded, text))
}

/// The trailers that end a stream whose plugin is gone.
pub(super) fn unavailable_trailers(text: &str) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    // The code is a number and the text our own: both always encode.
    let added = Status::new(Code::Unavailable, text).add_header(&mut trailers);
    debug_assert!(added.is_ok());
    trailers
}

/// Any status of the guard's own, without a message in front of it.
fn trailers_only(status: Status) -> Response<Body> {
    let (parts, ()) = status.into_http::<()>().into_parts();
    Response::from_parts(parts, Body::Empty)
}

/// What the plugin's status means to kubelet. A reply without a status that can be read is taken
/// as kubelet's gRPC library takes it: for `Unknown`.
pub(super) fn outcome(headers: &HeaderMap) -> Outcome {
    let code = code_in(headers);
    match code {
        Code::Ok => Outcome::Done,
        code if is_final(code) => {
            Outcome::FailedForGood { code: name(code), text: message_in(headers) }
        }
        _ => Outcome::FailedForNow,
    }
}

/// Is this the end of the call for kubelet? (`isFinalError`, kubernetes `pkg/volume/csi`.)
fn is_final(code: Code) -> bool {
    match code {
        Code::Cancelled
        | Code::DeadlineExceeded
        | Code::Unavailable
        | Code::ResourceExhausted
        | Code::Aborted => false,
        Code::Ok
        | Code::Unknown
        | Code::InvalidArgument
        | Code::NotFound
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::FailedPrecondition
        | Code::OutOfRange
        | Code::Unimplemented
        | Code::Internal
        | Code::DataLoss
        | Code::Unauthenticated => true,
    }
}

/// The name of the status in `headers`, as gRPC spells it.
pub(super) fn name_in(headers: &HeaderMap) -> &'static str {
    name(code_in(headers))
}

fn code_in(headers: &HeaderMap) -> Code {
    headers.get(GRPC_STATUS).map_or(Code::Unknown, |code| Code::from_bytes(code.as_bytes()))
}

fn message_in(headers: &HeaderMap) -> String {
    let text = headers.get(GRPC_MESSAGE).map_or(&b""[..], HeaderValue::as_bytes);
    // What does not decode stays as it is (gRPC over HTTP/2, "Status-Message").
    percent_encoding::percent_decode(text).decode_utf8_lossy().into_owned()
}

fn name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubelet_forgets_after_exactly_these_codes() {
        let open = [1, 4, 8, 10, 14];
        for number in 0..=16 {
            let headers = HeaderMap::from_iter([(GRPC_STATUS, HeaderValue::from(number))]);
            let outcome = outcome(&headers);
            match number {
                0 => assert_eq!(outcome, Outcome::Done),
                _ if open.contains(&number) => assert_eq!(outcome, Outcome::FailedForNow),
                _ => assert!(matches!(outcome, Outcome::FailedForGood { .. }), "{number}"),
            }
        }
        assert!(matches!(
            outcome(&HeaderMap::new()),
            Outcome::FailedForGood { code: "UNKNOWN", .. }
        ));
    }

    #[test]
    fn a_message_is_decoded_as_far_as_it_can_be() {
        for (encoded, text) in
            [("plain", "plain"), ("a%20b%0Ac", "a b\nc"), ("%C3%BC", "\u{fc}"), ("100%", "100%")]
        {
            let value = HeaderValue::from_static(encoded);
            let headers = HeaderMap::from_iter([(GRPC_MESSAGE, value)]);
            assert_eq!(message_in(&headers), text, "{encoded}");
        }
    }
}
