//! Gathers what is written one after the other into one system call.
//!
//! hyper sends the head of a request and its message from two tasks. Written at once, the head
//! would wake the plugin for nothing, and the message a moment later once more. So the first
//! write after a pause waits until every task that is ready has had its turn.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::rt::{Read, ReadBufCursor, Write};

/// A stream whose first write after a flush gives way once.
pub(super) struct Gather<T> {
    inner: T,
    gave_way: bool,
}

impl<T> Gather<T> {
    pub(super) fn new(inner: T) -> Self {
        Self { inner, gave_way: false }
    }

    /// Pending once, with the task already woken: it runs again behind all that are ready now.
    fn give_way(&mut self, cx: &Context<'_>) -> Poll<()> {
        if self.gave_way {
            return Poll::Ready(());
        }
        self.gave_way = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<T: Read + Unpin> Read for Gather<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<T: Write + Unpin> Write for Gather<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        std::task::ready!(self.give_way(cx));
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        std::task::ready!(self.give_way(cx));
        Pin::new(&mut self.inner).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        std::task::ready!(Pin::new(&mut self.inner).poll_flush(cx))?;
        self.gave_way = false;
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
