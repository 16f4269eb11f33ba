//! Where to listen: `host:port`, or `:port` for all addresses of the machine.

use std::fmt;

/// An address to listen on. The host is resolved when it is bound.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListenAddress {
    host: String,
    port: u16,
}

const RULE: &str = "an address is host:port, for example 127.0.0.1:8801, [::1]:8801, localhost:8801 \
    or :8801 for all addresses; the port is a number up to 65535";

impl ListenAddress {
    pub(super) fn fixed(host: &str, port: u16) -> Self {
        Self { host: host.to_owned(), port }
    }

    /// Checks the form.
    ///
    /// # Errors
    ///
    /// The rule that it breaks.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (host, port) = text.rsplit_once(':').ok_or(RULE)?;
        let host = match host.strip_prefix('[') {
            Some(rest) => {
                let inner = rest.strip_suffix(']').ok_or(RULE)?;
                inner.parse::<std::net::Ipv6Addr>().map_err(|_| RULE)?;
                inner
            }
            None => {
                let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
                if !host.bytes().all(allowed) {
                    return Err(RULE.to_owned());
                }
                host
            }
        };
        if port.is_empty() || !port.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(RULE.to_owned());
        }
        Ok(Self::fixed(host, port.parse().map_err(|_| RULE)?))
    }

    /// The port; 0 lets the operating system choose.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The host to resolve; all addresses where none is given.
    #[must_use]
    pub fn host(&self) -> &str {
        if self.host.is_empty() { "0.0.0.0" } else { &self.host }
    }

    /// Whether only this machine reaches it.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        self.host == "localhost"
            || self.host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    }

    /// The same host with a port of the operating system's choice.
    #[must_use]
    pub fn with_any_port(&self) -> Self {
        Self::fixed(&self.host, 0)
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(formatter, "[{}]:{}", self.host, self.port)
        } else {
            write!(formatter, "{}:{}", self.host, self.port)
        }
    }
}

impl std::str::FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::parse(text)
    }
}
