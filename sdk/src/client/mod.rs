//! Clients: start Flows, talk to them, wait for them, look at them.

mod builder;
mod calls;
mod error;
mod long_poll;
mod result;
mod start;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use dexzd_connection::{Backoff, Link};
use dexzd_proto as proto;
use proto::flow_service_client::FlowServiceClient;
use tokio::time::Instant;
use tonic::{Code, Request, Response, Status};

use crate::address::{agree_on_protocol, describe};

pub use builder::ClientBuilder;
pub use calls::{SkipTimer, Stop};
pub use error::ClientError;
pub use result::{ErrorCategory, FlowError, FlowOutput, FlowResult, FlowStatus, FlowSummary};
pub use start::{ActiveStepSearch, IdReusePolicy, StartOptions, TimeoutPolicy};

/// A call is repeated while nobody serves for at most so long: longer than a standby needs to take over from a process
/// that was killed or frozen with the default lease (11 s, and 1 s until the next try), and than a restart. Where
/// `lease.duration` is longer than 20 s, a longer deadline is needed, too: [`Client::with_deadline`].
pub const CALL_DEADLINE: Duration = Duration::from_secs(30);
/// One try of [`Client::connect`] gives up after this.
const CONNECT_CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// Talks to a server. Cheap to clone; clones share one connection.
///
/// - **Make one**: [`connect`](Self::connect), [`new`](Self::new), [`builder`](Self::builder).
/// - **Adjust it**: [`with_deadline`](Self::with_deadline), [`with_request_id`](Self::with_request_id),
///   [`waiting_at_most`](Self::waiting_at_most).
/// - **Start and stop**: [`start`](Self::start), [`start_with`](Self::start_with), [`stop`](Self::stop).
/// - **Change**: [`publish`](Self::publish), [`write_attribute`](Self::write_attribute),
///   [`skip_timer`](Self::skip_timer), [`set_step_durability`](Self::set_step_durability).
/// - **Wait**: [`result`](Self::result), [`wait_for_flow`](Self::wait_for_flow),
///   [`wait_for_step`](Self::wait_for_step), [`wait_for_event`](Self::wait_for_event).
/// - **Look**: [`describe`](Self::describe), [`state`](Self::state), [`history`](Self::history),
///   [`search`](Self::search).
///
/// Calls that change something carry a request ID, by which the server makes a repetition harmless; while nobody serves
/// they are repeated with the same one until the deadline (D-35). So a call survives the failover to another process:
/// a connection that was lost, or that leads to a process that does not serve, is replaced by one to the next address,
/// and a process that is silent is given up after 9 s ([`KEEP_ALIVE_INTERVAL`](crate::KEEP_ALIVE_INTERVAL),
/// [`KEEP_ALIVE_TIMEOUT`](crate::KEEP_ALIVE_TIMEOUT)).
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
/// #     type Output = String;
/// #     fn define(&self) -> Definition<Self> { Definition::starting_with(Greet) }
/// # }
///
/// # async fn run() -> Result<(), ClientError> {
/// let client = Client::connect("127.0.0.1:8801").await?;
/// client.start::<Greeting>("greeting-1", &"Ada".to_owned()).await?;
/// println!("{}", client.result::<Greeting>("greeting-1").await?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    link: Link,
    address: Arc<str>,
    service: FlowServiceClient<Link>,
    deadline: Duration,
    long_poll_limit: Option<Duration>,
    request_id: Option<String>,
}

/// A Flow, and possibly which of its runs: by default the latest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlowTarget {
    /// The Flow's ID.
    pub flow_id: String,
    /// Which run; None is the latest.
    pub run_id: Option<String>,
}

impl Client {
    /// Connects to the server at `host:port`, or at one of several addresses separated by commas, and agrees on a
    /// protocol version.
    ///
    /// # Errors
    /// At once, if nobody answers there or the versions do not fit; at the deadline, if whoever answers does not
    /// serve.
    pub async fn connect(address: impl AsRef<str>) -> Result<Self, ClientError> {
        Self::builder(address.as_ref()).connect().await
    }

    /// A client that connects when it is first used, so that it can be made before its server runs.
    ///
    /// # Errors
    /// The address is not `host:port`, nor a list of such.
    pub fn new(address: impl AsRef<str>) -> Result<Self, ClientError> {
        Self::builder(address.as_ref()).build()
    }

    /// Begins a client with a credential, TLS, or another deadline.
    pub fn builder(address: impl Into<String>) -> ClientBuilder {
        ClientBuilder::new(address.into())
    }

    pub(crate) fn of(link: Link) -> Self {
        let service = FlowServiceClient::new(link.clone())
            .max_decoding_message_size(proto::MESSAGE_BYTES)
            .max_encoding_message_size(proto::MESSAGE_BYTES);
        let address = link.address().into();
        Self { link, address, service, deadline: CALL_DEADLINE, long_poll_limit: None, request_id: None }
    }

    /// Asks the server for its protocol versions, until somebody who serves answers.
    pub(crate) async fn connected(&self) -> Result<(), ClientError> {
        let connect_error =
            |message: String| ClientError::Connect { address: self.address().to_owned(), message };
        let until = Instant::now() + self.deadline;
        let mut backoff = Backoff::default();
        let info = loop {
            let mut service = self.service.clone();
            let asked = service.get_server_info(proto::GetServerInfoRequest {});
            let status = match tokio::time::timeout(CONNECT_CALL_TIMEOUT, asked).await {
                Ok(Ok(info)) => break info.into_inner(),
                Ok(Err(status)) => status,
                Err(_) => return Err(connect_error(format!("no answer within {CONNECT_CALL_TIMEOUT:?}"))),
            };
            if let Some(error) = ClientError::of_credential("connect", self.address(), &status) {
                return Err(error);
            }
            let delay = backoff.next_delay();
            // One that has a cause comes from no server: nobody answers.
            let is_standby =
                status.code() == Code::Unavailable && std::error::Error::source(&status).is_none();
            if !is_standby || Instant::now() + delay >= until {
                return Err(connect_error(describe(&status)));
            }
            tokio::time::sleep(delay).await;
        };
        agree_on_protocol(self.address(), &info, proto::PROTOCOL_VERSIONS)?;
        Ok(())
    }

    /// How long a call may take, repetitions included. Default [`CALL_DEADLINE`]. Calls that wait for
    /// something to happen are bounded by [`waiting_at_most`](Self::waiting_at_most) instead.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// How long `wait_for_…` and [`result`](Self::result) wait before they end with
    /// [`ClientError::LongPollTimeout`]. Default: for ever.
    #[must_use]
    pub fn waiting_at_most(mut self, limit: Duration) -> Self {
        self.long_poll_limit = Some(limit);
        self
    }

    /// The request ID of the next change, for callers that repeat a change themselves. One change, one ID:
    /// the server refuses the same ID for something else. Default: a new UUID for each call.
    #[must_use]
    pub fn with_request_id(mut self, request_id: impl Into<String>) -> Self {
        self.request_id = Some(request_id.into());
        self
    }

    /// The server's address, or its addresses.
    pub fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn request_id(&self) -> String {
        self.request_id.clone().unwrap_or_else(|| uuid::Uuid::new_v4().to_string())
    }

    /// One call, repeated while nobody serves, until the deadline.
    pub(crate) async fn call<Req, Res, Fut>(
        &self,
        operation: &'static str,
        flow_id: &str,
        request: Req,
        send: impl Fn(FlowServiceClient<Link>, Request<Req>) -> Fut,
    ) -> Result<Res, ClientError>
    where
        Req: Clone,
        Fut: Future<Output = Result<Response<Res>, Status>>,
    {
        let began = Instant::now();
        let until = began + self.deadline;
        let mut backoff = Backoff::default();
        loop {
            let credential = self.link.credential_version();
            let sent = send(self.service.clone(), Request::new(request.clone()));
            let status = match tokio::time::timeout_at(until, sent).await {
                Ok(Ok(response)) => return Ok(response.into_inner()),
                Ok(Err(status)) => status,
                Err(_) => {
                    return Err(ClientError::DeadlineExceeded {
                        operation,
                        address: self.address().to_owned(),
                        waited: began.elapsed(),
                    });
                }
            };
            if self.has_newer_credential(&status, credential) {
                continue;
            }
            if !error::is_transient(&status) {
                return Err(self.error(operation, flow_id, &status));
            }
            let delay = backoff.next_delay();
            if Instant::now() + delay >= until {
                return Err(ClientError::Unavailable {
                    operation,
                    address: self.address().to_owned(),
                    waited: began.elapsed(),
                    message: describe(&status),
                });
            }
            tracing::debug!(operation, message = status.message(), ?delay, "unavailable: trying again");
            tokio::time::sleep(delay).await;
        }
    }

    /// What a status says that is not worth a repetition.
    fn error(&self, operation: &'static str, flow_id: &str, status: &Status) -> ClientError {
        ClientError::of_credential(operation, self.address(), status)
            .unwrap_or_else(|| ClientError::from_status(operation, flow_id, status))
    }

    /// Whether the credential that was refused has been replaced since the call was sent with it.
    fn has_newer_credential(&self, status: &Status, sent_with: u64) -> bool {
        status.code() == Code::Unauthenticated
            && std::error::Error::source(status).is_none()
            && self.link.credential_version_after_look() != sent_with
    }
}

impl FlowTarget {
    /// The latest run of a Flow.
    pub fn latest(flow_id: impl Into<String>) -> Self {
        Self { flow_id: flow_id.into(), run_id: None }
    }

    /// One run of a Flow.
    pub fn run(flow_id: impl Into<String>, run_id: impl Into<String>) -> Self {
        Self { flow_id: flow_id.into(), run_id: Some(run_id.into()) }
    }

    pub(crate) fn to_proto(&self) -> proto::Target {
        proto::Target { flow_id: self.flow_id.clone(), run_id: self.run_id.clone() }
    }
}

impl From<&str> for FlowTarget {
    fn from(flow_id: &str) -> Self {
        Self::latest(flow_id)
    }
}

impl From<&String> for FlowTarget {
    fn from(flow_id: &String) -> Self {
        Self::latest(flow_id)
    }
}

impl From<String> for FlowTarget {
    fn from(flow_id: String) -> Self {
        Self::latest(flow_id)
    }
}

#[cfg(test)]
mod tests;
