//! Connections, counted.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Why a connection ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ConnectionEnd {
    /// The other end closed it, or is gone.
    Client,
    /// This process stands by, or did so when it was opened (HA-68, D-16).
    Standby,
    /// The process ends.
    Shutdown,
    /// It never came to speak HTTP/2, or TLS failed.
    Handshake,
    /// There were too many.
    TooMany,
}

impl ConnectionEnd {
    const ALL: [Self; 5] = [Self::Client, Self::Standby, Self::Shutdown, Self::Handshake, Self::TooMany];

    const fn label(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Standby => "standby",
            Self::Shutdown => "shutdown",
            Self::Handshake => "handshake",
            Self::TooMany => "too_many",
        }
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct EndLabels {
    reason: &'static str,
}

/// The metrics of connections. A clone counts into the same series.
#[derive(Clone, Default)]
pub(crate) struct ConnectionMetrics {
    open: Gauge,
    closed: Family<EndLabels, Counter>,
}

impl ConnectionMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        for end in ConnectionEnd::ALL {
            let _ = self.closed.get_or_create(&EndLabels { reason: end.label() });
        }
        registry.register("connections", "Open connections to api.listen", self.open.clone());
        registry.register("connections_closed", "Connections that ended, by reason", self.closed.clone());
    }

    /// How many ended, by reason.
    #[cfg(test)]
    pub(crate) fn ends(&self) -> Vec<(&'static str, u64)> {
        let count = |end: ConnectionEnd| self.closed.get_or_create(&EndLabels { reason: end.label() }).get();
        ConnectionEnd::ALL.into_iter().map(|end| (end.label(), count(end))).collect()
    }

    /// One more.
    pub(crate) fn opened(&self) -> OpenConnection {
        self.open.inc();
        OpenConnection { metrics: self.clone(), end: ConnectionEnd::Shutdown }
    }
}

/// Counted as open until it is dropped.
pub(crate) struct OpenConnection {
    metrics: ConnectionMetrics,
    /// A connection that is cut off in the middle was cut off by the end of the process.
    end: ConnectionEnd,
}

impl OpenConnection {
    /// It ended.
    pub(crate) fn ended(mut self, end: ConnectionEnd) {
        self.end = end;
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.metrics.open.dec();
        self.metrics.closed.get_or_create(&EndLabels { reason: self.end.label() }).inc();
    }
}
