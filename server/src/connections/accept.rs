//! The accept loop.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use dexzd_core::node::Connection;
use dexzd_core::rng::Rng;
use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tonic::service::Routes;

use super::connection::Accepted;
use super::{Closing, Listener, Secure};
use crate::grpc::Backend;
use crate::telemetry::{ConnectionEnd, ConnectionMetrics};

/// Connections at the same time. A Worker or a client has one or a few, so this is a bound on what a flood of them
/// takes (about 50 KiB each with one call), not one that anybody should meet. One more is closed at once, so that its
/// client learns of it instead of waiting.
pub(crate) const CONNECTIONS: usize = if cfg!(test) { 40 } else { 10_000 };
/// Calls at the same time on one connection; a client waits with further ones. An SDK keeps all its calls on one.
const STREAMS_PER_CONNECTION: u32 = 10_000;
/// A silent connection is asked for a sign of life after so long. Worker streams have pings of their own; this finds
/// the dead clients of long polls.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// A connection that does not answer for so long is closed.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// The flow-control window of a stream: large enough that one Worker stream is not held up by a round trip.
const STREAM_WINDOW_BYTES: u32 = 4 << 20;
/// The window of a whole connection.
const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;
/// After an error that concerns this process (too many open files), accepting rests: an immediate second try would
/// fail again, and the log would fill.
const REST_AFTER_ERROR: Duration = Duration::from_millis(100);

/// What all connections of one address share.
pub(crate) struct Server<B, S> {
    /// The services.
    pub(crate) routes: Routes,
    /// The node.
    pub(crate) backend: Arc<B>,
    /// Makes connections secret, or not.
    pub(crate) secure: S,
    /// Ends it.
    pub(crate) closing: Closing,
    /// Counts.
    pub(crate) metrics: ConnectionMetrics,
    /// Of the jitter with which a standby closes connections.
    pub(crate) seed: u64,
}

pub(super) type Http2 = http2::Builder<TokioExecutor>;

/// Serves until it is closed and the last connection has ended. Dropping the future cuts them off.
pub(crate) async fn serve<L, B, S>(mut listener: L, server: Server<B, S>)
where
    L: Listener,
    B: Backend,
    S: Secure<L::Stream>,
{
    let Server { routes, backend, secure, closing, metrics, seed } = server;
    let routes = routes.prepare();
    let secure = Arc::new(secure);
    let slots = Arc::new(Semaphore::new(CONNECTIONS));
    let http2 = http2();
    let mut rng = Rng::new(seed);
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = closing.closed() => break,
            Some(ended) = connections.join_next() => {
                log_panic(ended);
                continue;
            }
            accepted = listener.accept() => accepted,
        };
        let (io, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                rest_after(&error).await;
                continue;
            }
        };
        let Ok(slot) = Arc::clone(&slots).try_acquire_owned() else {
            refuse(peer, &metrics);
            continue;
        };
        let period = backend.present().period.number;
        let accepted = Accepted {
            judged: Connection::opened(backend.now(), period, &mut rng),
            peer,
            routes: routes.clone(),
            http2: http2.clone(),
            backend: Arc::clone(&backend),
            closing: closing.clone(),
            metrics: metrics.clone(),
        };
        let secure = Arc::clone(&secure);
        connections.spawn(async move {
            accepted.live(io, &*secure).await;
            drop(slot);
        });
    }
    // The address is free while the last answers leave.
    drop(listener);
    while let Some(ended) = connections.join_next().await {
        log_panic(ended);
    }
}

fn http2() -> Http2 {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_PER_CONNECTION)
        .keep_alive_interval(KEEPALIVE_INTERVAL)
        .keep_alive_timeout(KEEPALIVE_TIMEOUT)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES);
    builder
}

fn refuse(peer: SocketAddr, metrics: &ConnectionMetrics) {
    metrics.opened().ended(ConnectionEnd::TooMany);
    tracing::warn!(%peer, limit = CONNECTIONS, "too many connections: this one is closed at once");
}

/// A connection that broke before it was accepted concerns nobody else; anything else may well go on for a while.
async fn rest_after(error: &io::Error) {
    let concerns_one = matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
    );
    if !concerns_one {
        tracing::warn!(%error, "no connection can be accepted at the moment");
        tokio::time::sleep(REST_AFTER_ERROR).await;
    }
}

fn log_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(%error, "a connection's task panicked");
    }
}
