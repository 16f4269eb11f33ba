//! What is refused before anything runs.

use std::time::Duration;

use super::fixture::*;
use crate::prelude::*;
use crate::step::{NoStart, TimeoutHandler};

struct Plain;

impl Step for Plain {
    const TYPE: &'static str = "Plain";
    type Input = u32;

    async fn execute(&self, _: &Context, _: u32) -> StepResult {
        Ok(Decision::dead_end())
    }
}

/// Recovers with a Step whose input has another type.
struct Careless;

impl Step for Careless {
    const TYPE: &'static str = "Careless";
    type Input = String;

    fn options() -> StepOptions {
        StepOptions::new().recover_with::<Plain>()
    }

    async fn execute(&self, _: &Context, _: String) -> StepResult {
        Ok(Decision::dead_end())
    }
}

/// Recovers with itself.
struct Circular;

impl Step for Circular {
    const TYPE: &'static str = "Circular";
    type Input = u32;

    fn options() -> StepOptions {
        StepOptions::new().recover_with::<Circular>()
    }

    async fn execute(&self, _: &Context, _: u32) -> StepResult {
        Ok(Decision::dead_end())
    }
}

struct Handler;

impl TimeoutHandler for Handler {
    async fn handle(&self, _: &Context) -> StepResult {
        Ok(Decision::dead_end())
    }
}

/// A Flow type whose definition is made by a function.
macro_rules! flow {
    ($name:ident, $start:ty, $define:expr) => {
        struct $name;
        impl Flow for $name {
            const TYPE: &'static str = stringify!($name);
            type Start = $start;
            type Output = ();
            fn define(&self) -> Definition<Self> {
                $define
            }
        }
    };
}

flow!(StepTwice, Plain, Definition::starting_with(Plain).step(Plain));
flow!(ChannelTwice, Plain, Definition::starting_with(Plain).channel(&INBOX).channel(&INBOX));
flow!(NoStartStep, Plain, Definition::idle());
flow!(Idle, NoStart, Definition::idle().step(Plain));
flow!(HiddenHandler, Plain, Definition::starting_with(Plain).timeout_handler(Handler));
flow!(RecoveryMissing, Careless, Definition::starting_with(Careless));
flow!(RecoveryInput, Careless, Definition::starting_with(Careless).step(Plain));
flow!(RecoveryCycle, Circular, Definition::starting_with(Circular));

fn refusal(flow: impl Flow) -> String {
    let built = Worker::builder("localhost:1").flow(flow).build();
    built.expect_err("the definition is refused").to_string()
}

#[test]
fn a_definition_that_cannot_work_is_refused_with_its_reason() {
    let cannot =
        |flow: &str, why: &str| format!("the definition of the Flow type {flow:?} cannot work: {why}");
    assert_eq!(refusal(StepTwice), cannot("StepTwice", "the Step \"Plain\" is declared twice"));
    assert_eq!(refusal(ChannelTwice), cannot("ChannelTwice", "the Channel \"inbox\" is declared twice"));
    assert_eq!(
        refusal(NoStartStep),
        cannot(
            "NoStartStep",
            "its start Step \"Plain\" is not among its Steps: use Definition::starting_with"
        )
    );
    assert_eq!(
        refusal(HiddenHandler),
        cannot(
            "HiddenHandler",
            "HAS_TIMEOUT_HANDLER is false, and the definition says otherwise: set the constant and call \
             timeout_handler, or neither"
        )
    );
    assert_eq!(
        refusal(RecoveryMissing),
        cannot(
            "RecoveryMissing",
            "the Step \"Careless\" recovers with \"Plain\", which is not among the Steps"
        )
    );
    assert_eq!(
        refusal(RecoveryInput),
        cannot(
            "RecoveryInput",
            "the Step \"Careless\" recovers with \"Plain\", whose input has another type"
        )
    );
    assert_eq!(
        refusal(RecoveryCycle),
        cannot(
            "RecoveryCycle",
            "the recovery Steps of \"Circular\" lead to more than 8 others, or in a circle"
        )
    );
}

#[test]
fn a_flow_without_a_start_step_is_a_flow() {
    assert!(Worker::builder("localhost:1").flow(Idle).build().is_ok());
}

#[test]
fn a_worker_that_cannot_work_is_refused_with_its_reason() {
    let refusal = |builder: crate::WorkerBuilder| builder.build().expect_err("refused").to_string();
    assert_eq!(
        refusal(Worker::builder("localhost").flow(Idle)),
        "\"localhost\" is no server address: write host:port, for example 127.0.0.1:8801"
    );
    assert_eq!(
        refusal(Worker::builder("localhost:1")),
        "the Worker has no Flow type: add one with `.flow(…)`"
    );
    assert_eq!(
        refusal(Worker::builder("localhost:1").flow(Idle).max_concurrent_tasks(0)),
        "max_concurrent_tasks is 0: it must be between 1 and 10,000"
    );
    assert_eq!(
        refusal(Worker::builder("localhost:1").flow(Idle).flow(Idle)),
        "the definition of the Flow type \"Idle\" cannot work: the Flow type \"Idle\" is declared twice"
    );
}

#[test]
fn a_workers_identity_is_its_process_and_8_base32_characters() {
    let worker = Worker::builder("localhost:1").flow(Idle).identity("pod-7").build().unwrap();
    let random = worker.identity().strip_prefix("pod-7-").expect("begins with the process");
    assert_eq!(random.len(), 8);
    assert!(random.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'2'..=b'7')));
}

#[test]
fn a_movement_overrides_options_field_by_field() {
    let base = StepOptions::new()
        .timeout(Duration::from_secs(5))
        .durability(Durability::Async)
        .heartbeat_timeout(Duration::from_secs(9));
    let over = StepOptions::new().timeout(Duration::from_secs(7)).retry(RetryPolicy::never());
    let expected = StepOptions::new()
        .timeout(Duration::from_secs(7))
        .durability(Durability::Async)
        .heartbeat_timeout(Duration::from_secs(9))
        .retry(RetryPolicy::never());
    assert_eq!(base.overridden_by(over), expected);
}
