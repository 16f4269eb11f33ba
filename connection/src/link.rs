//! The way to whoever serves: a connection that is given up when its process does not serve.
//!
//! ```text
//!          call ──► current connection ──► answer
//!                        │ lost, or UNAVAILABLE: this process is a standby, or no more
//!                        ▼
//!          next call ──► a new connection, beginning at the next address
//! ```
//!
//! A link repeats nothing itself: who calls knows what may be repeated, and for how long.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::AUTHORIZATION;
use hyper_util::rt::TokioIo;
use tonic::body::Body;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Code, Status};
use tower::{Service, ServiceExt as _};

use crate::address::Addresses;
use crate::credential::{Credential, CredentialError};
use crate::dial::{DialError, Dialer, Io, dial};
use crate::tls::{ClientTls, Trouble};

/// A connection that was silent for so long is asked for a sign of life, idle or not.
pub const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(4);
/// A connection that does not answer for so long is given up: a frozen or vanished process is noticed 9 s after its
/// last sign, before a standby can have taken over a lease of the default 10 s (lesson B5).
pub const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(5);

/// Flow-control windows: large enough that one stream is not held up by a round trip.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 4 << 20;

/// A way to one server, over which any of its services can be called. Cheap to clone; clones share one connection.
///
/// The credential is added to every call. A call whose credential cannot be read ends UNAUTHENTICATED with a
/// [`CredentialError`] as its cause, and was not sent.
#[derive(Clone)]
pub struct Link {
    way: Arc<Way>,
    current: Arc<Mutex<Current>>,
}

/// How to get to a server.
pub(crate) struct Way {
    pub(crate) addresses: Addresses,
    pub(crate) credential: Credential,
    pub(crate) tls: Option<ClientTls>,
    pub(crate) dialer: Dialer,
    /// Counts connections: each begins at the next address.
    pub(crate) turn: AtomicUsize,
    /// Why the newest connection ended before it began.
    pub(crate) trouble: Trouble,
}

#[derive(Default)]
struct Current {
    /// Counts the connections that were given up.
    generation: u64,
    channel: Option<Channel>,
}

impl Link {
    pub(crate) fn new(way: Way) -> Self {
        Self { way: Arc::new(way), current: Arc::default() }
    }

    /// Another connection of the same kind, opened now, whatever became of this one.
    ///
    /// # Errors
    /// No address took it.
    pub async fn fresh(&self) -> Result<Self, tonic::transport::Error> {
        let channel = self.way.endpoint().connect_with_connector(self.connector()).await?;
        let current = Current { generation: 0, channel: Some(channel) };
        Ok(Self { way: self.way.clone(), current: Arc::new(Mutex::new(current)) })
    }

    /// The addresses, as people write them.
    pub fn address(&self) -> String {
        self.way.addresses.to_string()
    }

    /// Whether there is one address only, on this machine: where nobody listens there, nobody will who was not
    /// started there.
    pub fn is_only_this_machine(&self) -> bool {
        matches!(self.way.addresses.list.as_slice(), [address] if address.is_loopback())
    }

    /// Reads the credential, if it lies in a file.
    ///
    /// # Errors
    /// Calls would fail with this.
    pub fn check_credential(&self) -> Result<(), CredentialError> {
        self.way.credential.current().map(|_| ())
    }

    /// A number that changes when the credential does.
    pub fn credential_version(&self) -> u64 {
        self.way.credential.current().map_or(0, |current| current.version)
    }

    /// As [`credential_version`](Self::credential_version), after a look at the file: for a call that a server has
    /// refused as UNAUTHENTICATED, and that is worth a repetition if the credential was replaced since.
    pub fn credential_version_after_look(&self) -> u64 {
        self.way.credential.version_after_look()
    }

    fn channel(&self) -> (u64, Channel) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let channel = current
            .channel
            .get_or_insert_with(|| self.way.endpoint().connect_with_connector_lazy(self.connector()))
            .clone();
        (current.generation, channel)
    }

    /// The next call takes a new connection, unless one that came before us has seen to that. Calls that are
    /// still open on the old one are left alone.
    fn leave(&self, generation: u64) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.generation == generation {
            *current = Current { generation: generation + 1, channel: None };
        }
    }

    fn connector(&self) -> Connector {
        Connector(self.way.clone())
    }
}

/// Opens connections for a channel, which asks for its own address: we know better.
struct Connector(Arc<Way>);

impl Service<Uri> for Connector {
    type Response = TokioIo<Box<dyn Io>>;
    type Error = DialError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, DialError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), DialError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let way = self.0.clone();
        Box::pin(async move { way.dial().await.map(TokioIo::new) })
    }
}

impl Way {
    async fn dial(&self) -> Result<Box<dyn Io>, DialError> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        self.trouble.set(None);
        dial(&self.dialer, self.tls.as_ref(), &self.addresses.list, turn, &self.trouble).await
    }

    fn endpoint(&self) -> Endpoint {
        let authority = &self.addresses.list[0];
        let uri = |scheme: &str| {
            Uri::try_from(format!("{scheme}://{authority}")).expect("a parsed address is an authority")
        };
        // TLS is ours to speak; the scheme is only told to the server.
        Endpoint::from(uri("http"))
            .origin(uri(if self.tls.is_some() { "https" } else { "http" }))
            .http2_keep_alive_interval(KEEP_ALIVE_INTERVAL)
            .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
    }
}

impl Service<http::Request<Body>> for Link {
    type Response = http::Response<Body>;
    type Error = Box<dyn std::error::Error + Send + Sync>;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: http::Request<Body>) -> Self::Future {
        let link = self.clone();
        Box::pin(async move {
            let credential = link.way.credential.current().map_err(unauthenticated)?;
            if let Some(header) = credential.header {
                request.headers_mut().insert(AUTHORIZATION, header);
            }
            let (generation, channel) = link.channel();
            let answer = channel.oneshot(request).await;
            let serves = match &answer {
                Ok(response) => !is_unavailable(response),
                Err(_) => false,
            };
            if !serves {
                link.leave(generation);
            }
            match (answer, link.way.trouble.get()) {
                (Err(_), Some(why)) => Err(ended_at_once(why).into()),
                (answer, _) => Ok(answer?),
            }
        })
    }
}

/// A status that ends a call before any message travels in the headers.
fn is_unavailable<T>(response: &http::Response<T>) -> bool {
    Status::from_header_map(response.headers()).is_some_and(|status| status.code() == Code::Unavailable)
}

fn ended_at_once(why: &'static str) -> Status {
    let mut status = Status::unavailable(why);
    status.set_source(Arc::new(std::io::Error::new(std::io::ErrorKind::InvalidData, why)));
    status
}

fn unauthenticated(error: CredentialError) -> Status {
    let mut status = Status::unauthenticated(error.to_string());
    status.set_source(Arc::new(error));
    status
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Link").field(&self.way.addresses.to_string()).finish()
    }
}

#[cfg(test)]
#[path = "link_tests.rs"]
mod tests;
