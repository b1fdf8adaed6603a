//! What goes wrong on command.

use std::sync::Mutex;
use std::time::Duration;

use http::HeaderMap;
use tonic::Status;

use super::Method;

/// How a call ends by command, whatever the work did or would have done.
#[derive(Debug, Clone)]
pub enum End {
    /// With this status: any code, any message, details, and metadata as trailers.
    Fail(Status),
    /// Never.
    Hang,
    /// As in Go: the whole process dies. It stays dead until `Plugin::restart`.
    Panic,
}

/// What is done to one call.
#[derive(Debug, Clone, Default)]
pub struct Act {
    pub delay_before: Duration,
    /// In place of the work.
    pub instead: Option<End>,
    pub delay_after: Duration,
    /// After the work, in place of its answer.
    pub then: Option<End>,
    /// Added to the headers and trailers of an answer that is OK.
    pub headers: HeaderMap,
    pub trailers: HeaderMap,
}

impl Act {
    pub fn fail(status: Status) -> Self {
        Self { instead: Some(End::Fail(status)), ..Self::default() }
    }

    /// The work is done, the answer is a failure all the same.
    pub fn work_then_fail(status: Status) -> Self {
        Self { then: Some(End::Fail(status)), ..Self::default() }
    }

    pub fn hang() -> Self {
        Self { instead: Some(End::Hang), ..Self::default() }
    }

    pub fn panic() -> Self {
        Self { instead: Some(End::Panic), ..Self::default() }
    }

    pub fn slow_before(delay: Duration) -> Self {
        Self { delay_before: delay, ..Self::default() }
    }

    pub fn slow_after(delay: Duration) -> Self {
        Self { delay_after: delay, ..Self::default() }
    }
}

#[derive(Debug)]
struct Line {
    method: Method,
    volume: Option<String>,
    /// How many calls it still holds for; `None` is all.
    left: Option<usize>,
    act: Act,
}

/// The acts to come. The first line that fits a call is taken.
#[derive(Debug, Default)]
pub struct Script {
    lines: Mutex<Vec<Line>>,
}

impl Script {
    /// For every call of `method`, on one volume or on all.
    pub fn always(&self, method: Method, volume: Option<&str>, act: Act) {
        self.add(method, volume, None, act);
    }

    /// For the next `times` calls.
    pub fn times(&self, times: usize, method: Method, volume: Option<&str>, act: Act) {
        self.add(method, volume, Some(times), act);
    }

    pub fn once(&self, method: Method, volume: Option<&str>, act: Act) {
        self.times(1, method, volume, act);
    }

    pub fn clear(&self) {
        self.lines.lock().expect("script").clear();
    }

    fn add(&self, method: Method, volume: Option<&str>, left: Option<usize>, act: Act) {
        let volume = volume.map(str::to_owned);
        self.lines.lock().expect("script").push(Line { method, volume, left, act });
    }

    pub(super) fn next(&self, method: Method, volume: &str) -> Act {
        let mut lines = self.lines.lock().expect("script");
        let fits = |line: &Line| {
            line.method == method && line.volume.as_ref().is_none_or(|one| one == volume)
        };
        let Some(at) = lines.iter().position(fits) else { return Act::default() };
        let act = lines[at].act.clone();
        if let Some(left) = &mut lines[at].left {
            *left -= 1;
            if *left == 0 {
                lines.remove(at);
            }
        }
        act
    }
}
