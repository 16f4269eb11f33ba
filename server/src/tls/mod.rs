//! TLS on `api.listen`, with material that is read again when its files change.

mod secure;

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use dexzd_connection::Fingerprint;
use dexzd_connection::material::{self, MaterialError};
use rustls::ServerConfig;
use rustls::server::WebPkiClientVerifier;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::config::Tls;
use crate::refusal::Refusal;

/// Files are looked at for change this often.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// HTTP/2, as gRPC needs it.
const ALPN: &[u8] = b"h2";

/// TLS, if it is configured; its files are looked after for as long as the runtime lives.
///
/// # Errors
/// Files that do not fit.
pub(crate) fn start(files: Option<&Tls>) -> Result<Option<Arc<Acceptor>>, Refusal> {
    let Some(files) = files else {
        return Ok(None);
    };
    let acceptor = Arc::new(Acceptor::load(files).map_err(Refusal::tls_file)?);
    tokio::spawn(Arc::clone(&acceptor).keep_looking());
    Ok(Some(acceptor))
}

/// Speaks TLS with whoever connects.
pub(crate) struct Acceptor {
    files: Tls,
    config: RwLock<Arc<ServerConfig>>,
    /// Of the files that were read last, whether or not they could be used.
    fingerprints: Mutex<Vec<Option<Fingerprint>>>,
}

impl Acceptor {
    /// Reads the files.
    ///
    /// # Errors
    /// The key and the file that cannot be used.
    pub(crate) fn load(files: &Tls) -> Result<Self, (&'static str, MaterialError)> {
        let fingerprints = fingerprints(files);
        let config = load(files).map_err(|error| (key_of(files, &error.path), error))?;
        Ok(Self { files: files.clone(), config: RwLock::new(config), fingerprints: Mutex::new(fingerprints) })
    }

    /// The handshake of one connection; how long it may take is the accept loop's to say.
    ///
    /// # Errors
    /// The peer speaks no TLS, or shows no certificate that is trusted.
    pub(crate) async fn accept<IO: AsyncRead + AsyncWrite + Unpin>(
        &self,
        io: IO,
    ) -> io::Result<TlsStream<IO>> {
        let config = Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner));
        TlsAcceptor::from(config).accept(io).await
    }

    /// Reads the files again, if one has changed. New connections use what was read; files that do not fit leave
    /// the old material in use, so that half a rotation cuts nobody off.
    pub(crate) fn look(&self) {
        let now = fingerprints(&self.files);
        let mut known = self.fingerprints.lock().unwrap_or_else(PoisonError::into_inner);
        if now == *known {
            return;
        }
        *known = now;
        match load(&self.files) {
            Ok(config) => {
                *self.config.write().unwrap_or_else(PoisonError::into_inner) = config;
                tracing::info!("the TLS files were read again: new connections use them");
            }
            Err(error) => tracing::error!(
                key = key_of(&self.files, &error.path),
                %error,
                "the changed TLS files cannot be used: the old ones stay in use"
            ),
        }
    }

    /// Looks at the files once in every [`LOOK_INTERVAL`], for as long as the runtime lives.
    pub(crate) async fn keep_looking(self: Arc<Self>) {
        let mut interval = tokio::time::interval(LOOK_INTERVAL);
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            interval.tick().await;
            let this = Arc::clone(&self);
            // A file system that hangs holds up this look, and no connection.
            if tokio::task::spawn_blocking(move || this.look()).await.is_err() {
                return;
            }
        }
    }
}

fn load(files: &Tls) -> Result<Arc<ServerConfig>, MaterialError> {
    let identity = material::identity(&files.certificate_file, &files.key_file)?;
    let config = ServerConfig::builder_with_provider(material::provider())
        .with_safe_default_protocol_versions()
        .expect("ring knows TLS 1.2 and 1.3");
    let config = match &files.client_ca_file {
        None => config.with_no_client_auth(),
        Some(path) => {
            let roots = Arc::new(material::authorities(path)?);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, material::provider())
                .build()
                .map_err(|error| MaterialError { path: path.clone(), why: error.to_string() })?;
            config.with_client_cert_verifier(verifier)
        }
    };
    let mut config = config
        .with_single_cert(identity.certificates, identity.key)
        .map_err(|error| MaterialError { path: files.certificate_file.clone(), why: error.to_string() })?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(Arc::new(config))
}

fn fingerprints(files: &Tls) -> Vec<Option<Fingerprint>> {
    let paths = [Some(&files.certificate_file), Some(&files.key_file), files.client_ca_file.as_ref()];
    paths.into_iter().flatten().map(|path| Fingerprint::of(path).ok()).collect()
}

/// The key of the configuration that names this file.
fn key_of(files: &Tls, path: &PathBuf) -> &'static str {
    if *path == files.key_file {
        "tls.keyFile"
    } else if files.client_ca_file.as_ref() == Some(path) {
        "tls.clientCaFile"
    } else {
        "tls.certificateFile"
    }
}

#[cfg(test)]
mod tests;
