//! Steps: the units of work of a Flow.

use std::future::Future;
use std::pin::Pin;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::context::Context;
use crate::decision::Decision;
use crate::error::StepError;
use crate::options::StepOptions;
use crate::value;
use crate::wait::{Conditions, Wait};

/// What Execute returns.
pub type StepResult = Result<Decision, StepError>;
/// What WaitFor returns.
pub type WaitResult = Result<Wait, StepError>;

/// A Step that runs as soon as it is scheduled. One that waits for timers or messages first is a
/// [`WaitingStep`].
///
/// A Step is a value, so it can hold what it works with: a database pool, an HTTP client. It serves many
/// calls at once.
///
/// ```
/// use dexzd_sdk::prelude::*;
///
/// struct Charge;
/// struct Ship;
/// # impl Step for Ship {
/// #     const TYPE: &'static str = "Ship";
/// #     type Input = String;
/// #     async fn execute(&self, _: &Context, _: String) -> StepResult { Ok(Decision::dead_end()) }
/// # }
///
/// impl Step for Charge {
///     const TYPE: &'static str = "Charge";
///     type Input = String;
///
///     async fn execute(&self, ctx: &Context, order: String) -> StepResult {
///         println!("charging {order} under the key {}", ctx.idempotency_key());
///         Ok(Decision::go_to::<Ship>(&order))
///     }
/// }
/// ```
pub trait Step: Send + Sync + 'static {
    /// The Step type: its name on the server. Keep it until no open Flow can reach it any more.
    const TYPE: &'static str;
    /// Given unchanged to every attempt, and to the recovery Step.
    type Input: Serialize + DeserializeOwned + Send + 'static;

    /// The options every movement to this Step carries unless it overrides them.
    fn options() -> StepOptions
    where
        Self: Sized,
    {
        StepOptions::new()
    }

    /// Does the work and decides what happens next.
    fn execute(&self, ctx: &Context, input: Self::Input) -> impl Future<Output = StepResult> + Send;

    #[doc(hidden)]
    const WAITS: bool = false;

    #[doc(hidden)]
    fn hidden_wait_for(&self, _: &Context, _: Self::Input) -> impl Future<Output = WaitResult> + Send {
        std::future::ready(Ok(Wait::skip()))
    }
}

/// A Step that waits, without holding a Worker, before it runs.
///
/// ```
/// use std::time::Duration;
/// use dexzd_sdk::prelude::*;
///
/// const APPROVED: Channel<String> = Channel::new("approved");
///
/// struct AwaitApproval;
///
/// impl WaitingStep for AwaitApproval {
///     const TYPE: &'static str = "AwaitApproval";
///     type Input = ();
///
///     async fn wait_for(&self, _: &Context, _: ()) -> WaitResult {
///         Ok(Wait::any_of([
///             Condition::message(&APPROVED),
///             Condition::timer(Duration::from_secs(24 * 3600)),
///         ]))
///     }
///
///     async fn execute(&self, _: &Context, _: (), conditions: Conditions) -> StepResult {
///         match conditions.message(&APPROVED)? {
///             Some(by) => Ok(Decision::complete(&format!("approved by {by}"))),
///             None => Ok(Decision::force_fail("nobody answered within a day")),
///         }
///     }
/// }
/// ```
pub trait WaitingStep: Send + Sync + 'static {
    /// The Step type: its name on the server. Keep it until no open Flow can reach it any more.
    const TYPE: &'static str;
    /// Given unchanged to both methods, every attempt, and the recovery Step.
    type Input: Serialize + DeserializeOwned + Send + 'static;

    /// The options every movement to this Step carries unless it overrides them.
    fn options() -> StepOptions
    where
        Self: Sized,
    {
        StepOptions::new()
    }

    /// Says what to wait for. The server stores and watches the Wait.
    fn wait_for(&self, ctx: &Context, input: Self::Input) -> impl Future<Output = WaitResult> + Send;

    /// Runs when the Wait is over.
    fn execute(
        &self,
        ctx: &Context,
        input: Self::Input,
        conditions: Conditions,
    ) -> impl Future<Output = StepResult> + Send;
}

impl<S: WaitingStep> Step for S {
    const TYPE: &'static str = <S as WaitingStep>::TYPE;
    type Input = <S as WaitingStep>::Input;
    const WAITS: bool = true;

    fn options() -> StepOptions {
        <S as WaitingStep>::options()
    }

    fn execute(&self, ctx: &Context, input: Self::Input) -> impl Future<Output = StepResult> + Send {
        WaitingStep::execute(self, ctx, input, ctx.conditions())
    }

    fn hidden_wait_for(&self, ctx: &Context, input: Self::Input) -> impl Future<Output = WaitResult> + Send {
        WaitingStep::wait_for(self, ctx, input)
    }
}

/// Runs once when a Flow's timeout is reached under the policy HANDLER, and decides like a Step.
pub trait TimeoutHandler: Send + Sync + 'static {
    /// Decides what becomes of the Flow.
    fn handle(&self, ctx: &Context) -> impl Future<Output = StepResult> + Send;
}

/// The start Step of a Flow that has none: it idles until something else starts Steps.
pub struct NoStart;

impl Step for NoStart {
    const TYPE: &'static str = "";
    type Input = ();

    async fn execute(&self, _: &Context, _: ()) -> StepResult {
        Ok(Decision::dead_end())
    }
}

pub(crate) type HandlerFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StepError>> + Send + 'a>>;

/// A Step whose input type is forgotten: what the Worker calls.
pub(crate) trait Handler: Send + Sync {
    fn wait_for<'a>(&'a self, ctx: &'a Context) -> HandlerFuture<'a, Wait>;
    fn execute<'a>(&'a self, ctx: &'a Context) -> HandlerFuture<'a, Decision>;
}

pub(crate) struct StepHandler<S>(pub(crate) S);

impl<S: Step> Handler for StepHandler<S> {
    fn wait_for<'a>(&'a self, ctx: &'a Context) -> HandlerFuture<'a, Wait> {
        Box::pin(async move {
            let input = value::decode(ctx.input())?;
            self.0.hidden_wait_for(ctx, input).await
        })
    }

    fn execute<'a>(&'a self, ctx: &'a Context) -> HandlerFuture<'a, Decision> {
        Box::pin(async move {
            let input = value::decode(ctx.input())?;
            self.0.execute(ctx, input).await
        })
    }
}

pub(crate) struct TimeoutStepHandler<H>(pub(crate) H);

impl<H: TimeoutHandler> Handler for TimeoutStepHandler<H> {
    fn wait_for<'a>(&'a self, _: &'a Context) -> HandlerFuture<'a, Wait> {
        Box::pin(std::future::ready(Ok(Wait::skip())))
    }

    fn execute<'a>(&'a self, ctx: &'a Context) -> HandlerFuture<'a, Decision> {
        // Called inside the future, so that a panic before its first await is caught as well.
        Box::pin(async move { self.0.handle(ctx).await })
    }
}
