//! Flows of three Steps that do nothing, SYNC and ASYNC, and one that waits for ever.

use dexzd_sdk::prelude::*;

/// Three Steps, all SYNC.
pub(crate) struct BenchSync;
/// Three Steps, all ASYNC.
pub(crate) struct BenchAsync;
/// Waits for a message that nobody sends.
pub(crate) struct BenchWait;

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
        pub(crate) struct $step;

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

pub(crate) struct WaitForever;

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
