//! Workers: processes that run the Steps of Flows.

mod call;
mod frames;
mod session;

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use dexzd_connection::{AddressError, Backoff, Io, Link, Target, TargetError, TlsOptions};
use dexzd_proto as proto;
use proto::flow_service_client::FlowServiceClient;
use proto::worker_frame::Kind;
use proto::worker_task_service_client::WorkerTaskServiceClient;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tonic::{Code, Status};

use crate::address::{ProtocolError, agree_on_protocol, describe, root_cause};
use crate::flow::{DefinitionError, Flow, FlowDefinition};
use session::{Session, SessionEnd};

pub(crate) use frames::{FrameSender, HeartbeatSlot};
pub use session::SILENCE_LIMIT;

/// Running handlers may take so long to finish when a Worker stops (FD-6).
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);
/// Asking for the server's version takes at most so long.
const SERVER_INFO_TIMEOUT: Duration = Duration::from_secs(2);
/// A stream that lasted so long was a success: the back-off starts over.
const STREAM_WORKED: Duration = Duration::from_secs(1);
/// A Worker that cannot reach its server says so this often.
const COMPLAIN_INTERVAL: Duration = Duration::from_secs(10);

/// Runs the Steps of its Flow types until it is told to stop. One object, one run.
///
/// A Worker whose server is gone, or does not serve any more, asks the next address at least once a second (D-21) until
/// a process takes its stream; one that is silent is given up after 9 s, or [`SILENCE_LIMIT`] where only the stream is
/// silent. Attempts of a stream that has ended are failed by the server; what their handlers still return goes nowhere
/// (FD-9).
///
/// ```no_run
/// use dexzd_sdk::prelude::*;
/// # struct Greet;
/// # impl Step for Greet {
/// #     const TYPE: &'static str = "Greet";
/// #     type Input = String;
/// #     async fn execute(&self, _: &Context, _: String) -> StepResult { Ok(Decision::dead_end()) }
/// # }
/// # struct Greeting;
/// # impl Flow for Greeting {
/// #     const TYPE: &'static str = "Greeting";
/// #     type Start = Greet;
/// #     type Output = ();
/// #     fn define(&self) -> Definition<Self> { Definition::starting_with(Greet) }
/// # }
///
/// #[tokio::main]
/// async fn main() -> Result<(), WorkerError> {
///     Worker::builder("127.0.0.1:8801")
///         .flow(Greeting)
///         .max_concurrent_tasks(64)
///         .build()?
///         .run_until(async { let _ = tokio::signal::ctrl_c().await; })
///         .await
/// }
/// ```
#[derive(Debug)]
pub struct Worker {
    link: Link,
    address: String,
    registry: Arc<Registry>,
    identity: String,
    slots: u32,
    drain_timeout: Duration,
    protocol_versions: (u32, u32),
}

/// Makes a [`Worker`].
#[must_use = "a builder does nothing until `build`"]
pub struct WorkerBuilder {
    target: Target,
    flows: Vec<Result<FlowDefinition, DefinitionError>>,
    slots: Option<u32>,
    drain_timeout: Duration,
    identity: Option<String>,
}

/// Why a Worker cannot run.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// The address cannot be read.
    #[error(transparent)]
    Address(AddressError),
    /// A token or a file of TLS cannot be used.
    #[error(transparent)]
    Target(TargetError),
    /// A Flow's definition contradicts itself.
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    /// Nothing to do.
    #[error("the Worker has no Flow type: add one with `.flow(…)`")]
    NoFlow,
    /// Zero slots, or more than the server takes.
    #[error("max_concurrent_tasks is {0}: it must be between 1 and 10,000")]
    Slots(u32),
    /// Library and server are too far apart.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// The server will never take this Worker, so that trying again is pointless.
    #[error("the server at {address} refuses this Worker ({code:?}): {message}")]
    Refused {
        /// The server's address.
        address: String,
        /// The gRPC code.
        code: Code,
        /// What the server said.
        message: String,
    },
}

impl From<TargetError> for WorkerError {
    fn from(error: TargetError) -> Self {
        match error {
            TargetError::Address(error) => Self::Address(error),
            error @ (TargetError::Token(_)
            | TargetError::Material(_)
            | TargetError::ServerName(_)
            | TargetError::PlainAddress(_)) => Self::Target(error),
        }
    }
}

/// The Flow types of a Worker.
#[derive(Debug)]
pub(crate) struct Registry {
    flows: HashMap<&'static str, Arc<FlowDefinition>>,
}

impl Registry {
    pub(crate) fn flow(&self, flow_type: &str) -> Option<&Arc<FlowDefinition>> {
        self.flows.get(flow_type)
    }
}

impl WorkerBuilder {
    /// Adds a Flow type.
    pub fn flow<F: Flow>(mut self, flow: F) -> Self {
        self.flows.push(flow.define().finish());
        self
    }

    /// How many handlers run at once. Default: the number of CPUs. Handlers that mostly wait for others
    /// can be many more.
    pub fn max_concurrent_tasks(mut self, tasks: u32) -> Self {
        self.slots = Some(tasks);
        self
    }

    /// How long running handlers may take to finish when the Worker stops. Default: 30 s.
    pub fn drain_timeout(mut self, timeout: Duration) -> Self {
        self.drain_timeout = timeout;
        self
    }

    /// What people see this process as; 8 random characters are added. Default: host name and process id.
    pub fn identity(mut self, identity: impl Into<String>) -> Self {
        self.identity = Some(identity.into());
        self
    }

    /// Sends this bearer token with every call.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.target = self.target.token(token);
        self
    }

    /// Sends the first token in this file whenever a stream is opened. The file is looked at for change at most once a
    /// second; while it is empty or cannot be read, the Worker says so and tries again.
    pub fn credential_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.target = self.target.credential_file(path);
        self
    }

    /// Speaks TLS. An address that begins with `https://` does that with the default options.
    pub fn tls(mut self, options: TlsOptions) -> Self {
        self.target = self.target.tls(options);
        self
    }

    /// Connects by other means than TCP: `connect` gets host and port. For tests, whose network may be simulated.
    pub fn connect_with<F, T>(mut self, connect: impl Fn(String, u16) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = io::Result<T>> + Send + 'static,
        T: Io,
    {
        self.target = self.target.connect_with(connect);
        self
    }

    /// Checks everything that can be checked without a server.
    ///
    /// # Errors
    /// A bad address, token or file of TLS, a definition that contradicts itself, no Flow type, or a bad number of tasks.
    pub fn build(self) -> Result<Worker, WorkerError> {
        let link = self.target.link()?;
        let mut flows = HashMap::new();
        for flow in self.flows {
            let flow = flow?;
            let flow_type = flow.flow_type;
            if flows.insert(flow_type, Arc::new(flow)).is_some() {
                return Err(DefinitionError::flow_twice(flow_type).into());
            }
        }
        if flows.is_empty() {
            return Err(WorkerError::NoFlow);
        }
        let slots = self.slots.unwrap_or_else(cpu_count);
        if !(1..=10_000).contains(&slots) {
            return Err(WorkerError::Slots(slots));
        }
        let process = self.identity.unwrap_or_else(process_identity);
        Ok(Worker {
            address: link.address(),
            link,
            registry: Arc::new(Registry { flows }),
            identity: format!("{process}-{}", random_base32(8)),
            slots,
            drain_timeout: self.drain_timeout,
            protocol_versions: proto::PROTOCOL_VERSIONS,
        })
    }
}

impl Worker {
    /// Begins a Worker for the server at `host:port`, or at one of several addresses separated by commas.
    pub fn builder(address: impl Into<String>) -> WorkerBuilder {
        WorkerBuilder {
            target: Target::new(address),
            flows: Vec::new(),
            slots: None,
            drain_timeout: DRAIN_TIMEOUT,
            identity: None,
        }
    }

    /// Process identity and 8 random characters: as the server shows this Worker.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// Runs until something makes running pointless. A server that cannot be reached does not: the Worker
    /// tries again, at least once a second.
    ///
    /// # Errors
    /// No protocol version in common, or a hello that the server will never accept.
    pub async fn run(self) -> Result<(), WorkerError> {
        self.run_until(std::future::pending()).await
    }

    /// As [`run`](Self::run), and stops gracefully when `shutdown` ends: takes no new task, lets running
    /// handlers finish for the drain timeout, then asks them to cancel; results of finished tasks have
    /// been settled before the stream closes (FD-6).
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub async fn run_until(self, shutdown: impl Future<Output = ()>) -> Result<(), WorkerError> {
        let mut orphans = Orphans::default();
        let mut backoff = Backoff::default();
        let mut complaint = Complaint::default();
        let mut shutdown = std::pin::pin!(shutdown);
        loop {
            let opened = tokio::select! {
                () = shutdown.as_mut() => return Ok(()),
                opened = self.open() => opened,
            };
            match opened {
                Ok((mut session, inbound)) => {
                    tracing::info!(worker = %self.identity, address = %self.address, "connected");
                    complaint.over();
                    let opened_at = Instant::now();
                    match session.serve(inbound, shutdown.as_mut(), self.drain_timeout).await {
                        SessionEnd::Stopped => return Ok(()),
                        SessionEnd::Refused(message) => {
                            return Err(self.refused(Code::InvalidArgument, message));
                        }
                        SessionEnd::Lost(why) => {
                            tracing::warn!(address = %self.address, why, "the Worker stream ended");
                        }
                    }
                    let is_stopping = session.is_stopping();
                    orphans.add(session.orphan());
                    if is_stopping {
                        // Nothing that still runs can be delivered any more.
                        return Ok(());
                    }
                    if opened_at.elapsed() >= STREAM_WORKED {
                        backoff.reset();
                    }
                }
                Err(OpenError::Fatal(error)) => return Err(error),
                Err(OpenError::Transient(why)) => complaint.about(&self.address, &why),
            }
            tokio::select! {
                () = shutdown.as_mut() => return Ok(()),
                () = tokio::time::sleep(backoff.next_delay()) => {}
            }
        }
    }

    /// Connects, agrees on a protocol version and says hello. A new connection each time: the old one may
    /// lead to a process that does not serve any more.
    async fn open(&self) -> Result<(Session, tonic::Streaming<proto::ServerBatch>), OpenError> {
        let link =
            self.link.fresh().await.map_err(|error| {
                OpenError::Transient(Trouble { is_refused: false, why: root_cause(&error) })
            })?;
        let mut request = tonic::Request::new(proto::GetServerInfoRequest {});
        request.set_timeout(SERVER_INFO_TIMEOUT);
        let info = FlowServiceClient::new(link.clone())
            .get_server_info(request)
            .await
            .map_err(|status| self.open_error(&status))?;
        let protocol_version = agree_on_protocol(&self.address, info.get_ref(), self.protocol_versions)
            .map_err(|error| OpenError::Fatal(error.into()))?;

        let (frames, batches) = frames::frame_channel();
        frames.send(Kind::Hello(self.hello(protocol_version)));
        let inbound = WorkerTaskServiceClient::new(link)
            .max_decoding_message_size(proto::MESSAGE_BYTES)
            .max_encoding_message_size(proto::MESSAGE_BYTES)
            .poll_worker_task(batches)
            .await
            .map_err(|status| self.open_error(&status))?
            .into_inner();
        Ok((Session::new(self.registry.clone(), frames), inbound))
    }

    fn hello(&self, protocol_version: u32) -> proto::Hello {
        let mut flow_types: Vec<_> = self.registry.flows.values().map(|flow| flow.to_proto()).collect();
        flow_types.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        proto::Hello { worker: self.identity.clone(), slots: self.slots, flow_types, protocol_version }
    }

    fn open_error(&self, status: &Status) -> OpenError {
        let (code, message) = (status.code(), status.message().to_owned());
        // What this Worker says is wrong, or what answers is no dex-server-zd.
        if matches!(code, Code::InvalidArgument | Code::Unimplemented) {
            return OpenError::Fatal(self.refused(code, message));
        }
        // A credential can be replaced while the Worker runs, here or there.
        let is_refused = matches!(code, Code::Unauthenticated | Code::PermissionDenied);
        OpenError::Transient(Trouble { is_refused, why: describe(status) })
    }

    fn refused(&self, code: Code, message: String) -> WorkerError {
        WorkerError::Refused { address: self.address.clone(), code, message }
    }
}

enum OpenError {
    Fatal(WorkerError),
    Transient(Trouble),
}

/// Why there is no stream at the moment.
struct Trouble {
    /// The credential is the reason.
    is_refused: bool,
    why: String,
}

/// Handlers whose stream is gone. They end with the Worker at the latest.
#[derive(Default)]
struct Orphans(Vec<AbortHandle>);

impl Orphans {
    fn add(&mut self, handlers: impl Iterator<Item = AbortHandle>) {
        self.0.retain(|handler| !handler.is_finished());
        self.0.extend(handlers);
    }
}

impl Drop for Orphans {
    fn drop(&mut self) {
        for handler in &self.0 {
            handler.abort();
        }
    }
}

/// Says that the server cannot be reached: at once, then now and then.
#[derive(Default)]
struct Complaint {
    last: Option<Instant>,
}

impl Complaint {
    fn about(&mut self, address: &str, trouble: &Trouble) {
        if self.last.is_some_and(|last| last.elapsed() < COMPLAIN_INTERVAL) {
            return;
        }
        self.last = Some(Instant::now());
        let why = &trouble.why;
        if trouble.is_refused {
            tracing::warn!(
                "the server at {address} does not take this Worker's credential: {why}. `credential_file` names a file \
                 with one. Trying again."
            );
        } else {
            tracing::warn!(
                "cannot connect to the server at {address}: {why}. Is it running? `dexcli dev` starts one; {} names \
                 another address. Trying again.",
                dexzd_connection::ADDRESS_VARIABLE
            );
        }
    }

    fn over(&mut self) {
        self.last = None;
    }
}

fn cpu_count() -> u32 {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    u32::try_from(cpus).unwrap_or(10_000).min(10_000)
}

fn process_identity() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname")
        .ok()
        .or_else(|| std::env::var("HOSTNAME").ok())
        .map(|host| host.trim().to_owned())
        .filter(|host| !host.is_empty())
        .unwrap_or_else(|| "worker".to_owned());
    format!("{host}-{}", std::process::id())
}

fn random_base32(count: usize) -> String {
    const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    (0..count).map(|_| char::from(ALPHABET[fastrand::usize(..32)])).collect()
}

impl fmt::Debug for WorkerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerBuilder").field("target", &self.target).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
