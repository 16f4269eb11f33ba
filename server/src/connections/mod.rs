//! The connections of clients, Workers and operators: each knows the role period in which it was opened, and can be
//! closed alone (HA-68, D-16).
//!
//! ```text
//! listener ── accepted ──► period and clock read ──► secured (TLS, or plain) ──► HTTP/2
//!                                                                                │ every request carries
//!                                                                                ▼ its ConnectionInfo
//! standby: GOAWAY 2.5 to 3.4 s after the later of opening and begin of the period, closed 100 ms later at the latest
//! active : stays; one of an earlier period goes as if the process still stood by
//! ```
//!
//! When a connection is to be closed is decided by [`dexzd_core::node::Connection`]; here it happens.

mod accept;
mod connection;
mod io;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use dexzd_core::node::Period;
use tokio::sync::watch;

#[cfg(test)]
pub(crate) use accept::CONNECTIONS;
pub(crate) use accept::{Server, serve};
#[cfg(test)]
pub(crate) use io::Plain;
pub(crate) use io::{Listener, Secure};

/// What every request knows about the connection that it came on: an extension of the request.
#[derive(Clone)]
pub(crate) struct ConnectionInfo {
    /// The role period in which it was opened (D-16).
    pub(crate) opened_in: Period,
    /// Who is at the other end, as far as the operating system knows.
    pub(crate) peer: SocketAddr,
    step_downs: watch::Sender<usize>,
}

impl ConnectionInfo {
    /// Of this request.
    pub(crate) fn of<T>(request: &tonic::Request<T>) -> Self {
        request.extensions().get::<Self>().cloned().expect("every request comes over `serve`")
    }

    /// A step down runs on this connection until the guard is dropped: the connection is closed after its answer,
    /// not before (D-16).
    pub(crate) fn carry_step_down(&self) -> StepDownCarried {
        self.step_downs.send_modify(|running| *running += 1);
        StepDownCarried(self.step_downs.clone())
    }
}

impl fmt::Debug for ConnectionInfo {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ConnectionInfo").field("opened_in", &self.opened_in).finish_non_exhaustive()
    }
}

/// See [`ConnectionInfo::carry_step_down`].
pub(crate) struct StepDownCarried(watch::Sender<usize>);

impl Drop for StepDownCarried {
    fn drop(&mut self) {
        self.0.send_modify(|running| *running -= 1);
    }
}

/// Tells all connections of one server to end, once.
#[derive(Clone)]
pub(crate) struct Closing(Arc<watch::Sender<bool>>);

impl Closing {
    pub(crate) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }

    /// No connection is accepted any more; open ones get GOAWAY and end with their last answer.
    pub(crate) fn close(&self) {
        self.0.send_replace(true);
    }

    /// Returns once [`close`](Self::close) was called.
    async fn closed(&self) {
        // The sender lives in `self`: it cannot be gone.
        let _ = self.0.subscribe().wait_for(|closed| *closed).await;
    }
}

#[cfg(test)]
mod tests;
