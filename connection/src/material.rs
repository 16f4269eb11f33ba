//! Certificates and keys from PEM files, with errors that name the file and what to do.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::validity::{show, validity_of};

/// Why a file cannot be used for TLS.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {why}", path.display())]
pub struct MaterialError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it, and what to do.
    pub why: String,
}

impl MaterialError {
    fn new(path: &Path, why: impl Into<String>) -> Self {
        Self { path: path.to_owned(), why: why.into() }
    }
}

/// A certificate chain and the key that belongs to it.
#[derive(Debug)]
pub struct Identity {
    /// The own certificate first, then those that lead to the authority's.
    pub certificates: Vec<CertificateDer<'static>>,
    /// The key of the first certificate.
    pub key: PrivateKeyDer<'static>,
}

/// The cryptography of this program: ring.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Reads a chain and its key, and checks that they belong together and that the certificate is valid now.
///
/// # Errors
/// Names the file that is wrong.
pub fn identity(certificate_file: &Path, key_file: &Path) -> Result<Identity, MaterialError> {
    let certificates = certificates(certificate_file)?;
    let key = private_key(key_file)?;
    check_validity(certificate_file, &certificates[0])?;
    let signing_key = provider()
        .key_provider
        .load_private_key(key.clone_key())
        .map_err(|error| MaterialError::new(key_file, format!("this kind of key cannot be used: {error}")))?;
    let certified = rustls::sign::CertifiedKey::new(certificates.clone(), signing_key);
    match certified.keys_match() {
        Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => {}
        Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::KeyMismatch)) => {
            return Err(MaterialError::new(
                key_file,
                format!(
                    "the key does not belong to the certificate in {}: the first certificate of that file must be the \
                     one that was issued for this key",
                    certificate_file.display()
                ),
            ));
        }
        Err(error) => {
            return Err(MaterialError::new(
                certificate_file,
                format!("the certificate cannot be read: {error}"),
            ));
        }
    }
    Ok(Identity { certificates, key })
}

/// Reads the certificates of the authorities that are trusted.
///
/// # Errors
/// The file cannot be read, or holds no certificate that can be one of an authority.
pub fn authorities(path: &Path) -> Result<RootCertStore, MaterialError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|error| {
            MaterialError::new(path, format!("a certificate in it cannot be trusted: {error}"))
        })?;
    }
    Ok(roots)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, MaterialError> {
    let text = read(path)?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match certificates {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        Ok(_) => Err(MaterialError::new(
            path,
            "it holds no certificate: a PEM file with `-----BEGIN CERTIFICATE-----` is needed",
        )),
        Err(error) => Err(MaterialError::new(path, format!("it is not a PEM file of certificates: {error}"))),
    }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, MaterialError> {
    let text = read(path)?;
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| {
        let why = if matches!(error, pem::Error::NoItemsFound) {
            "it holds no key: a PEM file with `-----BEGIN PRIVATE KEY-----` (not encrypted) is needed"
                .to_owned()
        } else {
            format!("it is not a PEM file of a key: {error}")
        };
        MaterialError::new(path, why)
    })
}

fn read(path: &Path) -> Result<Vec<u8>, MaterialError> {
    std::fs::read(path).map_err(|error| MaterialError::new(path, format!("it cannot be read: {error}")))
}

fn check_validity(path: &Path, certificate: &CertificateDer<'_>) -> Result<(), MaterialError> {
    let validity = validity_of(certificate)
        .ok_or_else(|| MaterialError::new(path, "the first certificate cannot be read"))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let now = i64::try_from(now).unwrap_or(i64::MAX);
    if now > validity.not_after {
        return Err(MaterialError::new(
            path,
            format!("the certificate expired at {}: put a new one there", show(validity.not_after)),
        ));
    }
    if now < validity.not_before {
        return Err(MaterialError::new(
            path,
            format!(
                "the certificate is valid from {} on, and this machine's clock says {}: check the clock",
                show(validity.not_before),
                show(now)
            ),
        ));
    }
    Ok(())
}

#[cfg(test)]
#[path = "material_tests.rs"]
mod tests;
