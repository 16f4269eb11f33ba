//! What the accept loop asks for: a connection with or without TLS.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::http::Extensions;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::server::TlsStream;

use super::Acceptor;
use crate::connections::Secure;

/// TLS where it is configured, else none.
impl<IO: AsyncRead + AsyncWrite + Send + Unpin + 'static> Secure<IO> for Option<Arc<Acceptor>> {
    type Secured = Secured<IO>;

    async fn secure(&self, io: IO, _: &mut Extensions) -> io::Result<Secured<IO>> {
        match self {
            None => Ok(Secured::Plain(io)),
            Some(acceptor) => Ok(Secured::Tls(Box::new(acceptor.accept(io).await?))),
        }
    }
}

/// A connection of either kind.
pub(crate) enum Secured<IO> {
    Plain(IO),
    Tls(Box<TlsStream<IO>>),
}

trait Io: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Io for T {}

impl<IO: AsyncRead + AsyncWrite + Unpin> Secured<IO> {
    fn io(&mut self) -> Pin<&mut (dyn Io + '_)> {
        match self {
            Self::Plain(io) => Pin::new(io),
            Self::Tls(io) => Pin::new(&mut **io),
        }
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> AsyncRead for Secured<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.io().poll_read(context, buffer)
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Secured<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.io().poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.io().poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(io) => io.is_write_vectored(),
            Self::Tls(io) => io.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io().poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io().poll_shutdown(context)
    }
}
