//! As much of HTTP/1.1 as clients of object stores speak: a head, a length, a body, and the next one.

use std::io::{self, BufRead, Read, Write};
use std::sync::Arc;

/// Longer heads are no requests of ours.
const HEAD_BYTES: u64 = 64 * 1024;

/// Larger bodies are refused before they are read: parts of an upload are far smaller.
const BODY_BYTES: usize = 512 * 1024 * 1024;

#[derive(Debug)]
pub(super) struct Request {
    pub(super) method: String,
    /// Decoded, beginning with `/`.
    pub(super) path: String,
    /// Decoded names and values, in order.
    pub(super) query: Vec<(String, String)>,
    headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Request {
    /// The value of a header, by its name in small letters.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(it, _)| it == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(it, _)| it == name).map(|(_, value)| value.as_str())
    }

    #[cfg(test)]
    pub(super) fn of(method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> Self {
        let (path, query) = split_target(target);
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let headers = headers.iter().map(owned).collect();
        Self { method: method.to_owned(), path, query, headers, body: body.to_vec() }
    }
}

#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Arc<[u8]>,
}

impl Answer {
    pub(super) fn new(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Arc::from([]) }
    }

    pub(super) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub(super) fn write(&self, to: &mut impl Write, method: &str) -> io::Result<()> {
        let mut head = format!("HTTP/1.1 {} {}\r\n", self.status, reason(self.status));
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if self.status != 204 {
            head.push_str(&format!("Content-Length: {}\r\n", self.body.len()));
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        // The answer to HEAD tells the length and brings no body.
        if method != "HEAD" {
            bytes.extend_from_slice(&self.body);
        }
        to.write_all(&bytes)
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        204 => "No Content",
        206 => "Partial Content",
        404 => "Not Found",
        412 => "Precondition Failed",
        416 => "Range Not Satisfiable",
        501 => "Not Implemented",
        _ => "Bad Request",
    }
}

/// The next request of a connection; None if it was closed between two.
pub(super) fn read_request(from: &mut impl BufRead) -> io::Result<Option<Request>> {
    let mut head = from.take(HEAD_BYTES);
    let mut line = String::new();
    if head.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_ascii_whitespace();
    let (Some(method), Some(target)) = (words.next(), words.next()) else {
        return Err(malformed("a request line"));
    };
    let (method, target) = (method.to_owned(), target.to_owned());
    let mut headers = Vec::new();
    loop {
        line.clear();
        head.read_line(&mut line)?;
        match line.trim_end().split_once(':') {
            Some((name, value)) => {
                headers.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
            }
            None if line == "\r\n" || line == "\n" => break,
            None => return Err(malformed("a header")),
        }
    }
    let (path, query) = split_target(&target);
    let mut request = Request { method, path, query, headers, body: Vec::new() };
    if request.header("transfer-encoding").is_some() {
        return Err(malformed("a length"));
    }
    let length = match request.header("content-length") {
        None => 0,
        Some(text) => text.parse().map_err(|_| malformed("a length"))?,
    };
    if length > BODY_BYTES {
        return Err(malformed("a body of this size"));
    }
    request.body = vec![0; length];
    from.read_exact(&mut request.body)?;
    Ok(Some(request))
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{what} was expected"))
}

fn split_target(target: &str) -> (String, Vec<(String, String)>) {
    // Some clients send the whole URL.
    let target =
        target.strip_prefix("http://").map_or(target, |rest| rest.find('/').map_or("/", |at| &rest[at..]));
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let pairs = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decode(&name.replace('+', " ")), decode(&value.replace('+', " ")))
    });
    (decode(path), pairs.collect())
}

/// `%41` is A. What is no text afterwards is replaced: no key of ours is.
fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let digits = if byte == b'%' { after.split_at_checked(2) } else { None };
        let decoded = digits.and_then(|(digits, after)| {
            let digits = std::str::from_utf8(digits).ok()?;
            Some((u8::from_str_radix(digits, 16).ok()?, after))
        });
        match decoded {
            Some((decoded, after)) => {
                bytes.push(decoded);
                rest = after;
            }
            None => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
