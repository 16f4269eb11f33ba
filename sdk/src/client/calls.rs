//! Bounded calls: starting, changing and looking at Flows.

use dexzd_proto as proto;
use proto::skip_timer_request::{ConditionTimer, FlowTimeout, IndexTimer, Timer};
use serde::Serialize;

use crate::client::start::StartOptions;
use crate::client::{Client, ClientError, FlowSummary, FlowTarget};
use crate::context::StepExecutionId;
use crate::decision::Movement;
use crate::flow::{Flow, Input};
use crate::options::Durability;
use crate::schema::{Attribute, Channel};
use crate::step::Step;
use crate::value;

/// How to stop a Flow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stop {
    /// Asks running attempts to cancel, then closes as canceled.
    Cancel {
        /// For people.
        reason: String,
    },
    /// Closes at once as terminated.
    Terminate {
        /// For people.
        reason: String,
    },
    /// Asks running attempts to cancel, then closes as failed.
    Fail {
        /// Becomes the Flow's error text.
        reason: String,
    },
}

/// Which timer to skip.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SkipTimer {
    /// By the condition's ID.
    Condition {
        /// The Step execution that waits.
        step: StepExecutionId,
        /// The condition's ID.
        condition_id: String,
    },
    /// By its place among the timers of the Wait, from zero.
    Index {
        /// The Step execution that waits.
        step: StepExecutionId,
        /// From zero.
        index: u32,
    },
    /// The Flow's timeout.
    FlowTimeout,
}

impl Client {
    /// Starts a Flow and returns its run ID.
    ///
    /// # Errors
    /// [`ClientError::AlreadyStarted`] if the ID was used before; others as for every call.
    pub async fn start<F: Flow>(
        &self,
        flow_id: impl Into<String>,
        input: &Input<F>,
    ) -> Result<String, ClientError> {
        self.start_with::<F>(flow_id, input, StartOptions::new()).await
    }

    /// Starts a Flow with options and returns its run ID.
    ///
    /// # Errors
    /// [`ClientError::AlreadyStarted`] if the reuse policy says no; others as for every call.
    pub async fn start_with<F: Flow>(
        &self,
        flow_id: impl Into<String>,
        input: &Input<F>,
        mut options: StartOptions,
    ) -> Result<String, ClientError> {
        let flow_id = flow_id.into();
        let has_start = !<F::Start as Step>::TYPE.is_empty();
        let start = has_start.then(|| Movement::to::<F::Start>(input).into_proto()).transpose()?;
        let mut request = proto::StartFlowRequest {
            request_id: options.request_id.take().unwrap_or_else(|| self.request_id()),
            flow_id: flow_id.clone(),
            flow_type: F::TYPE.to_owned(),
            start,
            has_timeout_handler: F::HAS_TIMEOUT_HANDLER,
            ..proto::StartFlowRequest::default()
        };
        options.fill(&mut request)?;
        let started = self
            .call("start a Flow", &flow_id, request, async |mut service, request| {
                service.start_flow(request).await
            })
            .await?;
        Ok(started.run_id)
    }

    /// Stops a Flow.
    ///
    /// # Errors
    /// [`ClientError::NotFound`], [`ClientError::NotActive`]; others as for every call.
    pub async fn stop(&self, target: impl Into<FlowTarget>, stop: Stop) -> Result<(), ClientError> {
        let target = target.into();
        let (kind, reason) = match stop {
            Stop::Cancel { reason } => (proto::StopKind::Cancel, reason),
            Stop::Terminate { reason } => (proto::StopKind::Terminate, reason),
            Stop::Fail { reason } => (proto::StopKind::Fail, reason),
        };
        let request = proto::StopFlowRequest {
            request_id: self.request_id(),
            target: Some(target.to_proto()),
            kind: kind.into(),
            reason,
        };
        self.call("stop a Flow", &target.flow_id, request, async |mut service, request| {
            service.stop_flow(request).await
        })
        .await?;
        Ok(())
    }

    /// Publishes a message to a Channel of an active Flow and returns the message's ID.
    ///
    /// # Errors
    /// [`ClientError::NotFound`], [`ClientError::NotActive`], [`ClientError::Closing`]; others as for every
    /// call.
    pub async fn publish<T: Serialize>(
        &self,
        target: impl Into<FlowTarget>,
        channel: &Channel<T>,
        value: &T,
    ) -> Result<String, ClientError> {
        let ids = self.publish_all(target, channel, std::slice::from_ref(value)).await?;
        Ok(ids.into_iter().next().unwrap_or_default())
    }

    /// Publishes messages to a Channel of an active Flow, in this order and together, and returns their IDs.
    ///
    /// # Errors
    /// As [`publish`](Self::publish).
    pub async fn publish_all<T: Serialize>(
        &self,
        target: impl Into<FlowTarget>,
        channel: &Channel<T>,
        values: &[T],
    ) -> Result<Vec<String>, ClientError> {
        let target = target.into();
        let publications = values.iter().map(|value| {
            Ok(proto::Publication {
                channel: Some(channel.key().to_proto()),
                value: Some(value::encode(value)?),
            })
        });
        let request = proto::PublishToChannelRequest {
            request_id: self.request_id(),
            target: Some(target.to_proto()),
            publications: publications.collect::<Result<_, ClientError>>()?,
        };
        let published = self
            .call("publish", &target.flow_id, request, async |mut service, request| {
                service.publish_to_channel(request).await
            })
            .await?;
        Ok(published.message_ids)
    }

    /// Deletes pending messages of a Channel.
    ///
    /// # Errors
    /// [`ClientError::MessageNotFound`] if one was consumed or deleted; others as for every call.
    pub async fn delete_messages<T>(
        &self,
        target: impl Into<FlowTarget>,
        channel: &Channel<T>,
        message_ids: impl IntoIterator<Item = String>,
    ) -> Result<(), ClientError> {
        let target = target.into();
        let request = proto::DeleteChannelMessagesRequest {
            request_id: self.request_id(),
            target: Some(target.to_proto()),
            channel: Some(channel.key().to_proto()),
            message_ids: message_ids.into_iter().collect(),
        };
        self.call("delete messages", &target.flow_id, request, async |mut service, request| {
            service.delete_channel_messages(request).await
        })
        .await?;
        Ok(())
    }

    /// Writes an Attribute of an active Flow; None deletes it.
    ///
    /// # Errors
    /// [`ClientError::NotFound`], [`ClientError::NotActive`], [`ClientError::Closing`]; others as for every
    /// call.
    pub async fn write_attribute<T: Serialize>(
        &self,
        target: impl Into<FlowTarget>,
        attribute: &Attribute<T>,
        value: Option<&T>,
    ) -> Result<(), ClientError> {
        let target = target.into();
        let value = match value {
            Some(value) => value::encode_attribute(value)?,
            None => proto::AttributeValue { kind: None },
        };
        let request = proto::WriteAttributesRequest {
            request_id: self.request_id(),
            target: Some(target.to_proto()),
            writes: vec![proto::AttributeEntry { key: Some(attribute.key().to_proto()), value: Some(value) }],
        };
        self.call("write an Attribute", &target.flow_id, request, async |mut service, request| {
            service.write_attributes(request).await
        })
        .await?;
        Ok(())
    }

    /// Lets a timer fire now. True: the Step does not wait yet, and the skip is applied when it does.
    ///
    /// # Errors
    /// [`ClientError::TimerNotFound`], [`ClientError::NotFound`], [`ClientError::NotActive`]; others as for
    /// every call.
    pub async fn skip_timer(
        &self,
        target: impl Into<FlowTarget>,
        timer: SkipTimer,
    ) -> Result<bool, ClientError> {
        let target = target.into();
        let timer = match timer {
            SkipTimer::Condition { step, condition_id } => {
                Timer::Condition(ConditionTimer { step: Some(step.into()), condition_id })
            }
            SkipTimer::Index { step, index } => Timer::Index(IndexTimer { step: Some(step.into()), index }),
            SkipTimer::FlowTimeout => Timer::FlowTimeout(FlowTimeout {}),
        };
        let request = proto::SkipTimerRequest {
            request_id: self.request_id(),
            target: Some(target.to_proto()),
            timer: Some(timer),
        };
        let skipped = self
            .call("skip a timer", &target.flow_id, request, async |mut service, request| {
                service.skip_timer(request).await
            })
            .await?;
        Ok(skipped.remembered)
    }

    /// Sets the durability of Steps that do not say themselves, for methods scheduled from now on.
    ///
    /// # Errors
    /// [`ClientError::NotFound`], [`ClientError::NotActive`], [`ClientError::Closing`]; others as for every
    /// call.
    pub async fn set_step_durability(
        &self,
        target: impl Into<FlowTarget>,
        durability: Durability,
    ) -> Result<(), ClientError> {
        self.update_config(
            target,
            proto::FlowConfig { active_step_search: 0, step_durability: durability.to_proto().into() },
        )
        .await
    }

    /// Changes the given fields of a Flow's configuration.
    ///
    /// # Errors
    /// As [`set_step_durability`](Self::set_step_durability).
    pub async fn update_config(
        &self,
        target: impl Into<FlowTarget>,
        config: proto::FlowConfig,
    ) -> Result<(), ClientError> {
        let target = target.into();
        let request = proto::UpdateFlowConfigRequest {
            request_id: self.request_id(),
            target: Some(target.to_proto()),
            config: Some(config),
        };
        self.call("update the configuration", &target.flow_id, request, async |mut service, request| {
            service.update_flow_config(request).await
        })
        .await?;
        Ok(())
    }

    /// A run at a glance.
    ///
    /// # Errors
    /// [`ClientError::NotFound`]; others as for every call.
    pub async fn describe(&self, target: impl Into<FlowTarget>) -> Result<FlowSummary, ClientError> {
        let target = target.into();
        let request = proto::DescribeFlowRequest { target: Some(target.to_proto()) };
        let summary = self
            .call("describe a Flow", &target.flow_id, request, async |mut service, request| {
                service.describe_flow(request).await
            })
            .await?;
        Ok(summary.into())
    }

    /// Everything a run holds, as the wire carries it.
    ///
    /// # Errors
    /// [`ClientError::NotFound`]; others as for every call.
    pub async fn state(&self, target: impl Into<FlowTarget>) -> Result<proto::FlowState, ClientError> {
        let target = target.into();
        let request = proto::GetFlowStateRequest { target: Some(target.to_proto()) };
        self.call("read a Flow's state", &target.flow_id, request, async |mut service, request| {
            service.get_flow_state(request).await
        })
        .await
    }

    /// An Attribute of a run; None if it has no value.
    ///
    /// # Errors
    /// [`ClientError::NotFound`]; [`ClientError::Value`] if it is something else; others as for every call.
    pub async fn attribute<T: serde::de::DeserializeOwned>(
        &self,
        target: impl Into<FlowTarget>,
        attribute: &Attribute<T>,
    ) -> Result<Option<T>, ClientError> {
        let state = self.state(target).await?;
        let entry = state.attributes.iter().find(|entry| attribute.key().matches(entry.key.as_ref()));
        let value = entry.and_then(|entry| entry.value.as_ref());
        Ok(value.map(value::decode_attribute).transpose()?.flatten())
    }

    /// One page of a run's history, as the wire carries it: from this event on (0: from the first), at most
    /// 1,000 events (0: 100).
    ///
    /// # Errors
    /// [`ClientError::NotFound`]; others as for every call.
    pub async fn history(
        &self,
        target: impl Into<FlowTarget>,
        start_event: u64,
        page_size: u32,
    ) -> Result<proto::GetFlowHistoryResponse, ClientError> {
        let target = target.into();
        let request =
            proto::GetFlowHistoryRequest { target: Some(target.to_proto()), start_event, page_size };
        self.call("read a Flow's history", &target.flow_id, request, async |mut service, request| {
            service.get_flow_history(request).await
        })
        .await
    }

    /// One page of the Flows that match a query, newest start first, and the token of the next page (empty:
    /// no more). For example `flowType = "Order" AND status = "running"`; an empty query matches all.
    ///
    /// # Errors
    /// [`ClientError::InvalidArgument`] for a query that cannot be read; others as for every call.
    pub async fn search(
        &self,
        query: impl Into<String>,
        page_size: u32,
        page_token: impl Into<String>,
    ) -> Result<(Vec<FlowSummary>, String), ClientError> {
        let request =
            proto::SearchFlowsRequest { query: query.into(), page_size, page_token: page_token.into() };
        let found = self
            .call("search Flows", "", request, async |mut service, request| {
                service.search_flows(request).await
            })
            .await?;
        Ok((found.flows.into_iter().map(FlowSummary::from).collect(), found.next_page_token))
    }

    /// The server's version and protocol interval.
    ///
    /// # Errors
    /// As for every call.
    pub async fn server_info(&self) -> Result<proto::ServerInfo, ClientError> {
        let request = proto::GetServerInfoRequest {};
        self.call("read the server's version", "", request, async |mut service, request| {
            service.get_server_info(request).await
        })
        .await
    }
}

impl From<StepExecutionId> for proto::StepExecutionId {
    fn from(step: StepExecutionId) -> Self {
        Self { step_type: step.step_type, number: step.number }
    }
}
