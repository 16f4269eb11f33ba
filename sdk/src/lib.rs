//! Rust SDK of dex-server-zd: write Flows and Steps, run Workers, call the server.
//!
//! A **Flow** is a durable process made of **Steps**. Each Step does some work and decides which Steps come
//! next; the server keeps everything in between, so that a crash of anything repeats only what was running.
//! A **Worker** runs the Steps; a **Client** starts Flows and talks to them.
//!
//! ```no_run
//! use dexzd_sdk::prelude::*;
//!
//! struct Greet;
//!
//! impl Step for Greet {
//!     const TYPE: &'static str = "Greet";
//!     type Input = String;
//!
//!     async fn execute(&self, _: &Context, name: String) -> StepResult {
//!         Ok(Decision::complete(&format!("Hello, {name}!")))
//!     }
//! }
//!
//! struct Greeting;
//!
//! impl Flow for Greeting {
//!     const TYPE: &'static str = "Greeting";
//!     type Start = Greet;
//!     type Output = String;
//!
//!     fn define(&self) -> Definition<Self> {
//!         Definition::starting_with(Greet)
//!     }
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let worker = Worker::builder("127.0.0.1:8801").flow(Greeting).build()?;
//!     tokio::spawn(worker.run());
//!
//!     let client = Client::connect("127.0.0.1:8801").await?;
//!     client.start::<Greeting>("greeting-1", &"Ada".to_owned()).await?;
//!     println!("{}", client.result::<Greeting>("greeting-1").await?);
//!     Ok(())
//! }
//! ```
//!
//! Start with [`Step`], [`WaitingStep`] and [`Flow`]; [`Context`] is what a handler can do, [`Decision`] how
//! it ends.

mod address;
mod cancel;
mod client;
mod context;
mod decision;
mod error;
mod flow;
mod options;
mod schema;
mod step;
mod value;
mod wait;
mod worker;

#[cfg(test)]
mod testing;

/// The code of the page for newcomers, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../docs/first-flow.md")]
struct FirstFlowPage;

#[cfg(test)]
mod docs_tests {
    /// The page shows the program that it tells people to run.
    #[test]
    fn the_first_flow_page_shows_the_example() {
        let page = include_str!("../../docs/first-flow.md");
        let example = include_str!("../examples/first_flow.rs");
        let program = example.split_once("use std::time").expect("the program follows the head").1;
        let (flow, process) = program.split_once("#[tokio::main]").expect("the process follows the Flow");
        assert!(page.contains(flow.trim_end()), "docs/first-flow.md shows another Flow");
        assert!(page.contains(process.trim_end()), "docs/first-flow.md shows another process");
    }
}

pub use address::ProtocolError;
pub use cancel::CancelReason;
pub use client::{
    ActiveStepSearch, CALL_DEADLINE, Client, ClientBuilder, ClientError, ErrorCategory, FlowError,
    FlowOutput, FlowResult, FlowStatus, FlowSummary, FlowTarget, IdReusePolicy, SkipTimer, StartOptions,
    Stop, TimeoutPolicy,
};
pub use context::{AttemptProgress, Context, Message, RecoveryInfo, StepExecutionId};
pub use decision::{ChannelList, Decision, Movement};
pub use error::StepError;
pub use flow::{Definition, DefinitionError, Flow, Input};
pub use options::{Durability, MethodOptions, RetryPolicy, StepOptions};
pub use schema::{Attribute, AttributeMap, Channel, ChannelMap, UndeclaredError};
pub use step::{NoStart, Step, StepResult, TimeoutHandler, WaitResult, WaitingStep};
pub use value::{JSON, VALUE_BYTES, ValueError, decode, encode};
pub use wait::{Condition, Conditions, Wait};
pub use worker::{DRAIN_TIMEOUT, SILENCE_LIMIT, Worker, WorkerBuilder, WorkerError};

pub use dexzd_connection::{
    ADDRESS_VARIABLE, AddressError, CredentialError, DEFAULT_ADDRESS, KEEP_ALIVE_INTERVAL,
    KEEP_ALIVE_TIMEOUT, Target, TargetError, TlsOptions, address_from_environment,
};

/// The wire's own vocabulary, for what this library hands out as it came.
pub use dexzd_proto as proto;

/// Everything a Flow needs.
pub mod prelude {
    pub use crate::{
        Attribute, AttributeMap, Channel, ChannelMap, Client, ClientError, Condition, Conditions, Context,
        Decision, Definition, Durability, Flow, MethodOptions, Movement, RetryPolicy, StartOptions, Step,
        StepError, StepOptions, StepResult, TimeoutHandler, TlsOptions, Wait, WaitResult, WaitingStep,
        Worker, WorkerError,
    };
}
