//! An object store in memory that speaks as much of S3 as we use, and takes as long as it is told.
//!
//! It is there to measure: a real store's latency without a real store, on a machine with two cores. Conditions are
//! honest (one lock, ETags that are equal for equal bodies, as S3's are), which the conformance suite of the stores
//! checks. Credentials are not looked at, nothing is kept, and what S3 can do beyond that is refused by name.
//!
//! ```text
//!          request ──► half of the latency ──► takes effect, at one instant ──► the other half ──► answer
//! ```

mod answer;
mod dates;
mod http;
mod objects;
mod xml;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io::{self, BufReader};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use self::http::{Request, read_request};
use self::objects::Objects;

/// How long each kind of request takes, besides the network's own time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Latency {
    /// Reading an object.
    pub get: Duration,
    /// Writing an object or a part of one.
    pub put: Duration,
    /// Deleting objects.
    pub delete: Duration,
    /// Listing keys.
    pub list: Duration,
}

impl Latency {
    /// A store that is as quick as this machine.
    pub const NONE: Self =
        Self { get: Duration::ZERO, put: Duration::ZERO, delete: Duration::ZERO, list: Duration::ZERO };
}

/// What a request does, as bills for object stores sort them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// GET and HEAD of an object.
    Get,
    /// PUT of an object, and the requests of an upload in parts.
    Put,
    /// DELETE of one object or of many.
    Delete,
    /// A listing.
    List,
}

/// A request that was answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Served {
    /// When it took effect.
    pub at: Instant,
    /// What it did.
    pub kind: Kind,
    /// Which object; the prefix of a listing.
    pub key: String,
    /// How it ended.
    pub status: u16,
    /// Size of the request's body, in bytes.
    pub bytes: usize,
}

/// One bucket on a loopback address. Dropping it ends it, and everything in it is gone.
#[derive(Debug)]
pub struct Bucket {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    name: String,
    objects: Mutex<Objects>,
    latency: Mutex<Latency>,
    /// What was answered since somebody asked for it.
    record: Mutex<Option<Vec<Served>>>,
    connections: Mutex<HashMap<u64, TcpStream>>,
    connection_count: AtomicU64,
    ends: AtomicBool,
}

impl Bucket {
    /// Opens an empty bucket of this name on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// No port is free.
    pub fn open(name: &str, latency: Latency) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            name: name.to_owned(),
            objects: Mutex::default(),
            latency: Mutex::new(latency),
            record: Mutex::default(),
            connections: Mutex::default(),
            connection_count: AtomicU64::new(0),
            ends: AtomicBool::new(false),
        });
        let accepted = Arc::clone(&shared);
        let accepting =
            thread::Builder::new().name("bucket".to_owned()).spawn(move || accept(&listener, &accepted))?;
        Ok(Self { address, shared, accepting: Some(accepting) })
    }

    /// What a client of S3 takes as its endpoint; the bucket's name is part of the path.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The bucket's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// From now on requests take so long.
    pub fn set_latency(&self, latency: Latency) {
        *lock(&self.shared.latency) = latency;
    }

    /// Begins to remember what is answered, from nothing.
    pub fn record(&self) {
        *lock(&self.shared.record) = Some(Vec::new());
    }

    /// What was answered since [`record`](Self::record), in the order in which it took effect; nothing is
    /// remembered from now on.
    #[must_use]
    pub fn recorded(&self) -> Vec<Served> {
        let mut served = lock(&self.shared.record).take().unwrap_or_default();
        served.sort_by_key(|request| request.at);
        served
    }

    /// How many objects there are, and the bytes in them.
    #[must_use]
    pub fn size(&self) -> (usize, u64) {
        lock(&self.shared.objects).size()
    }
}

impl Drop for Bucket {
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
    for stream in listener.incoming() {
        if shared.ends.load(Ordering::Relaxed) {
            return;
        }
        let Ok(stream) = stream else { continue };
        let number = shared.connection_count.fetch_add(1, Ordering::Relaxed);
        let Ok(kept) = stream.try_clone() else { continue };
        lock(&shared.connections).insert(number, kept);
        let serving = Arc::clone(shared);
        // A connection is a thread: there are few, and they sleep precisely.
        let started = thread::Builder::new().name("bucket connection".to_owned()).spawn(move || {
            // A client that goes away needs no answer.
            let _ = serve(stream, &serving);
            lock(&serving.connections).remove(&number);
        });
        if started.is_err() {
            lock(&shared.connections).remove(&number);
        }
    }
}

fn serve(stream: TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut writer = stream.try_clone()?;
    let mut reader = BufReader::new(stream);
    while let Some(request) = read_request(&mut reader)? {
        let half = shared.latency_of(&request) / 2;
        thread::sleep(half);
        let answer = {
            let mut objects = lock(&shared.objects);
            let answer = answer::answer(&request, &shared.name, &mut objects);
            shared.note(&request, answer.status);
            answer
        };
        thread::sleep(half);
        if request.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close")) {
            return answer.with("Connection", "close").write(&mut writer, &request.method);
        }
        answer.write(&mut writer, &request.method)?;
    }
    Ok(())
}

impl Shared {
    fn latency_of(&self, request: &Request) -> Duration {
        let latency = *lock(&self.latency);
        match answer::kind(request) {
            Kind::Get => latency.get,
            Kind::Put => latency.put,
            Kind::Delete => latency.delete,
            Kind::List => latency.list,
        }
    }

    fn note(&self, request: &Request, status: u16) {
        if let Some(record) = &mut *lock(&self.record) {
            record.push(Served {
                at: Instant::now(),
                kind: answer::kind(request),
                key: answer::key(request),
                status,
                bytes: request.body.len(),
            });
        }
    }
}

/// A thread that panicked held nothing half done: every change is one call.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
