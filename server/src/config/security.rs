//! The sections `authentication` and `tls`: paths only; the files are read when the process starts.

use std::path::PathBuf;

use super::ConfigError;
use super::document::{Section, path};

/// `authentication`: who may call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Authentication {
    /// `authentication.clientTokenFile`: opens everything but AdminService.
    pub client_token_file: PathBuf,
    /// `authentication.adminTokenFile`: opens AdminService. Without one nobody reaches it.
    pub admin_token_file: Option<PathBuf>,
}

/// `tls`: how `api.listen` speaks TLS.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tls {
    /// `tls.certificateFile`: PEM, the own certificate first.
    pub certificate_file: PathBuf,
    /// `tls.keyFile`: PEM, not encrypted.
    pub key_file: PathBuf,
    /// `tls.clientCaFile`: PEM; who connects must show a certificate that these authorities signed.
    pub client_ca_file: Option<PathBuf>,
}

impl Authentication {
    /// The section, if it is there.
    pub(super) fn parse(top: &mut Section) -> Result<Option<Self>, ConfigError> {
        let Some(mut section) = top.section_if_there("authentication")? else {
            return Ok(None);
        };
        let client_token_file = path(&mut section, "clientTokenFile")?;
        let admin_token_file = path(&mut section, "adminTokenFile")?;
        section.finish()?;
        let client_token_file = client_token_file.ok_or_else(|| {
            ConfigError::refused(
                "authentication.clientTokenFile",
                "nothing",
                "with this section every client and Worker needs a token, and this file lists those that are valid; \
                 leave the whole section out to switch authentication off",
            )
        })?;
        Ok(Some(Self { client_token_file, admin_token_file }))
    }
}

impl Tls {
    /// The section, if it is there.
    pub(super) fn parse(top: &mut Section) -> Result<Option<Self>, ConfigError> {
        let Some(mut section) = top.section_if_there("tls")? else {
            return Ok(None);
        };
        let certificate_file = path(&mut section, "certificateFile")?;
        let key_file = path(&mut section, "keyFile")?;
        let client_ca_file = path(&mut section, "clientCaFile")?;
        section.finish()?;
        let missing = |key: &str| {
            ConfigError::refused(
                key,
                "nothing",
                "TLS needs a certificate and its key, each a PEM file; leave the whole section out to switch TLS off",
            )
        };
        Ok(Some(Self {
            certificate_file: certificate_file.ok_or_else(|| missing("tls.certificateFile"))?,
            key_file: key_file.ok_or_else(|| missing("tls.keyFile"))?,
            client_ca_file,
        }))
    }
}
