//! The Worker behind `cargo xtask bench flows`: Flows of three Steps that do nothing, SYNC and ASYNC, and
//! one that waits for ever. It stops on Ctrl+C or SIGTERM.
//!
//! ```text
//! cargo run --release -p dexzd-sdk --example bench_worker -- [slots]
//! ```

use dexzd_sdk::address_from_environment;
use dexzd_sdk::prelude::*;

/// Three Steps, all SYNC.
struct BenchSync;
/// Three Steps, all ASYNC.
struct BenchAsync;
/// Waits for a message that nobody sends.
struct BenchWait;

const NEVER: Channel<()> = Channel::new("never");

/// One Step of a chain, under the Flow's durability.
macro_rules! chain {
    ($flow:ident, $durability:expr, $first:ident, $second:ident, $third:ident) => {
        chain!(@step $first, $durability, Decision::go_to::<$second>(&()));
        chain!(@step $second, $durability, Decision::go_to::<$third>(&()));
        chain!(@step $third, $durability, Decision::complete(&()));

        impl Flow for $flow {
            const TYPE: &'static str = stringify!($flow);
            type Start = $first;
            type Output = ();

            fn define(&self) -> Definition<Self> {
                Definition::starting_with($first).step($second).step($third)
            }
        }
    };
    (@step $step:ident, $durability:expr, $decision:expr) => {
        struct $step;

        impl Step for $step {
            const TYPE: &'static str = stringify!($step);
            type Input = ();

            fn options() -> StepOptions {
                StepOptions::new().durability($durability)
            }

            async fn execute(&self, _: &Context, (): ()) -> StepResult {
                Ok($decision)
            }
        }
    };
}

chain!(BenchSync, Durability::Sync, Sync1, Sync2, Sync3);
chain!(BenchAsync, Durability::Async, Async1, Async2, Async3);

struct WaitForever;

impl WaitingStep for WaitForever {
    const TYPE: &'static str = "WaitForever";
    type Input = ();

    async fn wait_for(&self, _: &Context, (): ()) -> WaitResult {
        Ok(Wait::until(Condition::message(&NEVER)))
    }

    async fn execute(&self, _: &Context, (): (), _: Conditions) -> StepResult {
        Ok(Decision::complete(&()))
    }
}

impl Flow for BenchWait {
    const TYPE: &'static str = "BenchWait";
    type Start = WaitForever;
    type Output = ();

    fn define(&self) -> Definition<Self> {
        Definition::starting_with(WaitForever).channel(&NEVER)
    }
}

// One thread: the three processes of the benchmark share two cores, and the handlers do nothing.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let slots = std::env::args().nth(1).map_or(Ok(1_024), |slots| slots.parse())?;
    let worker = Worker::builder(address_from_environment())
        .flow(BenchSync)
        .flow(BenchAsync)
        .flow(BenchWait)
        .max_concurrent_tasks(slots)
        .build()?;
    worker.run_until(stop_signal()).await?;
    Ok(())
}

async fn stop_signal() {
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
        .expect("a process may listen for SIGTERM");
    tokio::select! {
        _ = terminate.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}
