//! Looking at Flows and acting on them.

use dexzd_proto::skip_timer_request::{ConditionTimer, FlowTimeout, IndexTimer, Timer};
use dexzd_proto::{
    DescribeFlowRequest, GetFlowHistoryRequest, GetFlowStateRequest, HistoryEvent, Key, Publication,
    PublishToChannelRequest, SearchFlowsRequest, SkipTimerRequest, StepExecutionId, StopFlowRequest,
    StopKind, Target,
};
use serde_json::{Value, json};

use super::request_id;
use crate::args::{
    Arguments, HistoryArguments, InspectArguments, PublishArguments, RunArguments, SearchArguments,
    SkipArguments, StopArguments, StopType,
};
use crate::connection::{Connection, bounded};
use crate::failure::{Failure, Kind};
use crate::output::Output;
use crate::render;
use crate::value;

/// Pages that `--all` and `--all-history` ask for: as large as the server gives.
const WHOLE_PAGE: u32 = 1_000;

pub(super) fn target(run: &RunArguments) -> Option<Target> {
    Some(Target { flow_id: run.flow_id.clone(), run_id: run.run_id.clone() })
}

pub(super) async fn search(
    arguments: &Arguments,
    search: &SearchArguments,
    output: &Output,
) -> Result<(), Failure> {
    let operation = "flow search";
    let json = bounded(arguments, operation, async {
        let connection = Connection::patient(arguments, operation)?;
        let mut flows = Vec::new();
        let mut request = SearchFlowsRequest {
            query: search.query.clone(),
            page_size: if search.all { WHOLE_PAGE } else { search.page_size },
            page_token: search.page_token.clone(),
        };
        let spinner = output.spinner("searching".to_owned());
        loop {
            let page = connection
                .call(request.clone(), async |mut flows, request| flows.search_flows(request).await)
                .await?;
            flows.extend(page.flows.iter().map(render::summary));
            request.page_token = page.next_page_token;
            if !search.all || request.page_token.is_empty() {
                break;
            }
            spinner.set_message(format!("searching: {} Flows so far", flows.len()));
        }
        spinner.finish_and_clear();
        Ok(json!({ "flows": flows, "nextPageToken": request.page_token }))
    })
    .await?;
    output.result(&json, render::search_table);
    Ok(())
}

pub(super) async fn summary(
    arguments: &Arguments,
    run: &RunArguments,
    output: &Output,
) -> Result<(), Failure> {
    let operation = "flow summary";
    let json = bounded(arguments, operation, async {
        let connection = Connection::patient(arguments, operation)?;
        describe(&connection, run).await
    })
    .await?;
    output.result(&json, render::summary_table);
    Ok(())
}

async fn describe(connection: &Connection, run: &RunArguments) -> Result<Value, Failure> {
    let request = DescribeFlowRequest { target: target(run) };
    let answer =
        connection.call(request, async |mut flows, request| flows.describe_flow(request).await).await?;
    Ok(render::summary(&answer))
}

pub(super) async fn state(arguments: &Arguments, run: &RunArguments, output: &Output) -> Result<(), Failure> {
    let operation = "flow state";
    let json = bounded(arguments, operation, async {
        let connection = Connection::patient(arguments, operation)?;
        flow_state(&connection, run).await
    })
    .await?;
    output.result(&json, render::state_table);
    Ok(())
}

async fn flow_state(connection: &Connection, run: &RunArguments) -> Result<Value, Failure> {
    let request = GetFlowStateRequest { target: target(run) };
    let answer =
        connection.call(request, async |mut flows, request| flows.get_flow_state(request).await).await?;
    Ok(render::state(&answer))
}

pub(super) async fn history(
    arguments: &Arguments,
    history: &HistoryArguments,
    output: &Output,
) -> Result<(), Failure> {
    let operation = "flow history";
    let first = history.page_token.unwrap_or(history.start_event_id);
    let json = bounded(arguments, operation, async {
        let connection = Connection::patient(arguments, operation)?;
        events(&connection, &history.run, first, history.page_size, history.all).await
    })
    .await?;
    output.result(&json, render::history_table);
    Ok(())
}

async fn events(
    connection: &Connection,
    run: &RunArguments,
    first: u64,
    page_size: u32,
    all: bool,
) -> Result<Value, Failure> {
    let mut events: Vec<HistoryEvent> = Vec::new();
    let mut request = GetFlowHistoryRequest {
        target: target(run),
        start_event: first,
        page_size: if all { WHOLE_PAGE } else { page_size },
    };
    loop {
        let page = connection
            .call(request.clone(), async |mut flows, request| flows.get_flow_history(request).await)
            .await?;
        events.extend(page.events);
        match page.next_event {
            Some(next) if all => request.start_event = next,
            next => {
                return Ok(json!({
                    "events": events.iter().map(render::event).collect::<Vec<_>>(),
                    "nextPageToken": next.map(|next| next.to_string()).unwrap_or_default(),
                    "closed": page.closed,
                }));
            }
        }
    }
}

pub(super) async fn inspect(
    arguments: &Arguments,
    inspect: &InspectArguments,
    output: &Output,
) -> Result<(), Failure> {
    let operation = "flow inspect";
    let json = bounded(arguments, operation, async {
        let connection = Connection::patient(arguments, operation)?;
        let summary = describe(&connection, &inspect.run).await?;
        // All three of one run, even if the Flow ID is started again meanwhile.
        let run = RunArguments {
            flow_id: inspect.run.flow_id.clone(),
            run_id: summary["runId"].as_str().map(str::to_owned),
        };
        let state = flow_state(&connection, &run).await?;
        let history = events(&connection, &run, 1, 100, inspect.all_history).await?;
        Ok(json!({ "summary": summary, "state": state, "history": history }))
    })
    .await?;
    output.result(&json, render::inspect_table);
    Ok(())
}

pub(super) async fn stop(
    arguments: &Arguments,
    stop: &StopArguments,
    output: &Output,
) -> Result<(), Failure> {
    let operation = "flow stop";
    if !stop.yes {
        let message = format!("--yes is missing: this stops run {} of {}", stop.run_id, stop.flow_id);
        return Err(Failure::new(Kind::Usage, operation, message)
            .with_hint("Nothing was sent. Add --yes to stop the run."));
    }
    let (kind, stop_type) = match stop.stop_type {
        StopType::Cancel => (StopKind::Cancel, "cancel"),
        StopType::Terminate => (StopKind::Terminate, "terminate"),
        StopType::Fail => (StopKind::Fail, "fail"),
    };
    let request = StopFlowRequest {
        request_id: request_id(stop.request_id.as_ref()),
        target: Some(Target { flow_id: stop.flow_id.clone(), run_id: Some(stop.run_id.clone()) }),
        kind: kind.into(),
        reason: stop.reason.clone(),
    };
    let request_id = request.request_id.clone();
    bounded(arguments, operation, async {
        let connection = Connection::patient(arguments, operation)?;
        connection.call(request, async |mut flows, request| flows.stop_flow(request).await).await
    })
    .await?;
    let json = json!({
        "flowId": stop.flow_id,
        "runId": stop.run_id,
        "stopType": stop_type,
        "requestId": request_id,
    });
    output.result(&json, render::fields_table);
    Ok(())
}

pub(super) async fn publish(
    arguments: &Arguments,
    publish: &PublishArguments,
    output: &Output,
) -> Result<(), Failure> {
    let operation = "channel publish";
    let channel = Key { name: publish.channel.clone(), instance: publish.instance.clone() };
    let mut publications = Vec::new();
    for argument in &publish.value {
        publications.push(Publication {
            channel: Some(channel.clone()),
            value: Some(value::read(operation, "--value", argument)?),
        });
    }
    let request = PublishToChannelRequest {
        request_id: request_id(publish.request_id.as_ref()),
        target: target(&publish.run),
        publications,
    };
    let request_id = request.request_id.clone();
    let answer = bounded(arguments, operation, async {
        let connection = Connection::patient(arguments, operation)?;
        connection.call(request, async |mut flows, request| flows.publish_to_channel(request).await).await
    })
    .await?;
    let json = json!({
        "flowId": publish.run.flow_id,
        "messageIds": answer.message_ids,
        "requestId": request_id,
    });
    output.result(&json, render::publish_table);
    Ok(())
}

pub(super) async fn skip_timer(
    arguments: &Arguments,
    skip: &SkipArguments,
    output: &Output,
) -> Result<(), Failure> {
    let operation = "timer skip";
    let request = SkipTimerRequest {
        request_id: request_id(skip.request_id.as_ref()),
        target: target(&skip.run),
        timer: Some(timer(operation, skip)?),
    };
    let request_id = request.request_id.clone();
    let answer = bounded(arguments, operation, async {
        let connection = Connection::patient(arguments, operation)?;
        connection.call(request, async |mut flows, request| flows.skip_timer(request).await).await
    })
    .await?;
    let json = json!({
        "flowId": skip.run.flow_id,
        "remembered": answer.remembered,
        "requestId": request_id,
    });
    output.result(&json, render::fields_table);
    Ok(())
}

fn timer(operation: &str, skip: &SkipArguments) -> Result<Timer, Failure> {
    if skip.flow_timeout {
        return Ok(Timer::FlowTimeout(FlowTimeout {}));
    }
    let step = skip.step.as_deref().and_then(step_execution).ok_or_else(|| {
        let given = skip.step.as_deref().unwrap_or_default();
        Failure::new(Kind::Usage, operation, format!("--step: {given:?} is not a Step execution"))
            .with_hint("It is a Step type, a hyphen and a number, as `dexcli flow state` shows it: Payment-1")
    })?;
    let step = Some(step);
    match (&skip.condition_id, skip.index) {
        (Some(condition_id), _) => {
            let condition_id = condition_id.clone();
            Ok(Timer::Condition(ConditionTimer { step, condition_id }))
        }
        (None, Some(index)) => Ok(Timer::Index(IndexTimer { step, index })),
        (None, None) => {
            unreachable!("clap requires one of --condition-id, --index and --flow-timeout")
        }
    }
}

/// `Payment-1`; the Step type may itself contain hyphens.
fn step_execution(text: &str) -> Option<StepExecutionId> {
    let (step_type, number) = text.rsplit_once('-')?;
    let number = number.parse().ok().filter(|number| *number > 0)?;
    (!step_type.is_empty()).then(|| StepExecutionId { step_type: step_type.to_owned(), number })
}
