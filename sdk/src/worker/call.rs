//! One task: runs its handler and turns what comes of it into a frame.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, SystemTime};

use dexzd_proto as proto;
use prost::Message as _;
use proto::worker_frame::{ExecuteDone, Kind, WaitForDone};

use crate::cancel::Cancellation;
use crate::context::Context;
use crate::decision::{self, Decision};
use crate::error::StepError;
use crate::flow::FlowDefinition;
use crate::step::Handler;
use crate::wait::Wait;
use crate::worker::frames::FrameSender;

/// A cancelled handler that has not ended after this time is dropped where it waits: the server has
/// given its slot to somebody else.
const CANCEL_GRACE: Duration = Duration::from_secs(5);

/// A result is at most so large, encoded: what the server takes (8 MiB), less what names the task.
const RESULT_BYTES: usize = (8 << 20) - (16 << 10);

/// One call of one handler.
pub(crate) struct Call {
    pub(crate) task: Box<proto::Task>,
    pub(crate) flow: Arc<FlowDefinition>,
    pub(crate) handler: Arc<dyn Handler>,
    pub(crate) cancellation: Arc<Cancellation>,
    pub(crate) frames: FrameSender,
}

impl Call {
    /// Runs the handler until it ends, its deadline passes, or it is cancelled and does not listen.
    pub(crate) async fn run(self) {
        let Self { task, flow, handler, cancellation, frames } = self;
        let deadline = remaining(task.deadline_unix_ms);
        let context = Context::new(task, flow, cancellation.clone(), frames.clone());
        let outcome = tokio::select! {
            biased;
            // First: a handler that is done at once costs no timer.
            outcome = outcome(&context, &*handler) => Some(outcome),
            () = tokio::time::sleep(deadline) => Some(Err(StepError::new(
                "DeadlineExceeded",
                "the attempt's time was over before the handler returned",
            ))),
            () = abandoned(&cancellation) => None,
        };
        let Some(outcome) = outcome else {
            return;
        };
        if !cancellation.accepts_result() {
            return;
        }
        frames.send(outcome.unwrap_or_else(|error| {
            let task = context.task();
            tracing::warn!(
                flow_id = %task.flow_id,
                step = %context.step_execution_id(),
                attempt = task.attempt,
                %error,
                "an attempt failed"
            );
            Kind::Failed(error.into_frame(task.handout))
        }));
    }
}

async fn outcome(context: &Context, handler: &dyn Handler) -> Result<Kind, StepError> {
    match context.task().method() {
        proto::Method::WaitFor => {
            let wait = catching_panics(handler.wait_for(context)).await?;
            wait_for_done(context, wait)
        }
        proto::Method::Execute => {
            let decision = catching_panics(handler.execute(context)).await?;
            execute_done(context, decision)
        }
        proto::Method::Unspecified => Err(StepError::new(
            "UnknownMethod",
            format_args!(
                "the server asks for method {}, which this library does not know: upgrade it",
                context.task().method
            ),
        )),
    }
}

fn wait_for_done(context: &Context, wait: Wait) -> Result<Kind, StepError> {
    let flow = context.flow();
    for channel in wait.channels() {
        flow.schema.check_channel(flow.flow_type, channel)?;
    }
    let mut effects = context.take_effects();
    if let Some(names) = wait.names() {
        effects.locals.push(names?);
    }
    let done = WaitForDone {
        handout: context.task().handout,
        wait: Some(wait.into_proto()),
        effects: Some(effects),
    };
    check_size(done.encoded_len())?;
    Ok(Kind::WaitForDone(done))
}

fn execute_done(context: &Context, decision: Decision) -> Result<Kind, StepError> {
    let flow = context.flow();
    let decision = decision.into_proto()?;
    if let Some(unknown) =
        decision::step_types(&decision).find(|step_type| !flow.steps.contains_key(step_type))
    {
        return Err(StepError::new(
            "UndeclaredStep",
            format_args!(
                "the decision names the Step {unknown:?}, which the Flow type {:?} does not have: add it to the \
                 Flow's definition with `.step(…)`",
                flow.flow_type
            ),
        ));
    }
    for channel in decision::channels(&decision) {
        flow.schema.check_channel_name(flow.flow_type, &channel.name, channel.instance.is_some())?;
    }
    let done = ExecuteDone {
        handout: context.task().handout,
        decision: Some(decision),
        effects: Some(context.take_effects()),
    };
    check_size(done.encoded_len())?;
    Ok(Kind::ExecuteDone(done))
}

/// A result that is too large fails its own attempt here: on the wire it would end the stream, and with it
/// everybody else's attempts.
fn check_size(bytes: usize) -> Result<(), StepError> {
    if bytes <= RESULT_BYTES {
        return Ok(());
    }
    Err(StepError::new(
        "ResultTooLarge",
        format_args!(
            "what the handler staged and decided is {bytes} bytes, and at most {RESULT_BYTES} travel at once: spread \
             it over several Steps, or store it elsewhere and pass references"
        ),
    ))
}

/// Ends once a handler that was told to stop has had time to.
async fn abandoned(cancellation: &Cancellation) {
    cancellation.forced().await;
    tokio::time::sleep(CANCEL_GRACE).await;
}

/// By this machine's clock; the server's own deadline decides.
fn remaining(deadline_unix_ms: i64) -> Duration {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Duration::from_millis(u64::try_from(deadline_unix_ms).unwrap_or(0)).saturating_sub(now)
}

/// A panic in a handler is a failure of the attempt, and of nothing else.
async fn catching_panics<T>(
    mut future: Pin<Box<dyn Future<Output = Result<T, StepError>> + Send + '_>>,
) -> Result<T, StepError> {
    std::future::poll_fn(|cx| {
        let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx)));
        polled
            .unwrap_or_else(|payload: Box<dyn Any + Send>| Poll::Ready(Err(StepError::from_panic(&*payload))))
    })
    .await
}
