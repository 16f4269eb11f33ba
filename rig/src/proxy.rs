//! Something between a client and its object store that delays, loses and forges on demand.
//!
//! ```text
//! client ──request──► rules ──► store ──answer──► rules ──► client
//! ```
//!
//! A request that no rule is for passes as it is. It takes a connection of its own to the store, so that nothing of one
//! request is left when the next one comes.

mod wire;

use std::collections::HashMap;
use std::io::{self, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use self::wire::Request;

/// What becomes of the requests that a rule is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It waits so long, then passes.
    Delayed(Duration),
    /// It never reaches the store; the connection ends.
    Lost,
    /// The store does it; the answer never comes and the connection ends.
    AnswerLost,
    /// The store does it; the answer breaks off in the middle.
    AnswerCutShort,
    /// The store does it; nothing ever comes back, and the connection stays open.
    AnswerWithheld,
    /// It never reaches the store. This is the answer.
    Answered {
        /// As in 503.
        status: u16,
        /// Names and values.
        headers: Vec<(&'static str, String)>,
        /// Whatever.
        body: String,
    },
    /// It passes without these headers, by their names in small letters.
    Stripped(&'static [&'static str]),
}

impl Fate {
    /// An answer of S3's kind: a status and the code of an error.
    #[must_use]
    pub fn s3_error(status: u16, code: &str) -> Self {
        let body =
            format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>made up</Message></Error>");
        Self::Answered { status, headers: vec![("content-type", "application/xml".to_owned())], body }
    }

    /// An answer of Azure's kind.
    #[must_use]
    pub fn azure_error(status: u16, code: &str) -> Self {
        let body =
            format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>made up</Message></Error>");
        let headers =
            vec![("content-type", "application/xml".to_owned()), ("x-ms-error-code", code.to_owned())];
        Self::Answered { status, headers, body }
    }
}

/// Which requests meet which fate. The first rule that fits counts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    /// As in PUT; None: every one.
    pub method: Option<&'static str>,
    /// A part of the path or the query, as it is sent; empty: every one.
    pub target: String,
    /// How many that fit pass first.
    pub skip: u32,
    /// How many meet the fate after that.
    pub times: u32,
    /// What becomes of them.
    pub fate: Fate,
}

impl Rule {
    /// For everything, for ever.
    #[must_use]
    pub const fn always(fate: Fate) -> Self {
        Self { method: None, target: String::new(), skip: 0, times: u32::MAX, fate }
    }

    /// Only requests of this method.
    #[must_use]
    pub fn of(self, method: &'static str) -> Self {
        Self { method: Some(method), ..self }
    }

    /// Only requests with this in their path or query.
    #[must_use]
    pub fn on(self, target: &str) -> Self {
        Self { target: target.to_owned(), ..self }
    }

    /// Only so many.
    #[must_use]
    pub fn times(self, times: u32) -> Self {
        Self { times, ..self }
    }

    /// Only after so many.
    #[must_use]
    pub fn after(self, skip: u32) -> Self {
        Self { skip, ..self }
    }
}

/// A request that came by.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Passed {
    /// As in PUT.
    pub method: String,
    /// Path and query, as sent.
    pub target: String,
    /// What the client was answered; None: nothing.
    pub status: Option<u16>,
}

/// A proxy on a loopback address. Dropping it ends it.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    store: SocketAddr,
    rules: Mutex<Vec<Rule>>,
    passed: Mutex<Vec<Passed>>,
    connections: Mutex<HashMap<usize, TcpStream>>,
    ends: AtomicBool,
}

impl Proxy {
    /// Opens one in front of the store at this address, on a free port of 127.0.0.1, without rules.
    ///
    /// # Errors
    /// No port is free.
    pub fn open(store: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            store,
            rules: Mutex::default(),
            passed: Mutex::default(),
            connections: Mutex::default(),
            ends: AtomicBool::new(false),
        });
        let accepted = Arc::clone(&shared);
        let accepting =
            thread::Builder::new().name("proxy".to_owned()).spawn(move || accept(&listener, &accepted))?;
        Ok(Self { address, shared, accepting: Some(accepting) })
    }

    /// Where it listens: what a client takes for the store.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// One more rule, before all others.
    pub fn add(&self, rule: Rule) {
        lock(&self.shared.rules).insert(0, rule);
    }

    /// From now on everything passes.
    pub fn clear(&self) {
        lock(&self.shared.rules).clear();
    }

    /// What came by since somebody asked, in the order of the answers.
    pub fn passed(&self) -> Vec<Passed> {
        std::mem::take(&mut *lock(&self.shared.passed))
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts; it is gone already if this fails.
        let _ = TcpStream::connect(self.address);
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
        for connection in lock(&self.shared.connections).values() {
            // Already closed is as good.
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for (number, stream) in listener.incoming().enumerate() {
        if shared.ends.load(Ordering::Relaxed) {
            return;
        }
        let Ok(stream) = stream else { continue };
        let Ok(kept) = stream.try_clone() else { continue };
        lock(&shared.connections).insert(number, kept);
        let serving = Arc::clone(shared);
        let started = thread::Builder::new().name("proxy connection".to_owned()).spawn(move || {
            // A client that goes away needs no answer.
            let _ = serve(&stream, &serving);
            let _ = stream.shutdown(Shutdown::Both);
            lock(&serving.connections).remove(&number);
        });
        if started.is_err() {
            lock(&shared.connections).remove(&number);
        }
    }
}

/// One request: every answer ends its connection.
fn serve(stream: &TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut client = stream;
    let Some(request) = Request::read(&mut BufReader::new(stream))? else {
        return Ok(());
    };
    let fate = shared.fate_of(&request);
    let mut answer = match &fate {
        Some(Fate::Lost) => Vec::new(),
        Some(Fate::Answered { status, headers, body }) => wire::answer(*status, headers, body),
        Some(Fate::Stripped(headers)) => shared.ask(&request, headers)?,
        Some(Fate::Delayed(time)) => {
            thread::sleep(*time);
            shared.ask(&request, &[])?
        }
        Some(Fate::AnswerLost | Fate::AnswerCutShort | Fate::AnswerWithheld) | None => {
            shared.ask(&request, &[])?
        }
    };
    match fate {
        Some(Fate::Lost | Fate::AnswerLost | Fate::AnswerWithheld) => answer.clear(),
        Some(Fate::AnswerCutShort) => answer.truncate(answer.len() * 3 / 4),
        Some(Fate::Answered { .. } | Fate::Stripped(_) | Fate::Delayed(_)) | None => {}
    }
    let is_whole = !matches!(fate, Some(Fate::AnswerCutShort));
    shared.note(&request, wire::status(&answer).filter(|_| is_whole));
    client.write_all(&answer)?;
    if fate == Some(Fate::AnswerWithheld) {
        // Until the client gives up, or the proxy ends.
        let _ = client.read(&mut [0]);
    }
    Ok(())
}

impl Shared {
    fn fate_of(&self, request: &Request) -> Option<Fate> {
        let mut rules = lock(&self.rules);
        for rule in &mut *rules {
            let fits = rule.method.is_none_or(|method| method == request.method)
                && request.target.contains(&rule.target)
                && rule.times > 0;
            if fits && rule.skip > 0 {
                rule.skip -= 1;
            } else if fits {
                rule.times -= u32::from(rule.times != u32::MAX);
                return Some(rule.fate.clone());
            }
        }
        None
    }

    fn ask(&self, request: &Request, stripped: &[&str]) -> io::Result<Vec<u8>> {
        let mut store = TcpStream::connect(self.store)?;
        store.set_nodelay(true)?;
        store.write_all(&request.forwarded(stripped))?;
        let mut answer = Vec::new();
        store.read_to_end(&mut answer)?;
        Ok(answer)
    }

    fn note(&self, request: &Request, status: Option<u16>) {
        let passed = Passed { method: request.method.clone(), target: request.target.clone(), status };
        lock(&self.passed).push(passed);
    }
}

/// A thread that panicked held nothing half done: every change is one call.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
