//! The Worker and the client behind `cargo xtask bench flows`, `failover` and `store`. Each is a process of its own;
//! the client prints one JSON object and ends.
//!
//! ```text
//! bench worker [SLOTS]              runs Steps until Ctrl+C or SIGTERM
//! bench latency FLOW COUNT          one client, one Flow after the other: p50Ms, p99Ms
//! bench chain FLOW STEPS COUNT      the same, with Flows of so many Steps
//! bench throughput CLIENTS SECONDS  so many clients at once: flowsPerSecond, p50Ms
//! bench wait FROM TO                starts Flows FROM to TO, which wait for ever, until all do: seconds
//! bench first-call FLOW_ID          asks until the server answers: answered
//! bench load CLIENTS                Flows, until Ctrl+C or SIGTERM: flows, errors, firstErrors, slowestMs
//! ```

mod flows;
mod load;

use dexzd_sdk::address_from_environment;
use dexzd_sdk::prelude::*;

use self::flows::{BenchAsync, BenchAsyncChain, BenchSync, BenchSyncChain, BenchWait};

pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;

// One thread: the three processes of the benchmark share two cores.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_max_level(tracing::Level::WARN).init();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match arguments.as_slice() {
        ["worker"] => return work(1_024).await,
        ["worker", slots] => return work(slots.parse()?).await,
        ["latency", "sync", count] => load::latency::<BenchSync>(count.parse()?).await?,
        ["latency", "async", count] => load::latency::<BenchAsync>(count.parse()?).await?,
        ["chain", "sync", steps, count] => {
            load::chain::<BenchSyncChain>(steps.parse()?, count.parse()?).await?
        }
        ["chain", "async", steps, count] => {
            load::chain::<BenchAsyncChain>(steps.parse()?, count.parse()?).await?
        }
        ["load", clients] => load::load(clients.parse()?, stop_signal()).await?,
        ["throughput", clients, seconds] => load::throughput(clients.parse()?, seconds.parse()?).await?,
        ["wait", from, to] => load::wait(from.parse()?, to.parse()?).await?,
        ["first-call", flow_id] => load::first_call(flow_id).await?,
        _ => return Err("see the head of sdk/examples/bench/main.rs".into()),
    };
    println!("{result}");
    Ok(())
}

async fn work(slots: u32) -> Result<(), Error> {
    let worker = Worker::builder(address_from_environment())
        .flow(BenchSync)
        .flow(BenchAsync)
        .flow(BenchWait)
        .flow(BenchSyncChain)
        .flow(BenchAsyncChain)
        .max_concurrent_tasks(slots)
        .build()?;
    worker.run_until(stop_signal()).await?;
    Ok(())
}

async fn stop_signal() {
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
        .expect("a process may listen for SIGTERM");
    tokio::select! {
        biased;
        _ = terminate.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}
