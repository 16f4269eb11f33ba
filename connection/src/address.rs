//! Where a server is: one address, or several of which one leads to the process that serves.

use std::fmt;

/// The environment variable that names the server's address.
pub const ADDRESS_VARIABLE: &str = "DEX_FLOW_SERVICE_ADDRESS";
/// The address when nothing else is said.
pub const DEFAULT_ADDRESS: &str = "127.0.0.1:8801";

/// The server's address from [`ADDRESS_VARIABLE`], or [`DEFAULT_ADDRESS`].
pub fn address_from_environment() -> String {
    std::env::var(ADDRESS_VARIABLE)
        .ok()
        .filter(|address| !address.is_empty())
        .unwrap_or_else(|| DEFAULT_ADDRESS.to_owned())
}

/// An address is not `host:port`, nor a list of such.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{address:?} is no server address: {rule}")]
pub struct AddressError {
    /// As given.
    pub address: String,
    /// What it must be.
    pub rule: String,
}

/// One address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    /// A name, an IPv4 address, or an IPv6 address without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Address {
    /// Whether it means this machine, so that nobody in between can listen.
    pub(crate) fn is_loopback(&self) -> bool {
        self.host == "localhost"
            || self.host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// What was asked for: `host:port`, or several separated by commas, each with `http://`, `https://` or nothing
/// before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Addresses {
    /// At least one.
    pub(crate) list: Vec<Address>,
    /// What `http://` (false) and `https://` (true) say; None: nothing.
    pub(crate) tls: Option<bool>,
}

impl Addresses {
    pub(crate) fn parse(text: &str) -> Result<Self, AddressError> {
        let mut list = Vec::new();
        let mut tls = None;
        for part in text.split(',') {
            let part = part.trim();
            let (scheme, authority) = match part.split_once("://") {
                Some(("http", rest)) => (Some(false), rest),
                Some(("https", rest)) => (Some(true), rest),
                Some(_) => return Err(bad(part)),
                None => (None, part),
            };
            if !list.is_empty() && scheme != tls {
                return Err(AddressError {
                    address: text.to_owned(),
                    rule: "either all addresses of a list begin with https:// or none does".to_owned(),
                });
            }
            tls = scheme;
            list.push(parse_one(authority.trim_end_matches('/')).ok_or_else(|| bad(part))?);
        }
        Ok(Self { list, tls })
    }
}

impl fmt::Display for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, address) in self.list.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{address}")?;
        }
        Ok(())
    }
}

fn bad(address: &str) -> AddressError {
    let rule = format!("write host:port, for example {DEFAULT_ADDRESS}");
    AddressError { address: address.to_owned(), rule }
}

fn parse_one(authority: &str) -> Option<Address> {
    let (host, port) = authority.rsplit_once(':')?;
    let host = match host.strip_prefix('[') {
        Some(rest) => {
            let inner = rest.strip_suffix(']')?;
            inner.parse::<std::net::Ipv6Addr>().ok()?;
            inner
        }
        None => {
            let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
            if !host.bytes().all(allowed) {
                return None;
            }
            host
        }
    };
    if host.is_empty() || !port.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(Address { host: host.to_owned(), port: port.parse().ok()? })
}

#[cfg(test)]
#[path = "address_tests.rs"]
mod tests;
