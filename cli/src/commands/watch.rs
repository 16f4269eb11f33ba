//! `flow watch`: each event as it happens.

use std::time::{Duration, Instant};

use dexzd_proto::{DescribeFlowRequest, GetFlowHistoryRequest, Target, WaitForHistoryEventRequest};
use tonic::Status;

use super::flow::target;
use super::start::is_still_running;
use crate::args::{Arguments, WatchArguments};
use crate::connection::{Connection, within};
use crate::duration::milliseconds;
use crate::failure::Failure;
use crate::output::Output;
use crate::render;

/// How long one call waits for the next event: below what proxies usually cut off.
const WAIT_PER_CALL: Duration = Duration::from_secs(20);

/// How long a server may be away before the watch gives up: longer than a takeover at the largest
/// recommended lease of 60 s.
const PATIENCE: Duration = Duration::from_secs(120);

const RETRY_INTERVAL: Duration = Duration::from_millis(500);

const OPERATION: &str = "flow watch";

pub(super) async fn watch(
    arguments: &Arguments,
    watch: &WatchArguments,
    output: &Output,
) -> Result<(), Failure> {
    within(arguments, OPERATION, Duration::ZERO, async {
        let connection = Connection::waiting(arguments, OPERATION)?;
        let request = DescribeFlowRequest { target: target(&watch.run) };
        let summary =
            connection.call(request, async |mut flows, request| flows.describe_flow(request).await).await?;
        // From here on one run is watched, whatever the Flow ID is used for next.
        let run = Target { flow_id: summary.flow_id, run_id: Some(summary.run_id) };
        let mut watcher = Watcher { connection, output, run, next: watch.from_event_id, away_since: None };
        while watcher.print_what_there_is().await? == Position::Open {
            watcher.wait_for_more().await?;
        }
        Ok(())
    })
    .await
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    Open,
    Closed,
}

struct Watcher<'a> {
    connection: Connection,
    output: &'a Output,
    run: Target,
    next: u64,
    away_since: Option<Instant>,
}

impl Watcher<'_> {
    /// Prints all events that exist, and says whether more can come.
    async fn print_what_there_is(&mut self) -> Result<Position, Failure> {
        loop {
            let request = GetFlowHistoryRequest {
                target: Some(self.run.clone()),
                start_event: self.next,
                page_size: 0,
            };
            let page = match self.connection.flows().get_flow_history(request).await {
                Ok(answer) => answer.into_inner(),
                Err(status) => {
                    self.bear_with(&status).await?;
                    continue;
                }
            };
            self.away_since = None;
            for event in &page.events {
                self.output.line(&render::event(event));
                self.next = event.number + 1;
            }
            if page.next_event.is_none() {
                return Ok(if page.closed { Position::Closed } else { Position::Open });
            }
        }
    }

    async fn wait_for_more(&mut self) -> Result<(), Failure> {
        let request = WaitForHistoryEventRequest {
            target: Some(self.run.clone()),
            event: self.next,
            wait_ms: Some(milliseconds(WAIT_PER_CALL)),
        };
        match self.connection.flows().wait_for_history_event(request).await {
            Ok(_) => Ok(()),
            Err(status) if is_still_running(&status) => Ok(()),
            Err(status) => self.bear_with(&status).await,
        }
    }

    /// A server that restarts or is taken over comes back; every other error ends the watch.
    async fn bear_with(&mut self, status: &Status) -> Result<(), Failure> {
        if !self.connection.is_worth_repeating(status) {
            return Err(self.connection.failure(status));
        }
        let away_since = *self.away_since.get_or_insert_with(|| {
            self.output.remark("the server is away; waiting for it to come back");
            Instant::now()
        });
        if away_since.elapsed() > PATIENCE {
            return Err(self.connection.failure(status));
        }
        tokio::time::sleep(RETRY_INTERVAL).await;
        Ok(())
    }
}
