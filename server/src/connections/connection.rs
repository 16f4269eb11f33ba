//! The life of one connection.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::http::Extensions;
use dexzd_core::node::Connection;
use dexzd_core::time::Instant;
use hyper::Request;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::sync::watch;
use tonic::body::Body;
use tonic::service::Routes;
use tower::ServiceExt as _;

use super::accept::Http2;
use super::io::{Heard, Listening};
use super::{Closing, ConnectionInfo, Secure};
use crate::grpc::Backend;
use crate::telemetry::{ConnectionEnd, ConnectionMetrics};

/// What has not begun to speak HTTP/2 after so long is no client: the handshakes of TLS and HTTP/2 take a few round
/// trips. A probe that only opens and closes the connection is gone long before.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// From the GOAWAY to the close. What still runs then on a standby waits for something that will not happen there: a
/// health Watch, a Worker stream. With the 3.4 s before it makes the 3.5 s of HA-68.
const AFTER_GOAWAY: Duration = Duration::from_millis(100);

/// A connection that was accepted just now.
pub(super) struct Accepted<B> {
    pub(super) judged: Connection,
    pub(super) peer: SocketAddr,
    pub(super) routes: Routes,
    pub(super) http2: Http2,
    pub(super) backend: Arc<B>,
    pub(super) closing: Closing,
    pub(super) metrics: ConnectionMetrics,
}

impl<B: Backend> Accepted<B> {
    /// Serves it to its end.
    pub(super) async fn live<IO, S: Secure<IO>>(mut self, io: IO, secure: &S) {
        let counted = self.metrics.opened();
        let mut extensions = Extensions::new();
        let secured = tokio::select! {
            biased;
            () = self.closing.closed() => return counted.ended(ConnectionEnd::Shutdown),
            secured = tokio::time::timeout(HANDSHAKE, secure.secure(io, &mut extensions)) => secured,
        };
        let end = match secured {
            Ok(Ok(io)) => self.serve(io, extensions).await,
            Ok(Err(error)) => {
                tracing::debug!(peer = %self.peer, %error, "a connection could not be made secret");
                ConnectionEnd::Handshake
            }
            Err(_) => ConnectionEnd::Handshake,
        };
        counted.ended(end);
    }

    async fn serve<IO>(&mut self, io: IO, extensions: Extensions) -> ConnectionEnd
    where
        IO: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
    {
        let step_downs = watch::Sender::new(0);
        let mut running_step_downs = step_downs.subscribe();
        let info = ConnectionInfo { opened_in: self.judged.opened_in(), peer: self.peer, step_downs };
        let heard = Heard::default();
        let service = self.routes.clone().map_request(move |mut request: Request<Incoming>| {
            request.extensions_mut().extend(extensions.clone());
            request.extensions_mut().insert(info.clone());
            request.map(Body::new)
        });
        let io = TokioIo::new(Listening::new(io, heard.clone()));
        let mut served = pin!(self.http2.serve_connection(io, TowerToHyperService::new(service)));
        let mut handshake = pin!(tokio::time::sleep(HANDSHAKE));
        let mut handshake_looked_at = false;
        let mut view = self.backend.view();
        let end = loop {
            self.judged.set_carries_step_down(*running_step_downs.borrow_and_update() > 0);
            let close_at = self.judged.close_at(&view.borrow_and_update().period);
            tokio::select! {
                biased;
                _ = &mut served => return ConnectionEnd::Client,
                () = self.closing.closed() => break ConnectionEnd::Shutdown,
                // Without a node nothing changes any more, and the server is closed soon.
                Ok(()) = view.changed() => {}
                Ok(()) = running_step_downs.changed() => {}
                () = until(&*self.backend, close_at) => break ConnectionEnd::Standby,
                () = &mut handshake, if !handshake_looked_at => {
                    handshake_looked_at = true;
                    if !heard.anything() {
                        return ConnectionEnd::Handshake;
                    }
                }
            }
        };
        served.as_mut().graceful_shutdown();
        if end == ConnectionEnd::Shutdown {
            // For how long is the business of whoever closes the server.
            let _ = served.await;
        } else {
            let _ = tokio::time::timeout(AFTER_GOAWAY, served).await;
        }
        end
    }
}

/// Waits by the node's clock, which also counts what a suspended machine's timers do not.
async fn until<B: Backend>(backend: &B, at: Option<Instant>) {
    let Some(at) = at else {
        return std::future::pending().await;
    };
    loop {
        let rest = at.saturating_since(backend.now());
        if rest.is_zero() {
            return;
        }
        tokio::time::sleep(rest).await;
    }
}
