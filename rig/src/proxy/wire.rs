//! Requests as they came, so that they can go on as they came.

use std::io::{self, BufRead, Read};

/// Longer heads are no requests of ours.
const HEAD_BYTES: u64 = 64 * 1024;

/// A whole request.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) method: String,
    /// Path and query, as sent.
    pub(super) target: String,
    /// Lines with their ends.
    headers: Vec<String>,
    body: Vec<u8>,
}

impl Request {
    /// The next request of a connection; None if it was closed between two.
    pub(super) fn read(from: &mut impl BufRead) -> io::Result<Option<Self>> {
        let mut head = from.take(HEAD_BYTES);
        let mut line = String::new();
        if head.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let mut words = line.split_ascii_whitespace();
        let (Some(method), Some(target)) = (words.next(), words.next()) else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a request line was expected"));
        };
        let mut request = Self {
            method: method.to_owned(),
            target: target.to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
        };
        loop {
            let mut header = String::new();
            if head.read_line(&mut header)? == 0 || header.trim_end().is_empty() {
                break;
            }
            request.headers.push(header);
        }
        // Clients of object stores always know how much they send.
        let length = request.value("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
        request.body = vec![0; length];
        from.read_exact(&mut request.body)?;
        Ok(Some(request))
    }

    fn value(&self, wanted: &str) -> Option<&str> {
        let found = self.headers.iter().find(|header| name(header) == wanted)?;
        found.split_once(':').map(|(_, value)| value.trim())
    }

    /// What goes to the store: the same, but for headers that are taken out, over a connection for this alone.
    pub(super) fn forwarded(&self, stripped: &[&str]) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\nConnection: close\r\n", self.method, self.target);
        for header in &self.headers {
            let name = name(header);
            if name != "connection" && !stripped.contains(&name.as_str()) {
                head.push_str(header);
            }
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(&self.body);
        bytes
    }
}

fn name(header: &str) -> String {
    header.split(':').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// The bytes of an answer that nobody gave.
pub(super) fn answer(status: u16, headers: &[(&'static str, String)], body: &str) -> Vec<u8> {
    let mut text =
        format!("HTTP/1.1 {status} Made Up\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("\r\n");
    text.push_str(body);
    text.into_bytes()
}

/// Of the first line of an answer.
pub(super) fn status(answer: &[u8]) -> Option<u16> {
    let line = answer.split(|byte| *byte == b'\r').next()?;
    std::str::from_utf8(line).ok()?.split_ascii_whitespace().nth(1)?.parse().ok()
}
