//! What the ends of a connection need: addresses, credentials and TLS material from files, and a [`Link`] that
//! finds the process that serves.
//!
//! The SDK and `dexcli` reach a server through a [`Link`]; the server reads its tokens and certificates with
//! [`token`] and [`material`]. Nothing here knows what is called over the connection.

mod address;
mod backoff;
mod credential;
mod dial;
mod fingerprint;
mod link;
pub mod material;
mod target;
mod tls;
pub mod token;
mod validity;

pub use address::{ADDRESS_VARIABLE, AddressError, DEFAULT_ADDRESS, address_from_environment};
pub use backoff::{BACKOFF_CAP, Backoff};
pub use credential::CredentialError;
pub use dial::{CONNECT_TIMEOUT, DialError, Io};
pub use fingerprint::Fingerprint;
pub use link::{KEEP_ALIVE_INTERVAL, KEEP_ALIVE_TIMEOUT, Link};
pub use target::{Target, TargetError};
pub use tls::TlsOptions;
