//! `dex.FlowService`.

use std::sync::Arc;

use dexzd_core::engine::search::parse_query;
use dexzd_core::engine::{Answer, Call, CallError};
use dexzd_proto as proto;
use proto::flow_service_server::FlowService;
use tonic::{Request, Response, Status};

use super::Backend;
use super::status::{call_error, invalid, pass};
use crate::connections::ConnectionInfo;
use crate::convert::{self, Invalid};

/// The service of clients.
pub(super) struct Flows<B> {
    backend: Arc<B>,
}

impl<B: Backend> Flows<B> {
    pub(super) const fn new(backend: Arc<B>) -> Self {
        Self { backend }
    }

    /// The way of every call: arguments, gate, engine, answer, gate.
    ///
    /// An error of the engine tells something about a Flow too, so it passes the gate like any answer
    /// (D-48); only an argument error does not.
    async fn answer<R, T>(
        &self,
        request: Request<R>,
        call: impl FnOnce(R) -> Result<Call, Invalid>,
        convert: impl FnOnce(Answer) -> Result<T, CallError>,
    ) -> Result<Response<T>, Status> {
        let opened_in = ConnectionInfo::of(&request).opened_in;
        let call = call(request.into_inner()).map_err(invalid)?;
        pass(&*self.backend, opened_in).await?;
        let answer = self.backend.call(opened_in, call).await.and_then(convert);
        pass(&*self.backend, opened_in).await?;
        answer.map(Response::new).map_err(|error| call_error(&error))
    }
}

#[tonic::async_trait]
impl<B: Backend> FlowService for Flows<B> {
    async fn start_flow(
        &self,
        request: Request<proto::StartFlowRequest>,
    ) -> Result<Response<proto::StartFlowResponse>, Status> {
        self.answer(request, convert::start_flow, convert::started).await
    }

    async fn stop_flow(
        &self,
        request: Request<proto::StopFlowRequest>,
    ) -> Result<Response<proto::StopFlowResponse>, Status> {
        self.answer(request, convert::stop_flow, |answer| {
            convert::done(answer).map(|()| proto::StopFlowResponse {})
        })
        .await
    }

    async fn publish_to_channel(
        &self,
        request: Request<proto::PublishToChannelRequest>,
    ) -> Result<Response<proto::PublishToChannelResponse>, Status> {
        self.answer(request, convert::publish, convert::published).await
    }

    async fn delete_channel_messages(
        &self,
        request: Request<proto::DeleteChannelMessagesRequest>,
    ) -> Result<Response<proto::DeleteChannelMessagesResponse>, Status> {
        self.answer(request, convert::delete_messages, |answer| {
            convert::done(answer).map(|()| proto::DeleteChannelMessagesResponse {})
        })
        .await
    }

    async fn write_attributes(
        &self,
        request: Request<proto::WriteAttributesRequest>,
    ) -> Result<Response<proto::WriteAttributesResponse>, Status> {
        self.answer(request, convert::write_attributes, |answer| {
            convert::done(answer).map(|()| proto::WriteAttributesResponse {})
        })
        .await
    }

    async fn skip_timer(
        &self,
        request: Request<proto::SkipTimerRequest>,
    ) -> Result<Response<proto::SkipTimerResponse>, Status> {
        self.answer(request, convert::skip_timer, convert::skipped).await
    }

    async fn update_flow_config(
        &self,
        request: Request<proto::UpdateFlowConfigRequest>,
    ) -> Result<Response<proto::UpdateFlowConfigResponse>, Status> {
        self.answer(request, convert::update_config, |answer| {
            convert::done(answer).map(|()| proto::UpdateFlowConfigResponse {})
        })
        .await
    }

    async fn describe_flow(
        &self,
        request: Request<proto::DescribeFlowRequest>,
    ) -> Result<Response<proto::FlowSummary>, Status> {
        self.answer(request, convert::describe, convert::summary).await
    }

    async fn get_flow_state(
        &self,
        request: Request<proto::GetFlowStateRequest>,
    ) -> Result<Response<proto::FlowState>, Status> {
        self.answer(request, convert::state, convert::run_state).await
    }

    async fn get_flow_history(
        &self,
        request: Request<proto::GetFlowHistoryRequest>,
    ) -> Result<Response<proto::GetFlowHistoryResponse>, Status> {
        self.answer(request, convert::history, convert::history_page).await
    }

    async fn wait_for_history_event(
        &self,
        request: Request<proto::WaitForHistoryEventRequest>,
    ) -> Result<Response<proto::WaitForHistoryEventResponse>, Status> {
        self.answer(request, convert::wait_for_event, convert::event).await
    }

    async fn wait_for_flow(
        &self,
        request: Request<proto::WaitForFlowRequest>,
    ) -> Result<Response<proto::FlowResult>, Status> {
        self.answer(request, convert::wait_for_flow, convert::flow_result).await
    }

    async fn wait_for_step(
        &self,
        request: Request<proto::WaitForStepRequest>,
    ) -> Result<Response<proto::WaitForStepResponse>, Status> {
        self.answer(request, convert::wait_for_step, convert::step_completed).await
    }

    async fn search_flows(
        &self,
        request: Request<proto::SearchFlowsRequest>,
    ) -> Result<Response<proto::SearchFlowsResponse>, Status> {
        let filter = parse_query(&request.get_ref().query).map_err(|error| call_error(&error.into()))?;
        let search = |request: proto::SearchFlowsRequest| {
            convert::search(filter, request.page_size, &request.page_token)
        };
        self.answer(request, search, convert::page).await
    }

    async fn get_server_info(
        &self,
        request: Request<proto::GetServerInfoRequest>,
    ) -> Result<Response<proto::ServerInfo>, Status> {
        pass(&*self.backend, ConnectionInfo::of(&request).opened_in).await?;
        let (protocol_min, protocol_max) = proto::PROTOCOL_VERSIONS;
        Ok(Response::new(proto::ServerInfo {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            protocol_min,
            protocol_max,
            node_id: self.backend.node_id().to_owned(),
        }))
    }

    /// Health is no public API in the sense of HA-53: it answers in every role.
    async fn health(
        &self,
        _: Request<proto::HealthRequest>,
    ) -> Result<Response<proto::HealthResponse>, Status> {
        Ok(Response::new(proto::HealthResponse {
            serving: super::health::serves(&*self.backend),
            role: self.backend.view().borrow().role.label().to_owned(),
        }))
    }
}
