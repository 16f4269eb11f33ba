//! Amazon S3, Azure Blob Storage and Google Cloud Storage, through the crate `object_store`.
//!
//! ```text
//!  caller's thread ──job──▶ lane (one thread, one runtime) ──▶ object_store ──▶ transport ──▶ store
//!        ▲                                                                          │
//!        └──────────── class (D-9) ◀── last exchange, noted where it arrived ◀──────┘
//! ```
//!
//! Every [`CloudStore`] has connections and a thread of its own, so that a renewal waits for no upload (lesson 10).
//! A request is sent once: the library's retries are off, and what follows from an answer the core decides. Nothing
//! cancels a request; one that hangs ends by the limits of the transport.

mod answer;
mod build;
mod class;
mod config;
mod credentials;
mod lane;
mod large;
mod transport;
mod trouble;

use std::fmt;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use dexzd_core::ids::Blob;
use dexzd_core::store::{ReadOutcome, Version, WriteOutcome};
use object_store::list::PaginatedListOptions;
use object_store::path::Path as StorePath;
use object_store::{GetOptions, ObjectStoreExt as _, PutMode, PutOptions, PutPayload, UpdateVersion};
use tokio::time::timeout;
use tokio_stream::StreamExt as _;

use super::names::{escape, unescape_key};
use super::{DeleteOutcome, FetchOutcome, ListOutcome, Listed, ObjectStore, SizedListOutcome};
use answer::{Answer, Exchange, Notes};
use build::{Backend, BuildError, Client, Environment};
use class::{Class, Operation, class_of, is_expired};
use lane::Lane;
use transport::{BODY_LIMIT, Transport, TrustError};
use trouble::{explain, is_for_credentials};

pub use config::{AzureCredentials, CloudConfig, GcsCredentials, Provider, S3Credentials};
pub use trouble::{Trouble, TroubleKind};

/// Most keys that any of the stores gives in one page.
const PAGE_KEYS: usize = 1_000;
/// One page of keys that takes longer has lost its connection.
const LIST_LIMIT: Duration = Duration::from_secs(90);
/// What a success without a version means.
const NO_VERSION: &str = "the answer names no version";

/// Why a store cannot be used; nothing was asked of it yet.
#[derive(Debug, thiserror::Error)]
pub enum CloudError {
    /// A file with credentials or certificates, or the configuration, does not do.
    #[error("the object store {store} cannot be used: {reason}")]
    Unusable {
        /// Which store.
        store: String,
        /// What is wrong, and with what.
        reason: String,
    },
    /// The operating system refused a thread.
    #[error("cannot start a thread for the object store {store}: {source}")]
    Thread {
        /// Which store.
        store: String,
        /// What it said.
        source: io::Error,
    },
}

/// One bucket of a provider, or a part of it.
pub struct CloudStore {
    config: CloudConfig,
    environment: Environment,
    transport: Transport,
    lane: Lane,
    current: Mutex<Current>,
    trouble: Mutex<Option<Trouble>>,
}

/// The client of the moment.
struct Current {
    backend: Arc<dyn Backend>,
    from: String,
    watched: Vec<(PathBuf, FileStamp)>,
    /// Its credentials have expired: the next request gets fresh ones.
    is_stale: bool,
}

/// Tells two states of a file apart; None if there is none.
type FileStamp = Option<(SystemTime, u64)>;

impl fmt::Debug for CloudStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("CloudStore").field("config", &self.config).finish_non_exhaustive()
    }
}

impl CloudStore {
    /// Reads credentials and certificates and starts the store's thread. The store itself is not asked yet.
    ///
    /// # Errors
    ///
    /// A file is missing, empty or malformed, or the operating system refuses a thread.
    pub fn open(config: CloudConfig) -> Result<Self, CloudError> {
        Self::open_in(config, Environment::of_process())
    }

    fn open_in(config: CloudConfig, environment: Environment) -> Result<Self, CloudError> {
        let store = config.name();
        let is_plain = config.endpoint.as_ref().is_some_and(|endpoint| endpoint.starts_with("http://"));
        let transport = Transport::new(config.ca_file.as_deref(), !is_plain)
            .map_err(|error: TrustError| unusable(&store, &error))?;
        let client = build::build(&config, &environment, &transport)
            .map_err(|error: BuildError| unusable(&store, &error))?;
        let lane = Lane::start().map_err(|source| CloudError::Thread { store, source })?;
        Ok(Self {
            config,
            environment,
            transport,
            lane,
            current: Mutex::new(Current::new(client)),
            trouble: Mutex::new(None),
        })
    }

    /// For people: where the credentials come from.
    #[must_use]
    pub fn credentials_from(&self) -> String {
        self.current().from.clone()
    }

    fn current(&self) -> std::sync::MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The client, made anew if its credentials changed or expired.
    fn backend(&self) -> Arc<dyn Backend> {
        let mut current = self.current();
        if !current.is_stale && !current.has_changed_files() {
            return Arc::clone(&current.backend);
        }
        match build::build(&self.config, &self.environment, &self.transport) {
            Ok(client) => *current = Current::new(client),
            Err(error) => {
                // Half a file, or one that is being replaced: what was good until now may still be.
                tracing::warn!(store = %self.name(), %error, "the changed credentials cannot be used");
                current.remember_files();
            }
        }
        Arc::clone(&current.backend)
    }

    /// Does one thing on the lane. An error comes as its class.
    fn perform<T: Send + 'static, F: Future<Output = Result<T, Failed>> + Send + 'static>(
        &self,
        operation: Operation,
        key: &str,
        act: impl FnOnce(Arc<dyn Backend>) -> F,
    ) -> Result<T, Failure> {
        let notes = Notes::default();
        let noted = notes.clone();
        let act = act(self.backend());
        let result = self.lane.run(async move { noted.taken(act).await });
        let failed = match result {
            Some(Ok(value)) => return Ok(value),
            Some(Err(failed)) => failed,
            None => Failed::Library("the request's task panicked".to_owned()),
        };
        let failure = self.judge(operation, failed, notes.last());
        if let Some(trouble) = &failure.trouble {
            self.tell(operation, key, failure.class, trouble);
        }
        Err(failure)
    }

    fn judge(&self, operation: Operation, failed: Failed, exchange: Option<Exchange>) -> Failure {
        let from = self.current().from.clone();
        let broken = |text: String| Failure {
            class: Class::Transient,
            retry_after_ms: None,
            trouble: Some(Trouble { kind: TroubleKind::Unreachable, text }),
        };
        match (failed, exchange) {
            (Failed::Body(text), _) => broken(format!("the answer broke off ({text})")),
            // One deletion within a batch that was answered.
            (Failed::NotFound, Some(Exchange::Answered(answer))) if answer.is_success() => {
                Failure { class: Class::Missing, retry_after_ms: None, trouble: None }
            }
            (Failed::Library(text), Some(Exchange::Answered(answer)))
                if answer.is_success() && operation == Operation::Delete =>
            {
                broken(text)
            }
            (Failed::Library(_), Some(Exchange::Answered(answer))) if answer.is_success() => {
                // A success without what a store's success holds: a write may have landed all the same.
                let exchange = Exchange::Answered(Answer { is_empty: false, ..answer });
                Failure {
                    class: Class::Transient,
                    retry_after_ms: None,
                    trouble: Some(explain(&self.config, &from, operation, &exchange)),
                }
            }
            (Failed::Library(_) | Failed::NotFound, Some(exchange)) => {
                self.judge_exchange(operation, &from, &exchange)
            }
            // Nothing was sent: credentials that could not be read, most likely.
            (failed @ (Failed::Library(_) | Failed::NotFound), None) => Failure {
                class: Class::Transient,
                retry_after_ms: None,
                trouble: Some(Trouble {
                    kind: TroubleKind::Credentials,
                    text: format!(
                        "no request could be made ({}); credentials come from {from}",
                        failed.text()
                    ),
                }),
            },
        }
    }

    fn judge_exchange(&self, operation: Operation, from: &str, exchange: &Exchange) -> Failure {
        let trouble = explain(&self.config, from, operation, exchange);
        match exchange {
            Exchange::Silent { .. } => {
                Failure { class: Class::Transient, retry_after_ms: None, trouble: Some(trouble) }
            }
            // Whoever gives credentials says nothing about the object.
            Exchange::Answered(answer) if is_for_credentials(&self.config, &answer.host) => {
                Failure { class: Class::Transient, retry_after_ms: None, trouble: Some(trouble) }
            }
            Exchange::Answered(answer) => {
                if is_expired(answer) {
                    self.current().is_stale = true;
                }
                let class = class_of(operation, answer);
                let is_an_answer = matches!(class, Class::Missing | Class::Refused);
                Failure {
                    class,
                    retry_after_ms: answer.retry_after_ms,
                    trouble: (!is_an_answer || trouble.kind == TroubleKind::NotAStore).then_some(trouble),
                }
            }
        }
    }

    /// Keeps the trouble for whoever asks, and logs it.
    fn tell(&self, operation: Operation, key: &str, class: Class, trouble: &Trouble) {
        let mut last = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = last.as_ref() != Some(trouble);
        *last = Some(trouble.clone());
        drop(last);
        // What repeats is a log line once; the core says what follows from it.
        if is_new {
            tracing::warn!(store = %self.name(), ?operation, key, ?class, "{trouble}");
        }
    }

    fn path(&self, key: &str) -> Result<StorePath, Failure> {
        StorePath::parse(self.full(key)).map_err(|error| Failure {
            class: Class::Permanent,
            retry_after_ms: None,
            trouble: Some(Trouble { kind: TroubleKind::Refused, text: error.to_string() }),
        })
    }

    /// A key below the prefix, in the letters that every store keeps as they are.
    fn full(&self, key: &str) -> String {
        let escaped = key.split('/').map(escape).collect::<Vec<_>>().join("/");
        if self.config.prefix.is_empty() { escaped } else { format!("{}/{escaped}", self.config.prefix) }
    }

    /// The first letters of keys that begin with `begin`. Its last part may be the begin of a part.
    fn full_prefix(&self, begin: &str) -> String {
        match begin.rsplit_once('/') {
            _ if begin.is_empty() => self.root(),
            Some((folder, "")) => format!("{}/", self.full(folder)),
            Some(_) | None => self.full(begin),
        }
    }

    fn root(&self) -> String {
        if self.config.prefix.is_empty() { String::new() } else { format!("{}/", self.config.prefix) }
    }

    fn write(&self, key: &str, body: &[u8], mode: PutMode) -> Result<Version, Failure> {
        self.put(key, Bytes::copy_from_slice(body), mode)
    }

    fn put(&self, key: &str, body: Bytes, mode: PutMode) -> Result<Version, Failure> {
        let path = self.path(key)?;
        let payload = PutPayload::from(body);
        let versions = self.versions();
        self.perform(Operation::Write, key, move |backend| async move {
            let put = backend.put_opts(&path, payload, PutOptions::from(mode)).await?;
            versions(put.e_tag, put.version).ok_or(Failed::Library(NO_VERSION.to_owned()))
        })
    }

    fn get(&self, key: &str) -> Result<(Version, Blob, u64), Failure> {
        let path = self.path(key)?;
        let versions = self.versions();
        self.perform(Operation::Read, key, move |backend| async move {
            let got = backend.get_opts(&path, GetOptions::default()).await?;
            let stamp = u64::try_from(got.meta.last_modified.timestamp_millis()).unwrap_or(0);
            let version = versions(got.meta.e_tag.clone(), got.meta.version.clone())
                .ok_or(Failed::Library(NO_VERSION.to_owned()))?;
            let size = got.meta.size;
            let mut body = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
            let mut stream = got.into_stream();
            loop {
                match timeout(BODY_LIMIT, stream.next()).await {
                    Ok(Some(Ok(bytes))) => body.extend_from_slice(&bytes),
                    Ok(Some(Err(error))) => return Err(Failed::Body(error.to_string())),
                    Ok(None) => break,
                    Err(_) => return Err(Failed::Body("it brought nothing for 30 s".to_owned())),
                }
            }
            if body.len() as u64 != size {
                return Err(Failed::Body(format!("{} of {size} bytes came", body.len())));
            }
            Ok((version, Blob::from(body), stamp))
        })
    }

    fn list(&self, begin: &str, after: &str, limit: usize) -> Result<Vec<Listed>, Failure> {
        let prefix = self.full_prefix(begin);
        let root = self.root();
        let offset = (!after.is_empty()).then(|| self.full(after));
        let (begin, after) = (begin.to_owned(), after.to_owned());
        self.perform(Operation::List, &begin.clone(), move |backend| async move {
            let mut keys = Vec::new();
            let mut page_token = None;
            loop {
                let options = PaginatedListOptions {
                    offset: offset.clone(),
                    max_keys: Some(limit.clamp(1, PAGE_KEYS)),
                    page_token,
                    ..PaginatedListOptions::default()
                };
                let prefix = (!prefix.is_empty()).then_some(prefix.as_str());
                let page = timeout(LIST_LIMIT, backend.list_paginated(prefix, options))
                    .await
                    .map_err(|_| Failed::Body("a page of the list took too long".to_owned()))??;
                // A store that does not know where to begin begins at the first key.
                for object in &page.result.objects {
                    let key = object.location.as_ref().strip_prefix(root.as_str()).and_then(unescape_key);
                    keys.extend(
                        key.filter(|key| key.starts_with(&begin) && *key > after)
                            .map(|key| Listed { key, size_bytes: object.size }),
                    );
                }
                page_token = page.page_token;
                if page_token.is_none() || keys.len() >= limit {
                    break;
                }
            }
            keys.sort();
            keys.truncate(limit);
            Ok(keys)
        })
    }

    /// How this provider names one state of an object: by its ETag, or by its generation.
    const fn versions(&self) -> fn(Option<String>, Option<String>) -> Option<Version> {
        match self.config.provider {
            Provider::S3 { .. } | Provider::Azure { .. } => |e_tag, _| e_tag.map(version),
            Provider::Gcs { .. } => |_, generation| generation.map(version),
        }
    }

    fn update_of(&self, version: &Version) -> Option<UpdateVersion> {
        let text = String::from_utf8(version.0.to_vec()).ok()?;
        Some(match self.config.provider {
            Provider::S3 { .. } | Provider::Azure { .. } => {
                UpdateVersion { e_tag: Some(text), version: None }
            }
            Provider::Gcs { .. } => UpdateVersion { e_tag: None, version: Some(text) },
        })
    }
}

impl ObjectStore for CloudStore {
    fn read(&self, key: &str) -> ReadOutcome {
        match self.get(key) {
            Ok((version, body, stamp_ms)) => ReadOutcome::Found { version, body, stamp_ms: Some(stamp_ms) },
            Err(Failure { class: Class::Missing, .. }) => ReadOutcome::Missing,
            Err(Failure { class: Class::Permanent, .. }) => ReadOutcome::Permanent,
            Err(Failure { class: Class::Refused | Class::Transient, retry_after_ms, .. }) => {
                ReadOutcome::Transient { retry_after_ms }
            }
        }
    }

    fn create(&self, key: &str, body: &[u8]) -> WriteOutcome {
        written(self.write(key, body, PutMode::Create))
    }

    fn replace(&self, key: &str, body: &[u8], version: &Version) -> WriteOutcome {
        match self.update_of(version) {
            Some(update) => written(self.write(key, body, PutMode::Update(update))),
            // No store of this kind gave that name to anything.
            None => WriteOutcome::Refused,
        }
    }

    fn delete(&self, key: &str) -> DeleteOutcome {
        let result = self.path(key).and_then(|path| {
            self.perform(Operation::Delete, key, move |backend| async move {
                backend.delete(&path).await.map_err(Failed::from)
            })
        });
        match result {
            Ok(()) | Err(Failure { class: Class::Missing, .. }) => DeleteOutcome::Done,
            Err(Failure { class: Class::Refused | Class::Transient, .. }) => DeleteOutcome::Transient,
            Err(Failure { class: Class::Permanent, .. }) => DeleteOutcome::Permanent,
        }
    }

    fn list_after(&self, prefix: &str, after: &str, limit: usize) -> ListOutcome {
        match self.list(prefix, after, limit) {
            Ok(objects) => ListOutcome::Found(objects.into_iter().map(|object| object.key).collect()),
            Err(Failure { class: Class::Permanent, .. }) => ListOutcome::Permanent,
            Err(Failure { class: Class::Missing | Class::Refused | Class::Transient, .. }) => {
                ListOutcome::Transient
            }
        }
    }

    fn list_sized_after(&self, prefix: &str, after: &str, limit: usize) -> SizedListOutcome {
        match self.list(prefix, after, limit) {
            Ok(objects) => SizedListOutcome::Found(objects),
            Err(Failure { class: Class::Permanent, .. }) => SizedListOutcome::Permanent,
            Err(Failure { class: Class::Missing | Class::Refused | Class::Transient, .. }) => {
                SizedListOutcome::Transient
            }
        }
    }

    fn create_from(&self, key: &str, size_bytes: u64, content: &mut (dyn Read + Send)) -> WriteOutcome {
        self.create_large(key, size_bytes, content)
    }

    fn read_into(&self, key: &str, sink: &mut (dyn Write + Send)) -> FetchOutcome {
        self.read_large(key, sink)
    }

    fn name(&self) -> String {
        self.config.name()
    }

    fn trouble(&self) -> Option<Trouble> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn written(result: Result<Version, Failure>) -> WriteOutcome {
    match result {
        Ok(version) => WriteOutcome::Done { version },
        Err(Failure { class: Class::Refused, .. }) => WriteOutcome::Refused,
        Err(Failure { class: Class::Permanent, .. }) => WriteOutcome::Permanent,
        Err(Failure { class: Class::Missing | Class::Transient, retry_after_ms, .. }) => {
            WriteOutcome::Transient { retry_after_ms }
        }
    }
}

fn version(text: String) -> Version {
    Version(Blob::from(text.into_bytes()))
}

fn unusable(store: &str, reason: &dyn fmt::Display) -> CloudError {
    CloudError::Unusable { store: store.to_owned(), reason: reason.to_string() }
}

/// An operation that did not end well, as the lane saw it.
enum Failed {
    /// The library says that there is no such object.
    NotFound,
    /// The library made an error of it.
    Library(String),
    /// The head of the answer was good, the body was not.
    Body(String),
}

impl Failed {
    fn text(self) -> String {
        match self {
            Self::NotFound => "not found".to_owned(),
            Self::Library(text) | Self::Body(text) => text,
        }
    }
}

impl From<object_store::Error> for Failed {
    fn from(error: object_store::Error) -> Self {
        if matches!(error, object_store::Error::NotFound { .. }) {
            return Self::NotFound;
        }
        Self::Library(error.to_string())
    }
}

/// An operation that did not end well, judged.
struct Failure {
    class: Class,
    retry_after_ms: Option<u64>,
    trouble: Option<Trouble>,
}

impl Current {
    fn new(client: Client) -> Self {
        let mut current = Self {
            backend: client.backend,
            from: client.from,
            watched: client.watched.into_iter().map(|path| (path, None)).collect(),
            is_stale: false,
        };
        current.remember_files();
        current
    }

    fn remember_files(&mut self) {
        for (path, stamp) in &mut self.watched {
            *stamp = file_stamp(path);
        }
    }

    fn has_changed_files(&self) -> bool {
        self.watched.iter().any(|(path, stamp)| file_stamp(path) != *stamp)
    }
}

fn file_stamp(path: &Path) -> FileStamp {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

#[cfg(test)]
#[path = "cloud_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "proxied_tests.rs"]
mod proxied_tests;
