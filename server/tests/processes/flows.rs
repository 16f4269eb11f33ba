//! The Flows that the tests run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use dexzd_sdk::prelude::*;

/// Comes from a client.
pub(crate) const WORD: Channel<String> = Channel::new("word");
/// Set by the first Step.
pub(crate) const SEEN: Attribute<String> = Attribute::new("seen");

/// Takes a text, waits for a word, completes with both.
pub(crate) struct Relay;

impl Flow for Relay {
    const TYPE: &'static str = "Relay";
    type Start = Take;
    type Output = String;

    fn define(&self) -> Definition<Self> {
        Definition::starting_with(Take).step(Listen).step(Tell).attribute(&SEEN).channel(&WORD)
    }
}

pub(crate) struct Take;

impl Step for Take {
    const TYPE: &'static str = "Take";
    type Input = String;

    async fn execute(&self, ctx: &Context, text: String) -> StepResult {
        ctx.set(&SEEN, &text)?;
        Ok(Decision::go_to::<Listen>(&text))
    }
}

pub(crate) struct Listen;

impl WaitingStep for Listen {
    const TYPE: &'static str = "Listen";
    type Input = String;

    async fn wait_for(&self, _: &Context, _: String) -> WaitResult {
        Ok(Wait::until(Condition::message(&WORD)))
    }

    async fn execute(&self, _: &Context, text: String, conditions: Conditions) -> StepResult {
        let word = conditions.message(&WORD)?.unwrap_or_default();
        Ok(Decision::go_to::<Tell>(&format!("{text} {word}")))
    }
}

pub(crate) struct Tell;

impl Step for Tell {
    const TYPE: &'static str = "Tell";
    type Input = String;

    async fn execute(&self, _: &Context, text: String) -> StepResult {
        Ok(Decision::complete(&text))
    }
}

/// One Step that takes its time and counts how often it was begun.
pub(crate) struct Slow {
    pub(crate) takes: Duration,
    pub(crate) begun: Arc<AtomicU32>,
}

impl Flow for Slow {
    const TYPE: &'static str = "Slow";
    type Start = Work;
    type Output = u32;

    fn define(&self) -> Definition<Self> {
        Definition::starting_with(Work { takes: self.takes, begun: Arc::clone(&self.begun) })
    }
}

pub(crate) struct Work {
    takes: Duration,
    begun: Arc<AtomicU32>,
}

impl Step for Work {
    const TYPE: &'static str = "Work";
    type Input = ();

    async fn execute(&self, ctx: &Context, (): ()) -> StepResult {
        self.begun.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(self.takes).await;
        Ok(Decision::complete(&ctx.attempt()))
    }
}

/// A Worker of these Flows, until it is aborted.
pub(crate) fn relay_worker(api: &str) -> tokio::task::JoinHandle<()> {
    let worker = Worker::builder(api).flow(Relay).max_concurrent_tasks(32).build().expect("sound Flows");
    tokio::spawn(async move { worker.run().await.expect("a Worker reconnects") })
}
