//! Making a client that has more to say than an address.

use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use dexzd_connection::{Io, Target, TlsOptions};

use crate::client::{CALL_DEADLINE, Client, ClientError};

/// Makes a [`Client`].
///
/// ```no_run
/// use dexzd_sdk::prelude::*;
///
/// # async fn run() -> Result<(), ClientError> {
/// let client = Client::builder("dex-0.dex:8801,dex-1.dex:8801")
///     .credential_file("/etc/dex/token")
///     .tls(TlsOptions::new().ca_file("/etc/dex/ca.pem"))
///     .connect()
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a builder does nothing until `connect` or `build`"]
pub struct ClientBuilder {
    target: Target,
    deadline: Duration,
}

impl ClientBuilder {
    pub(super) fn new(address: String) -> Self {
        Self { target: Target::new(address), deadline: CALL_DEADLINE }
    }

    /// Sends this bearer token with every call.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.target = self.target.token(token);
        self
    }

    /// Sends the first token in this file with every call. The file is looked at for change at most once a second;
    /// while it is empty or cannot be read, calls end with [`ClientError::Credential`].
    pub fn credential_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.target = self.target.credential_file(path);
        self
    }

    /// Speaks TLS. An address that begins with `https://` does that with the default options.
    pub fn tls(mut self, options: TlsOptions) -> Self {
        self.target = self.target.tls(options);
        self
    }

    /// How long a call may take, repetitions included. Default [`CALL_DEADLINE`].
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Connects by other means than TCP: `connect` gets host and port. For tests, whose network may be simulated.
    pub fn connect_with<F, T>(mut self, connect: impl Fn(String, u16) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = io::Result<T>> + Send + 'static,
        T: Io,
    {
        self.target = self.target.connect_with(connect);
        self
    }

    /// A client that connects when it is first used.
    ///
    /// # Errors
    /// An address, a token or a file of TLS that cannot be used.
    pub fn build(self) -> Result<Client, ClientError> {
        Ok(Client::of(self.target.link()?).with_deadline(self.deadline))
    }

    /// A client that is connected, and has agreed on a protocol version.
    ///
    /// # Errors
    /// As [`build`](Self::build) and [`Client::connect`].
    pub async fn connect(self) -> Result<Client, ClientError> {
        let client = self.build()?;
        client.connected().await?;
        Ok(client)
    }
}
