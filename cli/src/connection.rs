//! The way to the server, and the time a command may take.

use std::future::Future;
use std::time::Duration;

use dexzd_proto::admin_service_client::AdminServiceClient;
use dexzd_proto::flow_service_client::FlowServiceClient;
use tonic::transport::{Channel, Endpoint};
use tonic::{Response, Status};

use crate::args::{Arguments, DEFAULT_TIMEOUT};
use crate::failure::{Failure, Kind};

/// How long opening the connection may take: a server that is there answers in milliseconds.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A server that vanished without closing the connection is noticed after this long.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// Calls one server on behalf of one command.
#[derive(Debug)]
pub(crate) struct Connection {
    /// The command, for error messages.
    pub(crate) operation: &'static str,
    /// The address, as given.
    pub(crate) server: String,
    pub(crate) channel: Channel,
}

impl Connection {
    /// Opens the connection, or says why that is not possible.
    pub(crate) async fn open(arguments: &Arguments, operation: &'static str) -> Result<Self, Failure> {
        let server = arguments.server.clone();
        let endpoint = endpoint(operation, &server)?;
        let channel =
            endpoint.connect().await.map_err(|error| unreachable_server(operation, &server, &error))?;
        Ok(Self { operation, server, channel })
    }

    pub(crate) fn flows(&self) -> FlowServiceClient<Channel> {
        FlowServiceClient::new(self.channel.clone())
            .max_decoding_message_size(dexzd_proto::MESSAGE_BYTES)
            .max_encoding_message_size(dexzd_proto::MESSAGE_BYTES)
    }

    pub(crate) fn admin(&self) -> AdminServiceClient<Channel> {
        AdminServiceClient::new(self.channel.clone())
    }

    /// The answer's message, or the failure of this command.
    pub(crate) fn answer<T>(&self, answer: Result<Response<T>, Status>) -> Result<T, Failure> {
        answer.map(Response::into_inner).map_err(|status| self.failure(&status))
    }

    pub(crate) fn failure(&self, status: &Status) -> Failure {
        Failure::from_status(self.operation, &self.server, status)
    }
}

/// Ends `work` when `--timeout` is over. `by_default` applies when the flag is absent.
pub(crate) async fn within<T>(
    arguments: &Arguments,
    operation: &'static str,
    by_default: Duration,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let limit = arguments.timeout.unwrap_or(by_default);
    if limit.is_zero() {
        return work.await;
    }
    match tokio::time::timeout(limit, work).await {
        Ok(result) => result,
        Err(_) => Err(Failure::new(
            Kind::Timeout,
            operation,
            format!("no answer from {} within {limit:?}", arguments.server),
        )
        .with_hint(
            "What was asked for may still have happened. --timeout allows more time; a repeat with the \
             same --request-id is safe.",
        )),
    }
}

/// For commands that end by themselves.
pub(crate) async fn bounded<T>(
    arguments: &Arguments,
    operation: &'static str,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    within(arguments, operation, DEFAULT_TIMEOUT, work).await
}

fn endpoint(operation: &str, server: &str) -> Result<Endpoint, Failure> {
    let has_port =
        server.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
    let endpoint = Endpoint::from_shared(format!("http://{server}"));
    match endpoint {
        Ok(endpoint) if has_port && !server.contains('/') => Ok(endpoint
            .connect_timeout(CONNECT_TIMEOUT)
            .http2_keep_alive_interval(KEEP_ALIVE_INTERVAL)
            .tcp_nodelay(true)),
        Ok(_) | Err(_) => {
            Err(Failure::new(Kind::Usage, operation, format!("--server: {server:?} is not host:port"))
                .with_hint("For example: --server 127.0.0.1:8801 or --server [::1]:8801"))
        }
    }
}

fn unreachable_server(operation: &str, server: &str, error: &tonic::transport::Error) -> Failure {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    Failure::new(Kind::Connection, operation, format!("no server answers at {server}: {cause}")).with_hint(
        "`dexcli dev` starts a server on this machine; --server or DEX_FLOW_SERVICE_ADDRESS names \
             another one.",
    )
}
