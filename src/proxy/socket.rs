//! A unix socket that wakes its task for what there is to read, and for room to write only where
//! there was none.
//!
//! tokio's own stream watches for both. Then each message that the other side takes out of the
//! socket makes room and wakes the guard for nothing, twice a call; and on a node with few
//! processors each such turn stands in somebody's way.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};

pub(super) struct Socket {
    stream: AsyncFd<UnixStream>,
    /// The same socket, watched for room, while a write waits for some.
    full: Option<AsyncFd<OwnedFd>>,
}

impl Socket {
    /// Takes a connected stream over.
    ///
    /// # Errors
    /// If it cannot be watched: out of descriptors or memory.
    pub(super) fn new(stream: tokio::net::UnixStream) -> io::Result<Self> {
        let stream = AsyncFd::register_with_interest(stream.into_std()?, Interest::READABLE)?;
        Ok(Self { stream, full: None })
    }

    /// Writes with `write`, and waits for room where there is none.
    fn poll_with(
        &mut self,
        cx: &mut Context<'_>,
        mut write: impl FnMut(&UnixStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            match write(self.stream.get_ref()) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                written => {
                    self.full = None;
                    return Poll::Ready(written);
                }
            }
            if self.full.is_none() {
                let same = self.stream.get_ref().as_fd().try_clone_to_owned()?;
                self.full = Some(AsyncFd::register_with_interest(same, Interest::WRITABLE)?);
            }
            let full = self.full.as_ref().expect("set just above");
            // What was ready before the write above failed says nothing any more.
            ready!(full.poll_write_ready(cx))?.clear_ready();
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let mut guard = ready!(self.stream.poll_read_ready(cx))?;
            let room = buf.initialize_unfilled();
            let room_bytes = room.len();
            match self.stream.get_ref().read(room) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => guard.clear_ready(),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Poll::Ready(Err(error)),
                Ok(bytes) => {
                    // Less than there was room for: the socket is empty, and the next event says
                    // when it no longer is (epoll(7), "edge-triggered", question 9).
                    if 0 < bytes && bytes < room_bytes {
                        guard.clear_ready();
                    }
                    buf.advance(bytes);
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().poll_with(cx, |mut stream| stream.write(buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().poll_with(cx, |mut stream| stream.write_vectored(bufs))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.stream.get_ref().shutdown(Shutdown::Write))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    fn pair() -> (Socket, Socket) {
        let (one, other) = tokio::net::UnixStream::pair().unwrap();
        (Socket::new(one).unwrap(), Socket::new(other).unwrap())
    }

    #[tokio::test]
    async fn more_than_the_socket_holds_arrives_whole() {
        let (mut one, mut other) = pair();
        let sent: Vec<u8> = (0..8 << 20).map(|at: u32| (at % 251) as u8).collect();
        let expected = sent.clone();
        let writer = tokio::spawn(async move {
            one.write_all(&sent).await.unwrap();
            one.shutdown().await.unwrap();
            one
        });
        let mut got = Vec::new();
        other.read_to_end(&mut got).await.unwrap();
        assert!(got == expected);
        assert!(writer.await.unwrap().full.is_none(), "no longer watched for room");
    }

    #[tokio::test]
    async fn both_directions_go_on_while_one_is_full() {
        let (one, other) = pair();
        let (mut one_reads, mut one_writes) = tokio::io::split(one);
        let (mut other_reads, mut other_writes) = tokio::io::split(other);
        let flood = tokio::spawn(async move { one_writes.write_all(&vec![7; 4 << 20]).await });
        for turn in 0..100_u8 {
            other_writes.write_all(&[turn]).await.unwrap();
            assert_eq!(one_reads.read_u8().await.unwrap(), turn);
        }
        let mut got = vec![0; 4 << 20];
        other_reads.read_exact(&mut got).await.unwrap();
        flood.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_peer_that_is_gone_is_the_end() {
        let (mut one, other) = pair();
        drop(other);
        assert_eq!(one.read(&mut [0; 8]).await.unwrap(), 0);
        let error = one.write_all(&[0; 8]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    }
}
