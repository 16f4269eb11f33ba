//! TLS of the client's side, and errors of TLS in words that say what to do.

use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{AlertDescription, CertificateError, ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;
use tokio_rustls::TlsConnector;

use crate::dial::Io;
use crate::fingerprint::Fingerprint;
use crate::material::{self, MaterialError};

/// Files are looked at for change at most this often, and only when a connection is opened.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// HTTP/2, as gRPC needs it.
pub(crate) const ALPN: &[u8] = b"h2";

/// How a client speaks TLS. The default trusts what this machine trusts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[must_use = "options do nothing by themselves"]
pub struct TlsOptions {
    ca_file: Option<PathBuf>,
    identity: Option<(PathBuf, PathBuf)>,
    server_name: Option<String>,
}

impl TlsOptions {
    /// All defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Trusts the authorities in this PEM file, and no others.
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.ca_file = Some(path.into());
        self
    }

    /// Shows this certificate to a server that asks for one (mTLS): PEM files of the chain and its key.
    pub fn identity(mut self, certificate_file: impl Into<PathBuf>, key_file: impl Into<PathBuf>) -> Self {
        self.identity = Some((certificate_file.into(), key_file.into()));
        self
    }

    /// The name that the server's certificate must be for. Default: the host of the address.
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }

    fn files(&self) -> impl Iterator<Item = &PathBuf> {
        let identity = self.identity.iter().flat_map(|(certificate, key)| [certificate, key]);
        self.ca_file.iter().chain(identity)
    }

    fn load(&self) -> Result<Arc<ClientConfig>, MaterialError> {
        let roots = match &self.ca_file {
            Some(path) => material::authorities(path)?,
            None => machine_roots(),
        };
        let config = ClientConfig::builder_with_provider(material::provider())
            .with_safe_default_protocol_versions()
            .expect("ring knows TLS 1.2 and 1.3")
            .with_root_certificates(roots);
        let mut config = match &self.identity {
            None => config.with_no_client_auth(),
            Some((certificate_file, key_file)) => {
                let identity = material::identity(certificate_file, key_file)?;
                config.with_client_auth_cert(identity.certificates, identity.key).map_err(|error| {
                    MaterialError { path: certificate_file.clone(), why: error.to_string() }
                })?
            }
        };
        config.alpn_protocols = vec![ALPN.to_vec()];
        Ok(Arc::new(config))
    }
}

/// Those that cannot be read are left out: with none at all every server is refused by name.
fn machine_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

/// The options, with what their files say.
pub(crate) struct ClientTls {
    options: TlsOptions,
    server_name: Option<ServerName<'static>>,
    loaded: Mutex<Loaded>,
}

struct Loaded {
    looked_at: Instant,
    fingerprints: Vec<Option<Fingerprint>>,
    config: Arc<ClientConfig>,
}

impl ClientTls {
    /// Reads the files.
    pub(crate) fn new(options: TlsOptions) -> Result<Self, ClientTlsError> {
        let server_name = options.server_name.clone().map(parse_name).transpose()?;
        let fingerprints = options.files().map(|path| Fingerprint::of(path).ok()).collect();
        let config = options.load()?;
        let loaded = Mutex::new(Loaded { looked_at: Instant::now(), fingerprints, config });
        Ok(Self { options, server_name, loaded })
    }

    pub(crate) async fn connect(&self, host: &str, io: Box<dyn Io>) -> io::Result<Box<dyn Io>> {
        let name = match &self.server_name {
            Some(name) => name.clone(),
            None => parse_name(host.to_owned()).map_err(io::Error::other)?,
        };
        let shown = name.to_str().into_owned();
        let stream = TlsConnector::from(self.config())
            .connect(name, io)
            .await
            .map_err(|error| explained(error, Some(&shown)))?;
        Ok(Box::new(Explaining { io: stream, is_fresh: false, trouble: Trouble::default() }))
    }

    /// Read again if a file has changed. A changed file that is wrong leaves the old material in use.
    fn config(&self) -> Arc<ClientConfig> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if loaded.looked_at.elapsed() >= LOOK_INTERVAL {
            loaded.looked_at = Instant::now();
            let fingerprints: Vec<_> = self.options.files().map(|path| Fingerprint::of(path).ok()).collect();
            if fingerprints != loaded.fingerprints {
                loaded.fingerprints = fingerprints;
                match self.options.load() {
                    Ok(config) => loaded.config = config,
                    Err(error) => {
                        tracing::warn!(%error, "the changed TLS files are wrong: the old ones stay in use")
                    }
                }
            }
        }
        loaded.config.clone()
    }
}

/// TLS cannot be used as it was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ClientTlsError {
    #[error(transparent)]
    Material(#[from] MaterialError),
    #[error("{0:?} is no name that a certificate can be for: write a host name or an IP address")]
    Name(String),
}

fn parse_name(name: String) -> Result<ServerName<'static>, ClientTlsError> {
    ServerName::try_from(name.clone()).map_err(|_| ClientTlsError::Name(name))
}

/// The same error, with what to do where that is known.
fn explained(error: io::Error, server_name: Option<&str>) -> io::Error {
    let Some(cause) = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>()) else {
        if error.kind() == io::ErrorKind::UnexpectedEof && server_name.is_some() {
            let why =
                "the server ended the connection during the TLS handshake: perhaps it does not speak TLS";
            return io::Error::new(error.kind(), why);
        }
        return error;
    };
    let Some(hint) = hint(cause) else {
        return error;
    };
    let name = server_name.map(|name| format!(" (expecting {name:?})")).unwrap_or_default();
    io::Error::new(error.kind(), format!("{cause}{name}; {hint}"))
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the enums of rustls are open; what is not named explains itself"
)]
fn hint(error: &rustls::Error) -> Option<&'static str> {
    Some(match error {
        rustls::Error::InvalidMessage(_) => {
            "perhaps the server does not speak TLS: then use http://, or leave the TLS options out"
        }
        rustls::Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        ) => {
            "the server's certificate is signed by an authority that is not trusted here: name a file with that \
             authority's certificate"
        }
        rustls::Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => {
            "the server's certificate is for another name: connect by that name, or say which name to expect"
        }
        rustls::Error::InvalidCertificate(
            CertificateError::Expired | CertificateError::ExpiredContext { .. },
        ) => "the server's certificate has expired, or this machine's clock is wrong",
        rustls::Error::AlertReceived(AlertDescription::CertificateRequired) => {
            "the server wants a client certificate: give one, with its key"
        }
        rustls::Error::AlertReceived(
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::DecryptError,
        ) => "the server does not accept this client's certificate",
        _ => return None,
    })
}

/// A connection whose errors say what to do: also those that TLS reports after the handshake, and a server that
/// speaks TLS where the client does not.
pub(crate) struct Explaining<T> {
    io: T,
    /// Nothing was read yet from a connection without TLS.
    is_fresh: bool,
    trouble: Trouble,
}

/// Why a connection ended before the server had said anything. HTTP/2 does not always tell its callers the error of the
/// connection: calls that came to it later hear of a broken pipe only.
#[derive(Clone, Default)]
pub(crate) struct Trouble(Arc<Mutex<Option<&'static str>>>);

impl Trouble {
    pub(crate) fn get(&self) -> Option<&'static str> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set(&self, why: Option<&'static str>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }
}

/// The first byte of a TLS alert and of a TLS handshake; a frame of HTTP/2 never begins so, as it would be longer
/// than a megabyte.
const TLS_RECORDS: [u8; 2] = [0x15, 0x16];

/// A server that expects TLS may close the connection over our first bytes; its alert may be lost.
const ENDED_AT_ONCE: &str = "the server ended the connection before it said anything: if it speaks TLS, use https:// or \
                             the TLS options";

impl<T> Explaining<T> {
    pub(crate) const fn plain(io: T, trouble: Trouble) -> Self {
        Self { io, is_fresh: true, trouble }
    }

    fn ended_at_once(&self, why: &'static str) -> io::Error {
        self.trouble.set(Some(why));
        io::Error::new(io::ErrorKind::InvalidData, why)
    }

    fn explained(&self, error: io::Error) -> io::Error {
        if self.is_fresh { self.ended_at_once(ENDED_AT_ONCE) } else { explained(error, None) }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Explaining<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = ready!(Pin::new(&mut self.io).poll_read(context, buffer));
        if !self.is_fresh {
            return Poll::Ready(read.map_err(|error| explained(error, None)));
        }
        let why = match (&read, buffer.filled().get(before)) {
            (Ok(()), Some(first)) if TLS_RECORDS.contains(first) => {
                "the server speaks TLS: use https://, or the TLS options"
            }
            (Ok(()), Some(_)) => {
                self.is_fresh = false;
                return Poll::Ready(Ok(()));
            }
            (Ok(()), None) | (Err(_), _) => ENDED_AT_ONCE,
        };
        Poll::Ready(Err(self.ended_at_once(why)))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Explaining<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes).map_err(|error| self.explained(error))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context).map_err(|error| self.explained(error))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(context, slices).map_err(|error| self.explained(error))
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}
