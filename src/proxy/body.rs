//! Bodies on their way through. What is in none of them is added to none of them.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use h2::RecvStream;
use http::HeaderMap;

use super::pool::Tail;
use super::status;
use crate::telemetry::{Side, Telemetry};

/// The body of a request or a response.
pub enum Body {
    /// Nothing at all: as a response it ends with its headers ("trailers-only").
    Empty,
    /// A caller's request on its way to the plugin.
    Request(RecvStream),
    /// Data and trailers that are all there.
    Whole(Whole),
    /// The plugin's answer on its way to the caller.
    Response(ResponseBody),
}

/// A piece of a body.
pub(super) enum Piece {
    Data(Bytes),
    /// The last one.
    Trailers(HeaderMap),
}

#[derive(Debug, Clone, Default)]
pub struct Whole {
    pub data: Bytes,
    pub trailers: Option<HeaderMap>,
}

impl Body {
    /// The next piece; `None` once there is none any more.
    pub(super) fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Piece, h2::Error>>> {
        match self {
            Self::Empty => Poll::Ready(None),
            Self::Request(stream) => poll_stream(stream, cx),
            Self::Whole(whole) => Poll::Ready(whole.next_piece().map(Ok)),
            Self::Response(body) => body.poll_piece(cx),
        }
    }

    /// Is it known already that nothing comes any more?
    pub(super) fn is_over(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Request(stream) => stream.is_end_stream(),
            Self::Whole(whole) => whole.data.is_empty() && whole.trailers.is_none(),
            Self::Response(body) => body.ended || body.tail.stream.is_end_stream(),
        }
    }
}

impl Whole {
    /// Reads all that `stream` brings.
    ///
    /// # Errors
    /// Why it ended too early.
    pub(super) async fn read(stream: &mut RecvStream) -> Result<Self, h2::Error> {
        let mut chunks = Vec::new();
        let mut trailers = None;
        while let Some(piece) = std::future::poll_fn(|cx| poll_stream(stream, cx)).await {
            match piece? {
                Piece::Data(data) => chunks.push(data),
                Piece::Trailers(last) => trailers = Some(last),
            }
        }
        Ok(Self { data: joined(chunks), trailers })
    }

    fn next_piece(&mut self) -> Option<Piece> {
        if !self.data.is_empty() {
            return Some(Piece::Data(std::mem::take(&mut self.data)));
        }
        self.trailers.take().map(Piece::Trailers)
    }
}

/// One chunk is passed on as it is, which is what a small message comes in.
fn joined(mut chunks: Vec<Bytes>) -> Bytes {
    if chunks.len() < 2 {
        return chunks.pop().unwrap_or_default();
    }
    let mut all = BytesMut::with_capacity(chunks.iter().map(Bytes::len).sum());
    chunks.iter().for_each(|chunk| all.extend_from_slice(chunk));
    all.freeze()
}

/// The next piece of `stream`. Who takes data has room for more: the sender hears of it at once,
/// and is held back by the next one to whom it is passed on.
fn poll_stream(
    stream: &mut RecvStream,
    cx: &mut Context<'_>,
) -> Poll<Option<Result<Piece, h2::Error>>> {
    if let Some(data) = ready!(stream.poll_data(cx)) {
        let taken = data.and_then(|data| {
            stream.flow_control().release_capacity(data.len())?;
            Ok(Piece::Data(data))
        });
        return Poll::Ready(Some(taken));
    }
    stream
        .poll_trailers(cx)
        .map(|trailers| trailers.map(|last| last.map(Piece::Trailers)).transpose())
}

/// Passes the plugin's pieces on, counts how the call ended, and ends it properly if the plugin
/// does not: a caller that sees a bare reset takes it for INTERNAL, which is final.
pub struct ResponseBody {
    tail: Tail,
    ended: bool,
    method: &'static str,
    telemetry: Arc<Telemetry>,
}

impl ResponseBody {
    pub(super) fn new(tail: Tail, method: &'static str, telemetry: Arc<Telemetry>) -> Self {
        Self { tail, ended: false, method, telemetry }
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Piece, h2::Error>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let Tail { stream, request, .. } = &mut self.tail;
        if request.as_mut().is_some_and(|request| request.poll(cx).is_ready()) {
            *request = None;
        }
        let piece = match ready!(poll_stream(stream, cx)) {
            Some(Ok(piece)) => piece,
            // The plugin reset the stream: its own reason goes on to the caller.
            Some(Err(error)) if reset_by_peer(&error) => return Poll::Ready(Some(Err(error))),
            Some(Err(_)) => Piece::Trailers(status::unavailable_trailers(
                "mount-guard: longhorn-csi-plugin broke the connection in the middle of its answer",
            )),
            None => return Poll::Ready(None),
        };
        if let Piece::Trailers(trailers) = &piece {
            self.ended = true;
            let code = status::name_in(trailers);
            self.telemetry.answered(self.method, code, Side::Plugin);
            self.telemetry.answered(self.method, code, Side::Caller);
        }
        Poll::Ready(Some(Ok(piece)))
    }
}

/// Did the other side end this stream, and this stream alone?
pub(super) fn reset_by_peer(error: &h2::Error) -> bool {
    error.is_reset() && error.is_remote()
}

/// With what a stream is reset that cannot go on because of `error`.
pub(super) fn reason_of(error: &h2::Error) -> h2::Reason {
    error.reason().unwrap_or(h2::Reason::INTERNAL_ERROR)
}
