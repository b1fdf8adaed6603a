//! The `grpc-timeout` header: up to eight digits and a unit (gRPC over HTTP/2, "Timeout").

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};

pub(super) const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// The largest number the header can carry.
const MAX_COUNT: u128 = 99_999_999;

/// How long the caller will wait; `None` if it does not say, or says it in a way gRPC does not.
pub(super) fn parse(headers: &HeaderMap) -> Option<Duration> {
    let (digits, unit) = headers.get(GRPC_TIMEOUT)?.as_bytes().split_last().map(|(u, d)| (d, u))?;
    if digits.is_empty() || digits.len() > 8 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let count = digits.iter().fold(0, |count: u64, digit| count * 10 + u64::from(digit - b'0'));
    match unit {
        b'H' => Some(Duration::from_secs(count * 3600)),
        b'M' => Some(Duration::from_secs(count * 60)),
        b'S' => Some(Duration::from_secs(count)),
        b'm' => Some(Duration::from_millis(count)),
        b'u' => Some(Duration::from_micros(count)),
        b'n' => Some(Duration::from_nanos(count)),
        _ => None,
    }
}

/// What is left of a deadline, in the finest unit that holds it.
pub(super) fn header(left: Duration) -> HeaderValue {
    let units = [(left.as_nanos(), 'n'), (left.as_micros(), 'u'), (left.as_millis(), 'm')];
    let fine = units.into_iter().find(|(count, _)| *count <= MAX_COUNT);
    let (count, unit) = fine.unwrap_or((u128::from(left.as_secs()).min(MAX_COUNT), 'S'));
    HeaderValue::try_from(format!("{count}{unit}")).expect("digits and a letter")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(value: &str) -> Option<Duration> {
        let value = HeaderValue::from_str(value).unwrap();
        parse(&HeaderMap::from_iter([(GRPC_TIMEOUT, value)]))
    }

    #[test]
    fn every_unit_of_grpc_is_read() {
        for (text, nanos) in [
            ("1H", 3_600_000_000_000),
            ("2M", 120_000_000_000),
            ("3S", 3_000_000_000),
            ("120000m", 120_000_000_000),
            ("5u", 5_000),
            ("6n", 6),
            ("0S", 0),
            ("99999999H", 99_999_999 * 3_600_000_000_000),
        ] {
            assert_eq!(of(text).unwrap().as_nanos(), nanos, "{text}");
        }
    }

    #[test]
    fn what_is_no_timeout_is_no_deadline() {
        for text in ["", "S", "1", "1s", "-1S", "+1S", "1.5S", "123456789S", " 1S", "1S "] {
            assert_eq!(of(text), None, "{text:?}");
        }
        assert_eq!(parse(&HeaderMap::new()), None);
    }

    #[test]
    fn what_is_written_is_read_back_and_never_longer() {
        for left in [
            Duration::ZERO,
            Duration::from_nanos(99_999_999),
            Duration::from_nanos(123_456_789),
            Duration::from_millis(119_999),
            Duration::from_secs(500_000),
            Duration::MAX,
        ] {
            let read = of(header(left).to_str().unwrap()).unwrap();
            assert!(read <= left, "{left:?}");
            assert!(left == Duration::MAX || left - read < Duration::from_secs(1), "{left:?}");
        }
    }
}
