//! `flow start`, with or without waiting for the result.

use std::time::Duration;

use dexzd_connection::Backoff;
use dexzd_proto::{
    ActiveStepSearch, Durability, FlowConfig, FlowResult, FlowStatus, IdReusePolicy, MethodOptions, Movement,
    StartFlowRequest, StartFlowResponse, StepOptions, SubStatus, Target, TimeoutPolicy, WaitForFlowRequest,
};
use serde_json::json;
use tonic::Status;

use super::request_id;
use crate::args::{self, Arguments, StartArguments};
use crate::connection::{Connection, bounded, within};
use crate::duration::milliseconds;
use crate::failure::{Failure, Kind, error_detail};
use crate::output::Output;
use crate::render;
use crate::value;

/// How long one call to wait for a result stays open: below what proxies usually cut off.
const WAIT_PER_CALL: Duration = Duration::from_secs(20);

const OPERATION: &str = "flow start";

pub(super) async fn start(
    arguments: &Arguments,
    start: &StartArguments,
    output: &Output,
) -> Result<(), Failure> {
    let request = request(start)?;
    if !start.wait {
        let started = bounded(arguments, OPERATION, async {
            let connection = Connection::patient(arguments, OPERATION)?;
            connection.call(request.clone(), async |mut flows, request| flows.start_flow(request).await).await
        })
        .await?;
        let json = json!({
            "flowId": start.id,
            "runId": started.run_id,
            "requestId": request.request_id,
            "newlyStarted": started.newly_started,
        });
        output.result(&json, render::fields_table);
        return Ok(());
    }
    let result = within(arguments, OPERATION, Duration::ZERO, async {
        let connection = Connection::waiting(arguments, OPERATION)?;
        let started = connection
            .call(request.clone(), async |mut flows, request| flows.start_flow(request).await)
            .await?;
        wait_for_result(&connection, &start.id, &started, output).await
    })
    .await?;
    output.result(&render::flow_result(&start.id, &result), render::result_table);
    if result.status() == FlowStatus::Completed {
        return Ok(());
    }
    let status = render::status_name(result.status);
    Err(Failure::new(Kind::FlowNotCompleted, OPERATION, format!("the Flow ended {status}"))
        .with_hint(format!("`dexcli flow history {} --all` tells what happened.", start.id)))
}

async fn wait_for_result(
    connection: &Connection,
    flow_id: &str,
    started: &StartFlowResponse,
    output: &Output,
) -> Result<FlowResult, Failure> {
    let spinner = output.spinner(format!("Flow {flow_id} runs (run {})", started.run_id));
    let request = WaitForFlowRequest {
        target: Some(Target { flow_id: flow_id.to_owned(), run_id: Some(started.run_id.clone()) }),
        wait_ms: Some(milliseconds(WAIT_PER_CALL)),
    };
    let mut backoff = Backoff::default();
    let result = loop {
        match connection.flows().wait_for_flow(request.clone()).await {
            Ok(answer) => break Ok(answer.into_inner()),
            Err(status) if is_still_running(&status) => backoff = Backoff::default(),
            Err(status) if connection.is_worth_repeating(&status) => {
                tokio::time::sleep(backoff.next_delay()).await;
            }
            Err(status) => break Err(connection.failure(&status)),
        }
    };
    spinner.finish_and_clear();
    result
}

/// The call's time is over, the Flow is not.
pub(super) fn is_still_running(status: &Status) -> bool {
    error_detail(status).is_some_and(|detail| detail.sub_status() == SubStatus::LongPollTimeout)
}

fn request(start: &StartArguments) -> Result<StartFlowRequest, Failure> {
    let movement = match &start.step {
        Some(step) => Some(Movement {
            step_type: step.clone(),
            input: match &start.input {
                Some(input) => Some(value::read(OPERATION, "--input", input)?),
                None => None,
            },
            options: start.skip_wait_for.then(|| StepOptions {
                wait_for: Some(MethodOptions::default()),
                execute: Some(MethodOptions::default()),
                skip_wait_for: true,
                ..StepOptions::default()
            }),
        }),
        None => None,
    };
    let attributes = start.attribute.iter().map(|attribute| value::attribute(OPERATION, attribute));
    let policy = start.timeout_policy.map(timeout_policy).unwrap_or_default();
    Ok(StartFlowRequest {
        request_id: request_id(start.request_id.as_ref()),
        flow_id: start.id.clone(),
        flow_type: start.flow_type.clone(),
        start: movement,
        timeout_ms: start.timeout_duration.map(milliseconds),
        timeout_policy: policy.into(),
        has_timeout_handler: policy == TimeoutPolicy::Handler,
        timeout_handler: None,
        id_reuse_policy: start.id_reuse_policy.map(id_reuse_policy).unwrap_or_default().into(),
        ignore_already_started: start.ignore_already_started,
        start_delay_ms: start.start_delay.map(milliseconds),
        attributes: attributes.collect::<Result<_, _>>()?,
        config: config(start),
        retention_ms: start.retention.map(milliseconds),
        retry: None,
    })
}

fn config(start: &StartArguments) -> Option<FlowConfig> {
    if start.step_durability.is_none() && start.active_step_search.is_none() {
        return None;
    }
    let durability = start.step_durability.map_or(Durability::Unspecified, |durability| match durability {
        args::StepDurability::Sync => Durability::Sync,
        args::StepDurability::Async => Durability::Async,
    });
    let search = start.active_step_search.map_or(ActiveStepSearch::Unspecified, |search| match search {
        args::ActiveStepSearch::All => ActiveStepSearch::All,
        args::ActiveStepSearch::WaitForOnly => ActiveStepSearch::WaitForOnly,
        args::ActiveStepSearch::None => ActiveStepSearch::None,
    });
    Some(FlowConfig { active_step_search: search.into(), step_durability: durability.into() })
}

fn timeout_policy(policy: args::TimeoutPolicy) -> TimeoutPolicy {
    match policy {
        args::TimeoutPolicy::Fail => TimeoutPolicy::Fail,
        args::TimeoutPolicy::Cancel => TimeoutPolicy::Cancel,
        args::TimeoutPolicy::Handler => TimeoutPolicy::Handler,
    }
}

fn id_reuse_policy(policy: args::IdReusePolicy) -> IdReusePolicy {
    match policy {
        args::IdReusePolicy::Disallow => IdReusePolicy::Disallow,
        args::IdReusePolicy::AllowIfPreviousAbnormal => IdReusePolicy::AllowIfPreviousAbnormal,
        args::IdReusePolicy::AllowIfNotRunning => IdReusePolicy::AllowIfNotRunning,
        args::IdReusePolicy::TerminateIfRunning => IdReusePolicy::TerminateIfRunning,
    }
}
