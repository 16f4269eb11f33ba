//! The way to the server, and the time a command may take.

use std::future::Future;
use std::time::Duration;

use dexzd_connection::{Backoff, CredentialError, DialError, Link, Target, TargetError, TlsOptions};
use dexzd_proto::admin_service_client::AdminServiceClient;
use dexzd_proto::flow_service_client::FlowServiceClient;
use tokio::time::Instant;
use tonic::{Code, Response, Status};

use crate::args::{Arguments, DEFAULT_TIMEOUT, SecurityArguments};
use crate::failure::{Failure, Kind};

/// Calls one server on behalf of one command.
#[derive(Debug)]
pub(crate) struct Connection {
    /// The command, for error messages.
    pub(crate) operation: &'static str,
    /// The address, as given.
    pub(crate) server: String,
    /// The way to whoever serves.
    pub(crate) channel: Link,
    /// Repetitions end here; None: never.
    until: Option<Instant>,
}

impl Connection {
    /// Opens the connection, or says why that is not possible.
    pub(crate) async fn open(arguments: &Arguments, operation: &'static str) -> Result<Self, Failure> {
        let connection = Self::prepare(arguments, operation)?;
        match connection.channel.fresh().await {
            Ok(channel) => Ok(Self { channel, ..connection }),
            Err(error) => Err(connection.unreachable(&error)),
        }
    }

    /// A connection for calls that may be repeated: it is opened with the first one. While nobody serves, calls are
    /// repeated until `--timeout`, so that a command survives the failover to another process.
    pub(crate) fn patient(arguments: &Arguments, operation: &'static str) -> Result<Self, Failure> {
        Self::prepare(arguments, operation)
    }

    fn prepare(arguments: &Arguments, operation: &'static str) -> Result<Self, Failure> {
        let server = arguments.server.clone();
        let channel =
            target(&server, &arguments.security).link().map_err(|error| refused(operation, error))?;
        channel.check_credential().map_err(|error| unreadable(operation, &error))?;
        let limit = arguments.timeout.unwrap_or(DEFAULT_TIMEOUT);
        let until = (!limit.is_zero()).then(|| Instant::now() + limit);
        Ok(Self { operation, server, channel, until })
    }

    /// A patient connection of a command that waits by nature: without `--timeout` it never gives up.
    pub(crate) fn waiting(arguments: &Arguments, operation: &'static str) -> Result<Self, Failure> {
        let connection = Self::prepare(arguments, operation)?;
        let until = connection.until.filter(|_| arguments.timeout.is_some());
        Ok(Self { until, ..connection })
    }

    /// One call that may be repeated: it changes nothing, or carries a request ID.
    pub(crate) async fn call<Req: Clone, Res, Fut>(
        &self,
        request: Req,
        send: impl Fn(FlowServiceClient<Link>, Req) -> Fut,
    ) -> Result<Res, Failure>
    where
        Fut: Future<Output = Result<Response<Res>, Status>>,
    {
        let mut backoff = Backoff::default();
        loop {
            let credential = self.channel.credential_version();
            let status = match send(self.flows(), request.clone()).await {
                Ok(answer) => return Ok(answer.into_inner()),
                Err(status) => status,
            };
            if status.code() == Code::Unauthenticated
                && credential_error(&status).is_none()
                && self.channel.credential_version_after_look() != credential
            {
                continue;
            }
            let delay = backoff.next_delay();
            let is_over = self.until.is_some_and(|until| Instant::now() + delay >= until);
            if is_over || !self.is_worth_repeating(&status) {
                return Err(self.failure(&status));
            }
            tokio::time::sleep(delay).await;
        }
    }

    /// Whether somebody may serve soon who does not now. Where only this machine was asked and nothing listens
    /// there, nobody will: whoever forgot to start a server learns of it at once.
    pub(crate) fn is_worth_repeating(&self, status: &Status) -> bool {
        let Some(source) = std::error::Error::source(status) else {
            return status.code() == Code::Unavailable;
        };
        if credential_error(status).is_some() {
            return false;
        }
        let is_refused = DialError::find(source).is_some_and(DialError::is_refused);
        !(is_refused && self.channel.is_only_this_machine())
    }

    pub(crate) fn flows(&self) -> FlowServiceClient<Link> {
        FlowServiceClient::new(self.channel.clone())
            .max_decoding_message_size(dexzd_proto::MESSAGE_BYTES)
            .max_encoding_message_size(dexzd_proto::MESSAGE_BYTES)
    }

    pub(crate) fn admin(&self) -> AdminServiceClient<Link> {
        AdminServiceClient::new(self.channel.clone())
    }

    /// The answer's message, or the failure of this command.
    pub(crate) fn answer<T>(&self, answer: Result<Response<T>, Status>) -> Result<T, Failure> {
        answer.map(Response::into_inner).map_err(|status| self.failure(&status))
    }

    pub(crate) fn failure(&self, status: &Status) -> Failure {
        if let Some(error) = credential_error(status) {
            return Failure::new(Kind::Io, self.operation, format!("--credential-file: {error}")).with_hint(
                "The file holds one token, on a line of its own; this user must be able to read it.",
            );
        }
        if let Some(source) = std::error::Error::source(status)
            && DialError::find(source).is_some()
        {
            return self.unreachable(source);
        }
        Failure::from_status(self.operation, &self.server, status)
    }

    fn unreachable(&self, error: &dyn std::error::Error) -> Failure {
        let mut cause = error;
        while let Some(next) = cause.source() {
            cause = next;
        }
        Failure::new(Kind::Connection, self.operation, format!("no server answers at {}: {cause}", self.server))
            .with_hint(
                "`dexcli dev` starts a server on this machine; --server or DEX_FLOW_SERVICE_ADDRESS names another one.",
            )
    }
}

fn unreadable(operation: &'static str, error: &CredentialError) -> Failure {
    Failure::new(Kind::Io, operation, format!("--credential-file: {error}"))
        .with_hint("The file holds one token, on a line of its own; this user must be able to read it.")
}

fn credential_error(status: &Status) -> Option<&CredentialError> {
    std::error::Error::source(status).and_then(|source| source.downcast_ref())
}

fn target(server: &str, security: &SecurityArguments) -> Target {
    let mut target = Target::new(server);
    if let Some(path) = &security.credential_file {
        target = target.credential_file(path);
    }
    let mut options = TlsOptions::new();
    if let Some(path) = &security.tls_ca_file {
        options = options.ca_file(path);
    }
    if let (Some(certificate), Some(key)) = (&security.tls_cert_file, &security.tls_key_file) {
        options = options.identity(certificate, key);
    }
    if let Some(name) = &security.tls_server_name {
        options = options.server_name(name);
    }
    if security.tls || options != TlsOptions::new() {
        target = target.tls(options);
    }
    target
}

fn refused(operation: &'static str, error: TargetError) -> Failure {
    let failure = |message: String| Failure::new(Kind::Usage, operation, message);
    match error {
        TargetError::Address(error) => failure(format!("--server: {:?} is not host:port", error.address))
            .with_hint("For example: --server 127.0.0.1:8801 or --server [::1]:8801"),
        TargetError::Material(error) => Failure::new(Kind::Io, operation, format!("TLS: {error}")),
        error @ (TargetError::Token(_) | TargetError::ServerName(_) | TargetError::PlainAddress(_)) => {
            failure(error.to_string())
        }
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
