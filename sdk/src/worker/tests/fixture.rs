//! A Flow type `Test` with one Step `Work`, whose body each test writes.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use dexzd_connection::Link;
use dexzd_proto as proto;
use tokio::task::JoinHandle;

use crate::prelude::*;
use crate::testing::FakeServer;
use crate::worker::Registry;

pub(crate) const STATUS: Attribute<String> = Attribute::new("status");
pub(crate) const SCORES: AttributeMap<u32> = AttributeMap::new("scores");
pub(crate) const INBOX: Channel<String> = Channel::new("inbox");
pub(crate) const VOTES: ChannelMap<u32> = ChannelMap::new("votes");

/// Not part of the Flow's definition.
pub(crate) const UNDECLARED_ATTRIBUTE: Attribute<String> = Attribute::new("colour");
pub(crate) const UNDECLARED_CHANNEL: Channel<String> = Channel::new("outbox");

type Body<T> = Arc<dyn for<'a> Fn(&'a Context) -> Pin<Box<dyn Future<Output = T> + Send + 'a>> + Send + Sync>;

pub(crate) struct Work {
    pub(crate) body: Body<StepResult>,
}

impl Step for Work {
    const TYPE: &'static str = "Work";
    type Input = Option<String>;

    fn options() -> StepOptions {
        StepOptions::new().execute(MethodOptions::new().load_map(&SCORES).load_messages(&INBOX))
    }

    async fn execute(&self, ctx: &Context, _: Option<String>) -> StepResult {
        (self.body)(ctx).await
    }
}

pub(crate) struct Pause {
    pub(crate) wait: Body<WaitResult>,
}

impl WaitingStep for Pause {
    const TYPE: &'static str = "Pause";
    type Input = ();

    async fn wait_for(&self, ctx: &Context, (): ()) -> WaitResult {
        (self.wait)(ctx).await
    }

    async fn execute(&self, ctx: &Context, (): (), conditions: Conditions) -> StepResult {
        let seen = (
            conditions.timer_fired(),
            conditions.fired("late"),
            conditions.messages(&INBOX)?,
            conditions.message(&VOTES.at("ada"))?,
            ctx.local::<u32>("kept")?,
        );
        Ok(Decision::complete(&seen))
    }
}

/// A Step that is not part of the Flow's definition.
pub(crate) struct Stranger;

impl Step for Stranger {
    const TYPE: &'static str = "Stranger";
    type Input = ();

    async fn execute(&self, _: &Context, (): ()) -> StepResult {
        Ok(Decision::dead_end())
    }
}

pub(crate) struct Test {
    body: Body<StepResult>,
    wait: Body<WaitResult>,
}

impl Flow for Test {
    const TYPE: &'static str = "Test";
    type Start = Work;
    type Output = ();

    fn define(&self) -> Definition<Self> {
        Definition::starting_with(Work { body: self.body.clone() })
            .step(Pause { wait: self.wait.clone() })
            .attribute(&STATUS)
            .attribute_map(&SCORES)
            .channel(&INBOX)
            .channel_map(&VOTES)
    }
}

/// `Work` does this.
pub(crate) fn working(
    body: impl for<'a> Fn(&'a Context) -> Pin<Box<dyn Future<Output = StepResult> + Send + 'a>>
    + Send
    + Sync
    + 'static,
) -> Test {
    Test { body: Arc::new(body), wait: Arc::new(|_| Box::pin(std::future::ready(Ok(Wait::skip())))) }
}

/// `Pause` waits for this.
pub(crate) fn pausing(
    wait: impl for<'a> Fn(&'a Context) -> Pin<Box<dyn Future<Output = WaitResult> + Send + 'a>>
    + Send
    + Sync
    + 'static,
) -> Test {
    Test { body: Arc::new(|_| Box::pin(std::future::ready(Ok(Decision::dead_end())))), wait: Arc::new(wait) }
}

/// A Worker of this Flow, for this server.
pub(crate) fn worker(server: &FakeServer, flow: Test) -> Worker {
    worker_at(server.link.clone(), flow)
}

pub(crate) fn worker_at<F: Flow>(link: Link, flow: F) -> Worker {
    let definition = flow.define().finish().expect("the test's definition is sound");
    Worker {
        address: link.address(),
        link,
        registry: Arc::new(Registry { flows: [("Test", Arc::new(definition))].into() }),
        identity: "test".to_owned(),
        slots: 10,
        drain_timeout: crate::DRAIN_TIMEOUT,
        protocol_versions: proto::PROTOCOL_VERSIONS,
    }
}

/// Runs a Worker; sending on the channel stops it.
pub(crate) fn run(worker: Worker) -> (tokio::sync::oneshot::Sender<()>, JoinHandle<Result<(), WorkerError>>) {
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let run = worker.run_until(async {
        let _ = stopped.await;
    });
    (stop, tokio::spawn(run))
}
