//! Flows of Steps that do nothing, SYNC and ASYNC, three or as many as one likes, and one that waits for ever.

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

/// So many Steps as its input says, all SYNC.
pub(crate) struct BenchSyncChain;
/// So many Steps as its input says, all ASYNC.
pub(crate) struct BenchAsyncChain;

/// One Step that goes on to itself until it was run as often as it was told.
macro_rules! countdown {
    ($flow:ident, $step:ident, $durability:expr) => {
        pub(crate) struct $step;

        impl Step for $step {
            const TYPE: &'static str = stringify!($step);
            type Input = u32;

            fn options() -> StepOptions {
                StepOptions::new().durability($durability)
            }

            async fn execute(&self, _: &Context, left: u32) -> StepResult {
                Ok(match left {
                    0 | 1 => Decision::complete(&()),
                    more => Decision::go_to::<$step>(&(more - 1)),
                })
            }
        }

        impl Flow for $flow {
            const TYPE: &'static str = stringify!($flow);
            type Start = $step;
            type Output = ();

            fn define(&self) -> Definition<Self> {
                Definition::starting_with($step)
            }
        }
    };
}

countdown!(BenchSyncChain, SyncHop, Durability::Sync);
countdown!(BenchAsyncChain, AsyncHop, Durability::Async);

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
