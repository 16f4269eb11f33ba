//! Where the server is, and how to get there.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use dexzd_proto as proto;
use tonic::transport::{Channel, Endpoint};

/// The environment variable that names the server's address.
pub const ADDRESS_VARIABLE: &str = "DEX_FLOW_SERVICE_ADDRESS";
/// The address when nothing else is said.
pub const DEFAULT_ADDRESS: &str = "127.0.0.1:8801";

/// A connection attempt that hangs is given up after this, so that a Worker has a stream within 5 s of an
/// ended connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// HTTP/2 pings detect a peer that is silent: 5 s after its last sign, 10 s without an answer (lesson B5).
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// The server's address from [`ADDRESS_VARIABLE`], or [`DEFAULT_ADDRESS`].
pub fn address_from_environment() -> String {
    std::env::var(ADDRESS_VARIABLE)
        .ok()
        .filter(|address| !address.is_empty())
        .unwrap_or_else(|| DEFAULT_ADDRESS.to_owned())
}

/// An address is not `host:port`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{address:?} is no server address: write host:port, for example {DEFAULT_ADDRESS}")]
pub struct AddressError {
    /// As given.
    pub address: String,
}

type Connecting = Pin<Box<dyn Future<Output = Result<Channel, tonic::transport::Error>> + Send>>;

/// A parsed address, and the way to connect to it.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) address: Arc<str>,
    endpoint: Endpoint,
    connect: Arc<dyn Fn(Endpoint) -> Connecting + Send + Sync>,
    connect_lazily: Arc<dyn Fn(Endpoint) -> Channel + Send + Sync>,
}

impl Server {
    pub(crate) fn parse(address: &str) -> Result<Self, AddressError> {
        let bad = || AddressError { address: address.to_owned() };
        let authority = address.strip_prefix("http://").unwrap_or(address).trim_end_matches('/');
        let (host, port) = authority.rsplit_once(':').ok_or_else(bad)?;
        if host.is_empty() || port.parse::<u16>().is_err() {
            return Err(bad());
        }
        let endpoint = Endpoint::from_shared(format!("http://{authority}")).map_err(|_| bad())?;
        let endpoint = endpoint
            .connect_timeout(CONNECT_TIMEOUT)
            .http2_keep_alive_interval(KEEP_ALIVE_INTERVAL)
            .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(1 << 20)
            .initial_connection_window_size(4 << 20)
            .tcp_nodelay(true);
        Ok(Self {
            address: authority.into(),
            endpoint,
            connect: Arc::new(|endpoint| Box::pin(async move { endpoint.connect().await })),
            connect_lazily: Arc::new(|endpoint| endpoint.connect_lazy()),
        })
    }

    /// Connects by other means than TCP.
    #[cfg(test)]
    pub(crate) fn with_connector(
        mut self,
        connect: impl Fn(Endpoint) -> Connecting + Send + Sync + 'static,
        connect_lazily: impl Fn(Endpoint) -> Channel + Send + Sync + 'static,
    ) -> Self {
        self.connect = Arc::new(connect);
        self.connect_lazily = Arc::new(connect_lazily);
        self
    }

    /// One new connection.
    pub(crate) async fn connect(&self) -> Result<Channel, tonic::transport::Error> {
        (self.connect)(self.endpoint.clone()).await
    }

    /// A channel that connects when it is used, and again when the connection was lost.
    pub(crate) fn connect_lazily(&self) -> Channel {
        (self.connect_lazily)(self.endpoint.clone())
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Server").field(&self.address).finish()
    }
}

/// No version of the protocol is known to both sides.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the server at {address} (version {server_version}) speaks protocol versions {}-{}, this library {}-{}: upgrade \
     the {} (servers before SDKs)",
    .server.0, .server.1, .library.0, .library.1,
    if .server.1 < .library.0 { "server" } else { "SDK" }
)]
pub struct ProtocolError {
    /// The server's address.
    pub address: String,
    /// The server's version.
    pub server_version: String,
    /// Protocol versions of the server, inclusive.
    pub server: (u32, u32),
    /// Protocol versions of this library, inclusive.
    pub library: (u32, u32),
}

/// The highest protocol version that both sides know.
pub(crate) fn agree_on_protocol(
    address: &str,
    info: &proto::ServerInfo,
    library: (u32, u32),
) -> Result<u32, ProtocolError> {
    let highest = info.protocol_max.min(library.1);
    let lowest = info.protocol_min.max(library.0);
    // A server that states no interval says 0 to 0.
    if lowest <= highest && highest > 0 {
        return Ok(highest);
    }
    Err(ProtocolError {
        address: address.to_owned(),
        server_version: info.version.clone(),
        server: (info.protocol_min, info.protocol_max),
        library,
    })
}

/// What to tell people whose connection failed: the innermost cause is the one that helps.
pub(crate) fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// What to tell people about a status that is not OK: the cause of a broken connection, or the server's
/// own words.
pub(crate) fn describe(status: &tonic::Status) -> String {
    match std::error::Error::source(status) {
        Some(source) => root_cause(source),
        None => format!("{:?}: {}", status.code(), status.message()),
    }
}
