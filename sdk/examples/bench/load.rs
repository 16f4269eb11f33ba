//! What the client does.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use dexzd_sdk::prelude::*;
use dexzd_sdk::{FlowStatus, Input, address_from_environment, proto};
use serde_json::{Value, json};
use tokio::task::{JoinSet, LocalSet};

use crate::Error;
use crate::flows::{BenchSync, BenchWait};

/// Flows that are not measured: connections open, code is paged in, the first files are written.
const WARM_UP: usize = 200;

/// As much for chains, each of which takes longer.
const CHAIN_WARM_UP: usize = 3;

/// A result that takes longer than this is an error: five takeovers of a lease of 10 s.
const LOAD_RESULT_LIMIT: Duration = Duration::from_secs(60);

/// So many errors are told in words.
const TOLD_ERRORS: usize = 5;

/// How many starts are under way at once while waiting Flows are made.
const STARTERS: u32 = 256;

/// How often the last Flows are looked at until they wait.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// How many of the last Flows are looked at: more than a Worker has at once.
const LOOKED_AT: u32 = 2_048;

/// A server that does not answer a probe so quickly is asked again.
const PROBE_TIMEOUT: Duration = Duration::from_millis(250);

/// Starts one Flow after the other and waits for each; measures from the start to the result.
pub(crate) async fn latency<F>(count: usize) -> Result<Value, Error>
where
    F: Flow<Output = ()>,
    F::Start: Step<Input = ()>,
{
    one_by_one::<F>(&(), WARM_UP, count).await
}

/// The same with Flows that are told how many Steps to have.
pub(crate) async fn chain<F>(steps: u32, count: usize) -> Result<Value, Error>
where
    F: Flow<Output = ()>,
    F::Start: Step<Input = u32>,
{
    one_by_one::<F>(&steps, CHAIN_WARM_UP, count).await
}

async fn one_by_one<F>(input: &Input<F>, warm_up: usize, count: usize) -> Result<Value, Error>
where
    F: Flow<Output = ()>,
{
    let client = Client::connect(address_from_environment()).await?;
    let run = uuid();
    let mut times = Vec::with_capacity(count);
    for number in 0..warm_up + count {
        let start = Instant::now();
        run_one::<F>(&client, format!("{run}-{number}"), input).await?;
        if number >= warm_up {
            times.push(start.elapsed());
        }
    }
    times.sort_unstable();
    Ok(json!({ "p50Ms": percentile_ms(&times, 50), "p99Ms": percentile_ms(&times, 99) }))
}

/// So many clients, each starting one Flow after the other on a connection of its own, for so long.
pub(crate) async fn throughput(clients: usize, seconds: u64) -> Result<Value, Error> {
    let warm_up = Duration::from_secs(2);
    let measured = Duration::from_secs(seconds);
    let run = uuid();
    let begin = Instant::now();
    let mut running = JoinSet::new();
    for number in 0..clients {
        let client = Client::connect(address_from_environment()).await?;
        let prefix = format!("{run}-{number}");
        running.spawn(async move {
            let mut times = Vec::new();
            for count in 0_u64.. {
                let start = Instant::now();
                run_one::<BenchSync>(&client, format!("{prefix}-{count}"), &()).await?;
                let since_begin = begin.elapsed();
                if since_begin > warm_up + measured {
                    break;
                }
                if since_begin > warm_up {
                    times.push(start.elapsed());
                }
            }
            Ok::<_, Error>(times)
        });
    }
    let mut times = Vec::new();
    while let Some(result) = running.join_next().await {
        times.extend(result??);
    }
    times.sort_unstable();
    let flows_per_second = times.len() as f64 / measured.as_secs_f64();
    Ok(json!({
        "flowsPerSecond": flows_per_second,
        "p50Ms": percentile_ms(&times, 50),
        "p99Ms": percentile_ms(&times, 99),
    }))
}

async fn run_one<F>(client: &Client, flow_id: String, input: &Input<F>) -> Result<(), ClientError>
where
    F: Flow<Output = ()>,
{
    client.start::<F>(flow_id.clone(), input).await?;
    client.result::<F>(flow_id).await
}

/// So many clients, each starting one Flow after the other, until `stop`; counts what they are told that is no
/// result. A Flow takes as long as it takes, so whatever is no answer within the deadlines shows.
pub(crate) async fn load(clients: usize, stop: impl Future<Output = ()>) -> Result<Value, Error> {
    let tally = Rc::new(RefCell::new(Tally::default()));
    let stops = Rc::new(Cell::new(false));
    let local = LocalSet::new();
    let run = uuid();
    let mut running = Vec::new();
    for number in 0..clients {
        let client = Client::connect(address_from_environment()).await?.waiting_at_most(LOAD_RESULT_LIMIT);
        let (tally, stops, prefix) = (Rc::clone(&tally), Rc::clone(&stops), format!("{run}-{number}"));
        running.push(local.spawn_local(async move {
            for count in 0_u64.. {
                if stops.get() {
                    return;
                }
                let start = Instant::now();
                let result = run_one::<BenchSync>(&client, format!("{prefix}-{count}"), &()).await;
                tally.borrow_mut().count(&result, start.elapsed());
            }
        }));
    }
    let all = async {
        stop.await;
        stops.set(true);
        for client in running {
            client.await?;
        }
        Ok::<_, Error>(())
    };
    local.run_until(all).await?;
    let tally = tally.take();
    Ok(json!({
        "flows": tally.flows,
        "errors": tally.errors,
        "firstErrors": tally.first_errors,
        "slowestMs": tally.slowest.as_secs_f64() * 1_000.0,
    }))
}

#[derive(Default)]
struct Tally {
    flows: u64,
    errors: u64,
    first_errors: Vec<String>,
    slowest: Duration,
}

impl Tally {
    fn count(&mut self, result: &Result<(), ClientError>, took: Duration) {
        self.slowest = self.slowest.max(took);
        match result {
            Ok(()) => self.flows += 1,
            Err(error) => {
                self.errors += 1;
                if self.first_errors.len() < TOLD_ERRORS {
                    self.first_errors.push(error.to_string());
                }
            }
        }
    }
}

/// Starts the Flows `wait-FROM` to `wait-TO` and returns when the last of them wait.
pub(crate) async fn wait(from: u32, to: u32) -> Result<Value, Error> {
    let begin = Instant::now();
    let client = Client::connect(address_from_environment()).await?;
    let mut starters = JoinSet::new();
    for starter in 0..STARTERS {
        let client = client.clone();
        starters.spawn(async move {
            for number in (from..=to).skip(starter as usize).step_by(STARTERS as usize) {
                client.start::<BenchWait>(flow_id(number), &()).await?;
            }
            Ok::<_, Error>(())
        });
    }
    while let Some(result) = starters.join_next().await {
        result??;
    }
    let started = begin.elapsed();
    for number in to.saturating_sub(LOOKED_AT).max(from)..=to {
        while !waits(&client.state(flow_id(number)).await?) {
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }
    Ok(json!({ "startedSeconds": started.as_secs_f64(), "seconds": begin.elapsed().as_secs_f64() }))
}

fn flow_id(number: u32) -> String {
    format!("wait-{number}")
}

fn waits(state: &proto::FlowState) -> bool {
    state.steps.iter().any(|step| step.phase() == proto::StepPhase::Waiting)
}

/// Asks for a Flow until it is answered.
pub(crate) async fn first_call(flow_id: &str) -> Result<Value, Error> {
    loop {
        // A new connection for each try: the back-off of one that was refused is not what is measured.
        let client = Client::new(address_from_environment())?.with_deadline(PROBE_TIMEOUT);
        if let Ok(summary) = client.describe(flow_id).await {
            return Ok(json!({ "answered": summary.status == FlowStatus::Running }));
        }
    }
}

/// The time below which so many of a hundred lie.
fn percentile_ms(sorted: &[Duration], percent: usize) -> Option<f64> {
    let index = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(index).map(|time| time.as_secs_f64() * 1_000.0)
}

/// Keeps the Flow IDs of two runs apart.
fn uuid() -> String {
    let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    format!("bench-{}", since_1970.map_or(0, |time| time.as_nanos()))
}
