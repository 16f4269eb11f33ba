//! What the two ends of a connection agree on, and what to tell people when there is none.

use dexzd_proto as proto;

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
