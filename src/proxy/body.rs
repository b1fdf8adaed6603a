//! Bodies on their way through. None of them claims an exact size: hyper would add a
//! `content-length` that the sender did not send.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::HeaderMap;
use http_body::Frame;
use hyper::body::{Body as _, Incoming};

use super::pool::Seat;
use super::status;
use crate::telemetry::{Side, Telemetry};

/// The body of a request or a response.
pub enum Body {
    /// Nothing at all: as a response it ends with its headers ("trailers-only").
    Empty,
    /// A caller's request on its way to the plugin.
    Request(Incoming),
    /// Data and trailers that are all there.
    Whole(Whole),
    /// The plugin's answer on its way to the caller.
    Response(ResponseBody),
}

#[derive(Debug, Clone, Default)]
pub struct Whole {
    pub data: Bytes,
    pub trailers: Option<HeaderMap>,
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match self.get_mut() {
            Self::Empty => Poll::Ready(None),
            Self::Request(incoming) => Pin::new(incoming).poll_frame(cx),
            Self::Whole(whole) => Poll::Ready(whole.next_frame().map(Ok)),
            Self::Response(body) => body.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Request(incoming) => incoming.is_end_stream(),
            Self::Whole(whole) => whole.data.is_empty() && whole.trailers.is_none(),
            Self::Response(body) => body.ended || body.incoming.is_end_stream(),
        }
    }
}

impl Whole {
    fn next_frame(&mut self) -> Option<Frame<Bytes>> {
        if !self.data.is_empty() {
            return Some(Frame::data(std::mem::take(&mut self.data)));
        }
        self.trailers.take().map(Frame::trailers)
    }
}

/// Passes the plugin's frames on, counts how the call ended, and ends it properly if the plugin
/// does not: a caller that sees a bare reset takes it for INTERNAL, which is final.
pub struct ResponseBody {
    incoming: Incoming,
    ended: bool,
    /// The call's place on the connection to the plugin, held until the last frame.
    _seat: Seat,
    method: &'static str,
    telemetry: Arc<Telemetry>,
}

impl ResponseBody {
    pub(super) fn new(
        incoming: Incoming,
        seat: Seat,
        method: &'static str,
        telemetry: Arc<Telemetry>,
    ) -> Self {
        Self { incoming, ended: false, _seat: seat, method, telemetry }
    }

    fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let frame = match ready!(Pin::new(&mut self.incoming).poll_frame(cx)) {
            Some(Ok(frame)) => frame,
            // The plugin reset the stream: its own reason goes on to the caller.
            Some(Err(error)) if reset_by_peer(&error) => return Poll::Ready(Some(Err(error))),
            Some(Err(_)) => Frame::trailers(status::unavailable_trailers(
                "mount-guard: longhorn-csi-plugin broke the connection in the middle of its answer",
            )),
            None => return Poll::Ready(None),
        };
        if let Some(trailers) = frame.trailers_ref() {
            self.ended = true;
            let code = status::name_in(trailers);
            self.telemetry.answered(self.method, code, Side::Plugin);
            self.telemetry.answered(self.method, code, Side::Caller);
        }
        Poll::Ready(Some(Ok(frame)))
    }
}

/// Did the other side end this stream, and this stream alone?
pub(super) fn reset_by_peer(error: &hyper::Error) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(h2) = error.downcast_ref::<h2::Error>() {
            return h2.is_reset() && h2.is_remote();
        }
        cause = error.source();
    }
    false
}
