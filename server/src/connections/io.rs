//! Where connections come from, what makes them secret, and how it shows that somebody speaks on them.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use axum::http::Extensions;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

/// Where connections come from: the operating system, or a simulated network.
pub(crate) trait Listener: Send + 'static {
    /// Both directions of one connection.
    type Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static;

    /// The next connection, and who is at its other end. Dropping the future loses none.
    fn accept(&mut self) -> impl Future<Output = io::Result<(Self::Stream, SocketAddr)>> + Send;
}

impl Listener for TcpListener {
    type Stream = TcpStream;

    async fn accept(&mut self) -> io::Result<(TcpStream, SocketAddr)> {
        let (stream, peer) = Self::accept(self).await?;
        // Answers are small and somebody waits for each. A connection that refuses the option is as good as gone:
        // its first read says so.
        let _ = stream.set_nodelay(true);
        Ok((stream, peer))
    }
}

/// Makes an accepted connection secret, or leaves it as it is.
pub(crate) trait Secure<IO>: Send + Sync + 'static {
    /// What is read and written from now on.
    type Secured: AsyncRead + AsyncWrite + Send + Unpin + 'static;

    /// Speaks with the other end until both are agreed. What becomes known about it (a certificate) goes into the
    /// extensions, which every request of the connection carries.
    fn secure(
        &self,
        io: IO,
        extensions: &mut Extensions,
    ) -> impl Future<Output = io::Result<Self::Secured>> + Send;
}

/// Nothing is secret.
#[cfg(test)]
pub(crate) struct Plain;

#[cfg(test)]
impl<IO: AsyncRead + AsyncWrite + Send + Unpin + 'static> Secure<IO> for Plain {
    type Secured = IO;

    async fn secure(&self, io: IO, _: &mut Extensions) -> io::Result<IO> {
        Ok(io)
    }
}

/// Whether the other end has said anything yet: one that never does is cut off.
#[derive(Clone, Default)]
pub(super) struct Heard(Arc<AtomicBool>);

impl Heard {
    pub(super) fn anything(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A connection that notes when its other end speaks for the first time.
pub(super) struct Listening<IO> {
    io: IO,
    heard: Heard,
}

impl<IO> Listening<IO> {
    pub(super) const fn new(io: IO, heard: Heard) -> Self {
        Self { io, heard }
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for Listening<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.io).poll_read(context, buffer);
        if buffer.filled().len() > before && !self.heard.anything() {
            self.heard.0.store(true, Ordering::Relaxed);
        }
        polled
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Listening<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}
