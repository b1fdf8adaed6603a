//! Moves a body into a stream, as fast as the other side takes it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::SendStream;

use super::body::{self, Body, Piece};

/// A body on its way into a stream. Dropped before its end, it resets the stream.
pub struct Pipe {
    from: Body,
    to: SendStream<Bytes>,
    /// What waits for room, and whether it is the last.
    waiting: Option<(Bytes, bool)>,
    begun: bool,
}

impl Pipe {
    pub(super) fn new(from: Body, to: SendStream<Bytes>) -> Self {
        Self { from, to, waiting: None, begun: false }
    }

    /// Moves what can be moved; ready once nothing is left to do, be it that all is sent or that
    /// the other side wants no more.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if !ready!(self.poll_waiting(cx)) {
                return Poll::Ready(());
            }
            let Poll::Ready(piece) = self.from.poll_piece(cx) else {
                // Whoever resets the stream will not be told any more.
                return self.to.poll_reset(cx).map(drop);
            };
            match piece {
                Some(Ok(Piece::Data(data))) => self.accept(data),
                Some(Ok(Piece::Trailers(trailers))) => {
                    self.to.reserve_capacity(0);
                    // An error is a stream that is closed: there is nobody to tell.
                    let _ = self.to.send_trailers(trailers);
                    return Poll::Ready(());
                }
                Some(Err(error)) => {
                    self.to.send_reset(body::reason_of(&error));
                    return Poll::Ready(());
                }
                None => {
                    let _ = self.to.send_data(Bytes::new(), true);
                    return Poll::Ready(());
                }
            }
        }
    }

    /// Takes data that are to be sent next.
    fn accept(&mut self, data: Bytes) {
        // One byte is asked for, whatever there is: a larger claim would be held against other
        // streams of the connection while this one waits.
        if !data.is_empty() {
            self.to.reserve_capacity(1);
        }
        self.waiting = Some((data, self.from.is_over()));
    }

    /// Sends what waits as soon as there is room; says whether there is more to come.
    fn poll_waiting(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        let Some((data, _)) = &self.waiting else { return Poll::Ready(true) };
        // What is whole is in memory in any case: the stream itself keeps what has no room yet.
        // And the first piece, one frame, goes with the head: a stream gets its first room only
        // once its head is on the way, and the other side would be woken twice.
        let may_wait = self.begun && !data.is_empty() && !matches!(self.from, Body::Whole(_));
        while may_wait && self.to.capacity() == 0 {
            match ready!(self.to.poll_capacity(cx)) {
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Poll::Ready(false),
            }
        }
        let (data, last) = self.waiting.take().expect("it was there a moment ago");
        self.begun = true;
        let sent = self.to.send_data(data, last);
        Poll::Ready(sent.is_ok() && !last)
    }
}

impl Future for Pipe {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Self::poll(self.get_mut(), cx)
    }
}
