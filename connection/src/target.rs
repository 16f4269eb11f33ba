//! Everything that is said about a server before the first connection.

use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use crate::address::{AddressError, Addresses};
use crate::credential::{Credential, CredentialFile};
use crate::dial::{Dialer, Io};
use crate::link::{Link, Way};
use crate::material::MaterialError;
use crate::tls::{ClientTls, ClientTlsError, TlsOptions, Trouble};
use crate::token::Token;

/// Where a server is, what opens it, and how to get there.
#[derive(Clone)]
#[must_use = "a target does nothing until `link`"]
pub struct Target {
    addresses: String,
    credential: Given,
    tls: Option<TlsOptions>,
    dialer: Dialer,
}

#[derive(Clone)]
enum Given {
    Nothing,
    Token(String),
    File(PathBuf),
}

/// A target contradicts itself, or names a file that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// The address cannot be read.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The token is none.
    #[error("the token cannot be used: {0}")]
    Token(String),
    /// A file of TLS.
    #[error("TLS: {0}")]
    Material(#[from] MaterialError),
    /// No certificate can be for such a name.
    #[error("TLS: {0}")]
    ServerName(String),
    /// `http://` and TLS at once.
    #[error("{0:?} says http://, and TLS was asked for too: write https://, or leave one of both out")]
    PlainAddress(String),
}

impl Target {
    /// The server at `host:port`, or at one of several addresses separated by commas, each with `http://`,
    /// `https://` (TLS) or nothing before it. A name may have several addresses, too.
    pub fn new(addresses: impl Into<String>) -> Self {
        Self { addresses: addresses.into(), credential: Given::Nothing, tls: None, dialer: Dialer::Tcp }
    }

    /// Sends this bearer token with every call.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.credential = Given::Token(token.into());
        self
    }

    /// Sends the first token in this file with every call. The file is looked at for change at most once a second;
    /// while it is empty or cannot be read, calls fail without being sent.
    pub fn credential_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.credential = Given::File(path.into());
        self
    }

    /// Speaks TLS.
    pub fn tls(mut self, options: TlsOptions) -> Self {
        self.tls = Some(options);
        self
    }

    /// Connects by other means than TCP: `connect` gets host and port. For tests, whose network may be simulated.
    pub fn connect_with<F, T>(mut self, connect: impl Fn(String, u16) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = io::Result<T>> + Send + 'static,
        T: Io,
    {
        self.dialer = Dialer::Other(Arc::new(move |host, port| {
            let connecting = connect(host, port);
            Box::pin(async move {
                let io: Box<dyn Io> = Box::new(connecting.await?);
                Ok(io)
            })
        }));
        self
    }

    /// A way to the server that connects when it is first used.
    ///
    /// # Errors
    /// Anything that is wrong before the first connection: see [`TargetError`]. A credential file is read only
    /// when a call is sent.
    pub fn link(&self) -> Result<Link, TargetError> {
        let addresses = Addresses::parse(&self.addresses)?;
        let options = match (&self.tls, addresses.tls) {
            (Some(_), Some(false)) => return Err(TargetError::PlainAddress(self.addresses.clone())),
            (Some(options), _) => Some(options.clone()),
            (None, Some(true)) => Some(TlsOptions::default()),
            (None, _) => None,
        };
        let tls = options.map(ClientTls::new).transpose().map_err(|error| match error {
            ClientTlsError::Material(error) => TargetError::Material(error),
            error @ ClientTlsError::Name(_) => TargetError::ServerName(error.to_string()),
        })?;
        let credential = match &self.credential {
            Given::Nothing => Credential::None,
            Given::Token(token) => Credential::Token(Token::parse(token).map_err(TargetError::Token)?),
            Given::File(path) => Credential::File(CredentialFile::new(path.clone())),
        };
        if !credential.is_none()
            && tls.is_none()
            && !addresses.list.iter().all(|address| address.is_loopback())
        {
            tracing::warn!(
                address = %addresses,
                "the credential is sent without TLS: whoever can listen in between can use it; https:// protects it"
            );
        }
        Ok(Link::new(Way {
            addresses,
            credential,
            tls,
            dialer: self.dialer.clone(),
            turn: AtomicUsize::new(0),
            trouble: Trouble::default(),
        }))
    }
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Target")
            .field("addresses", &self.addresses)
            .field("tls", &self.tls)
            .finish_non_exhaustive()
    }
}
