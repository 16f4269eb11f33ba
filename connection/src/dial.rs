//! Opening one connection: every address in turn until one takes it.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::address::Address;
use crate::tls::{ClientTls, Explaining, Trouble};

/// An attempt at one address, TLS included, is given up after this: a Worker has a stream within 5 s of an ended
/// connection even where the first address does not answer at all (lesson F4).
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Both directions of a connection.
pub trait Io: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Io for T {}

pub(crate) type Dialing = Pin<Box<dyn Future<Output = io::Result<Box<dyn Io>>> + Send>>;

/// What carries the bytes.
#[derive(Clone)]
pub(crate) enum Dialer {
    Tcp,
    /// Whatever a test puts in its place, by host and port.
    Other(Arc<dyn Fn(String, u16) -> Dialing + Send + Sync>),
}

/// No address took the connection.
#[derive(Debug)]
pub struct DialError {
    /// Each address that was tried, and why that failed.
    failures: Vec<Failure>,
}

#[derive(Debug)]
struct Failure {
    address: String,
    why: String,
    is_refused: bool,
}

impl DialError {
    /// Whether every address answered that nobody listens there.
    pub fn is_refused(&self) -> bool {
        self.failures.iter().all(|failure| failure.is_refused)
    }

    /// Looks for one among the causes of an error.
    pub fn find<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Self> {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(found) = error.downcast_ref() {
                return Some(found);
            }
            next = error.source();
        }
        None
    }
}

impl fmt::Display for DialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [failure] = self.failures.as_slice() {
            return f.write_str(&failure.why);
        }
        for (index, Failure { address, why, .. }) in self.failures.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{address}: {why}")?;
        }
        Ok(())
    }
}

impl Error for DialError {}

/// One connection to the first address that takes it. `turn` decides which is asked first, so that who comes
/// back after a failure begins at another one: host names in turn, and the addresses behind a name in turn.
pub(crate) async fn dial(
    dialer: &Dialer,
    tls: Option<&ClientTls>,
    hosts: &[Address],
    turn: usize,
    trouble: &Trouble,
) -> Result<Box<dyn Io>, DialError> {
    let mut failures = Vec::new();
    for step in 0..hosts.len() {
        let host = &hosts[(turn + step) % hosts.len()];
        let failed = |address: String, error: &io::Error| Failure {
            address,
            why: error.to_string(),
            is_refused: error.kind() == io::ErrorKind::ConnectionRefused,
        };
        match dialer {
            Dialer::Other(connect) => {
                let connect = connect(host.host.clone(), host.port);
                match within_timeout(secured(tls, host, trouble, connect)).await {
                    Ok(io) => return Ok(io),
                    Err(error) => failures.push(failed(host.to_string(), &error)),
                }
            }
            Dialer::Tcp => {
                let found = match within_timeout(resolve(host)).await {
                    Ok(found) => found,
                    Err(error) => {
                        failures.push(failed(host.to_string(), &error));
                        continue;
                    }
                };
                let first = turn / hosts.len();
                for step in 0..found.len() {
                    let address = found[(first + step) % found.len()];
                    match within_timeout(secured(tls, host, trouble, connect_tcp(address))).await {
                        Ok(io) => return Ok(io),
                        Err(error) => failures.push(failed(address.to_string(), &error)),
                    }
                }
            }
        }
    }
    Err(DialError { failures })
}

async fn within_timeout<T>(work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    tokio::time::timeout(CONNECT_TIMEOUT, work).await.unwrap_or_else(|_| {
        Err(io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {CONNECT_TIMEOUT:?}")))
    })
}

async fn resolve(host: &Address) -> io::Result<Vec<SocketAddr>> {
    let found: Vec<_> = tokio::net::lookup_host((host.host.as_str(), host.port)).await?.collect();
    if found.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
    }
    Ok(found)
}

async fn connect_tcp(address: SocketAddr) -> io::Result<Box<dyn Io>> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(Box::new(stream))
}

async fn secured(
    tls: Option<&ClientTls>,
    host: &Address,
    trouble: &Trouble,
    connect: impl Future<Output = io::Result<Box<dyn Io>>>,
) -> io::Result<Box<dyn Io>> {
    let io = connect.await?;
    match tls {
        Some(tls) => tls.connect(&host.host, io).await,
        None => Ok(Box::new(Explaining::plain(io, trouble.clone()))),
    }
}
