//! Calls that wait for something to happen: asked again and again, until it has.

use std::future::Future;
use std::time::Duration;

use dexzd_connection::{Backoff, Link};
use dexzd_proto as proto;
use proto::flow_service_client::FlowServiceClient;
use tokio::time::Instant;
use tonic::{Code, Request, Response, Status};

use crate::client::error::{is_long_poll_timeout, is_transient};
use crate::client::{Client, ClientError, FlowResult, FlowStatus, FlowTarget};
use crate::context::StepExecutionId;
use crate::flow::Flow;
use crate::value;

/// One poll waits so long at the server, so that a lost connection or a dead server is noticed.
const POLL: Duration = Duration::from_secs(20);
/// A poll that is not answered so long after its end is asked again.
const POLL_GRACE: Duration = Duration::from_secs(5);

impl Client {
    /// Waits until a Flow has closed, and says how.
    ///
    /// # Errors
    /// [`ClientError::NotFound`]; [`ClientError::LongPollTimeout`] when a limit was set; others as for every
    /// call.
    pub async fn wait_for_flow(&self, target: impl Into<FlowTarget>) -> Result<FlowResult, ClientError> {
        let target = target.into();
        let request = |wait: Duration| proto::WaitForFlowRequest {
            target: Some(target.to_proto()),
            wait_ms: Some(crate::options::milliseconds(wait)),
        };
        let result = self
            .poll("wait for a Flow", &target.flow_id, request, async |mut service, request| {
                service.wait_for_flow(request).await
            })
            .await?;
        Ok(result.into())
    }

    /// Waits until a Flow has completed, and returns its output.
    ///
    /// # Errors
    /// [`ClientError::FlowNotCompleted`] if it ended otherwise; [`ClientError::SeveralOutputs`];
    /// [`ClientError::Value`] if its output is something else; and as [`wait_for_flow`](Self::wait_for_flow).
    pub async fn result<F: Flow>(&self, target: impl Into<FlowTarget>) -> Result<F::Output, ClientError> {
        let target = target.into();
        let flow_id = target.flow_id.clone();
        let result = self.wait_for_flow(target).await?;
        if result.status != FlowStatus::Completed {
            return Err(ClientError::FlowNotCompleted {
                flow_id,
                status: result.status,
                error: result.error,
            });
        }
        match result.outputs.as_slice() {
            [] => Ok(value::decode(None)?),
            [output] => Ok(output.decode()?),
            outputs => Err(ClientError::SeveralOutputs { flow_id, count: outputs.len() }),
        }
    }

    /// Waits until a Step execution has completed.
    ///
    /// # Errors
    /// [`ClientError::StepNotCompleted`] if the Flow closes without; and as
    /// [`wait_for_flow`](Self::wait_for_flow).
    pub async fn wait_for_step(
        &self,
        target: impl Into<FlowTarget>,
        step: StepExecutionId,
    ) -> Result<(), ClientError> {
        let target = target.into();
        let request = |wait: Duration| proto::WaitForStepRequest {
            target: Some(target.to_proto()),
            step: Some(step.clone().into()),
            wait_ms: Some(crate::options::milliseconds(wait)),
        };
        self.poll("wait for a Step", &target.flow_id, request, async |mut service, request| {
            service.wait_for_step(request).await
        })
        .await?;
        Ok(())
    }

    /// Waits until a run's history has this event, counted from 1; None if the run closes without it.
    ///
    /// # Errors
    /// As [`wait_for_flow`](Self::wait_for_flow).
    pub async fn wait_for_event(
        &self,
        target: impl Into<FlowTarget>,
        event: u64,
    ) -> Result<Option<proto::HistoryEvent>, ClientError> {
        let target = target.into();
        let request = |wait: Duration| proto::WaitForHistoryEventRequest {
            target: Some(target.to_proto()),
            event,
            wait_ms: Some(crate::options::milliseconds(wait)),
        };
        let found = self
            .poll("wait for an event", &target.flow_id, request, async |mut service, request| {
                service.wait_for_history_event(request).await
            })
            .await?;
        Ok(found.event)
    }

    /// Asks, and asks again while the server is unavailable or the wait of one poll ends early.
    async fn poll<Req, Res, Fut>(
        &self,
        operation: &'static str,
        flow_id: &str,
        request: impl Fn(Duration) -> Req,
        send: impl Fn(FlowServiceClient<Link>, Request<Req>) -> Fut,
    ) -> Result<Res, ClientError>
    where
        Fut: Future<Output = Result<Response<Res>, Status>>,
    {
        let began = Instant::now();
        let mut backoff = Backoff::default();
        loop {
            let left = self.long_poll_limit.map_or(POLL, |limit| limit.saturating_sub(began.elapsed()));
            let wait = left.min(POLL);
            let credential = self.link.credential_version();
            let sent = send(self.service.clone(), Request::new(request(wait)));
            let is_over = match tokio::time::timeout(wait + POLL_GRACE, sent).await {
                Ok(Ok(response)) => return Ok(response.into_inner()),
                Ok(Err(status))
                    if is_long_poll_timeout(&status) || status.code() == Code::DeadlineExceeded =>
                {
                    backoff.reset();
                    true
                }
                Ok(Err(status)) if self.has_newer_credential(&status, credential) => continue,
                Ok(Err(status)) if is_transient(&status) => {
                    tracing::debug!(operation, message = status.message(), "unavailable: trying again");
                    false
                }
                Ok(Err(status)) => {
                    return Err(self.error(operation, flow_id, &status));
                }
                Err(_) => false,
            };
            if let Some(limit) = self.long_poll_limit
                && began.elapsed() >= limit
            {
                return Err(ClientError::LongPollTimeout { operation, waited: began.elapsed() });
            }
            if !is_over {
                tokio::time::sleep(backoff.next_delay()).await;
            }
        }
    }
}
