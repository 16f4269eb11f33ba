//! io-tokio
