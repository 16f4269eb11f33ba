//! `admin`: who serves, and give the lease to another process (HA-112, HA-116 to HA-130).
//!
//! What is asked in which order, what a failure means and what is printed decides `dexzd_core::admin`, which the
//! simulator tries in every interleaving; here its calls are made.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use dexzd_core::admin::{
    AdminCommand as Machine, CallFailure, Command, DESCRIBE_TIMEOUT, Described, Input, LeaseHolder,
    Output as Order, STEP_DOWN_TIMEOUT, StepDownFlags, StepDownReport,
};
use dexzd_core::ids::{Epoch, Name, ProcessId};
use dexzd_core::node::ActiveProcess;
use dexzd_core::time::{Instant, Now};
use dexzd_proto::{
    DescribeNodeRequest, LeaseHolder as ProtoHolder, NodeDescription, StepDownRequest, StepDownResponse,
};
use tokio::sync::OnceCell;
use tonic::{Code, Status};

mod ending;
mod progress;

use self::ending::{code_in, finish};
use self::progress::Progress;
use super::interrupt::interrupted;
use crate::args::{AdminCommand, Arguments, StepDownArguments};
use crate::connection::Connection;
use crate::failure::Failure;
use crate::output::Output;

pub(super) async fn run(
    arguments: &Arguments,
    command: &AdminCommand,
    output: &Output,
) -> Result<(), Failure> {
    let (operation, command, by_default) = match command {
        AdminCommand::Describe => ("admin describe", Command::Describe, DESCRIBE_TIMEOUT),
        AdminCommand::StepDown(flags) => {
            ("admin step-down", Command::StepDown(typed(flags)), STEP_DOWN_TIMEOUT)
        }
    };
    let server = Server { arguments, operation, connection: OnceCell::new() };
    let progress = Progress::new(output);
    let clock = Clock::start();
    let mut machine = Machine::new(clock.now(), command, time_limit(arguments, by_default));
    let mut call: Pin<Box<dyn Future<Output = CallEnd> + '_>> = Box::pin(std::future::pending());
    let mut interrupt = std::pin::pin!(interrupted());
    loop {
        while let Some(order) = machine.poll_output() {
            call = match order {
                Order::Describe => {
                    progress.describing(&arguments.server);
                    Box::pin(server.describe())
                }
                Order::StepDown { node_id, epoch } => {
                    progress.stepping_down(&node_id, epoch);
                    Box::pin(server.step_down(node_id, epoch))
                }
                Order::Done(ending) => {
                    progress.end();
                    return finish(ending, operation, server.was_reached(), output);
                }
            };
        }
        let deadline = machine.poll_timeout().map(|(at, _)| clock.tokio(at));
        let input = tokio::select! {
            biased;
            end = &mut call => {
                call = Box::pin(std::future::pending());
                end?
            }
            () = &mut interrupt => Input::Interrupted,
            () = until(deadline) => Input::Tick,
            // Never ends: it only shows how far the server is.
            () = progress.watch(server.connection.get()) => unreachable!("it watches for as long as it is let"),
        };
        machine.handle(clock.now(), input);
    }
}

fn typed(flags: &StepDownArguments) -> StepDownFlags {
    StepDownFlags {
        yes: flags.yes,
        expected_node_id: flags.expected_node_id.as_deref().map(Name::new),
        expected_node_epoch: flags.expected_node_epoch.as_deref().map(Name::new),
    }
}

/// `None`: no limit (HA-122).
fn time_limit(arguments: &Arguments, by_default: Duration) -> Option<Duration> {
    Some(arguments.timeout.unwrap_or(by_default)).filter(|limit| !limit.is_zero())
}

async fn until(deadline: Option<tokio::time::Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// The machine's time, which begins with the command.
struct Clock(tokio::time::Instant);

impl Clock {
    fn start() -> Self {
        Self(tokio::time::Instant::now())
    }

    fn now(&self) -> Now {
        let micros = u64::try_from(self.0.elapsed().as_micros()).unwrap_or(u64::MAX);
        Now { instant: Instant::from_micros(micros), ..Now::default() }
    }

    fn tokio(&self, at: Instant) -> tokio::time::Instant {
        self.0 + Duration::from_micros(at.as_micros())
    }
}

/// How a call ended; or what is wrong with the command line or this machine, so that nothing was sent.
type CallEnd = Result<Input, Failure>;

/// The process at the other end: both calls of a step down go to the same one.
struct Server<'a> {
    arguments: &'a Arguments,
    operation: &'static str,
    connection: OnceCell<Connection>,
}

impl Server<'_> {
    async fn describe(&self) -> CallEnd {
        Ok(Input::Described(match self.connected().await? {
            Ok(connection) => match connection.admin().describe(DescribeNodeRequest {}).await {
                Ok(answer) => described(&answer.into_inner()),
                Err(status) => Err(call_failure(&status)),
            },
            Err(unreachable) => Err(unreachable),
        }))
    }

    async fn step_down(&self, node_id: Name, epoch: Epoch) -> CallEnd {
        let request = StepDownRequest { expected_node_id: node_id.to_string(), expected_node_epoch: epoch.0 };
        Ok(Input::SteppedDown(match self.connected().await? {
            Ok(connection) => match connection.admin().step_down(request).await {
                Ok(answer) => stepped_down(&answer.into_inner()),
                Err(status) => Err(call_failure(&status)),
            },
            Err(unreachable) => Err(unreachable),
        }))
    }

    /// A server that cannot be reached is UNAVAILABLE (HA-114); what a command line says wrongly is its own failure.
    async fn connected(&self) -> Result<Result<&Connection, CallFailure>, Failure> {
        match self.connection.get_or_try_init(|| Connection::open(self.arguments, self.operation)).await {
            Ok(connection) => Ok(Ok(connection)),
            Err(failure) if failure.is_connection() => {
                let message = Name::new(failure.message());
                Ok(Err(CallFailure { code: code_in(Code::Unavailable), message }))
            }
            Err(failure) => Err(failure),
        }
    }

    fn was_reached(&self) -> bool {
        self.connection.initialized()
    }
}

fn call_failure(status: &Status) -> CallFailure {
    let message = match status.message() {
        "" => status.code().description(),
        message => message,
    };
    CallFailure { code: code_in(status.code()), message: Name::new(message) }
}

/// An answer that no server of this protocol gives.
fn malformed(what: &str) -> CallFailure {
    let message = Name::from(format!("the server's answer cannot be understood: {what}"));
    CallFailure { code: code_in(Code::Internal), message }
}

fn process_id(text: &str) -> Result<ProcessId, CallFailure> {
    // A sign would be read, and is none of ours.
    let is_hexadecimal = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    match u128::from_str_radix(text, 16) {
        Ok(id) if is_hexadecimal => Ok(ProcessId(id)),
        Ok(_) | Err(_) => Err(malformed("its process ID is not 32 hexadecimal digits")),
    }
}

fn described(answer: &NodeDescription) -> Result<Described, CallFailure> {
    Ok(Described {
        node_id: Name::new(&answer.node_id),
        epoch: Epoch(answer.node_epoch),
        holder: process_id(&answer.holder_process_id)?,
    })
}

/// What is missing or new in an answer never makes a failure of a step down that happened.
fn stepped_down(answer: &StepDownResponse) -> Result<StepDownReport, CallFailure> {
    let active = answer.active.as_ref().and_then(|active| {
        let holder = process_id(&active.holder_process_id).ok()?;
        Some(ActiveProcess { epoch: Epoch(active.node_epoch), holder })
    });
    let holder = match answer.lease_holder_after_step_down() {
        ProtoHolder::TakenOverByAnotherProcess => LeaseHolder::TakenOver { active },
        ProtoHolder::TakenBackByThisProcess => LeaseHolder::TakenBack { active },
        ProtoHolder::Unknown => {
            LeaseHolder::Unknown { detail: Name::new(&answer.lease_holder_unknown_detail) }
        }
        ProtoHolder::Unspecified => LeaseHolder::Unknown {
            detail: Name::new("the server names a kind of holder that this dexcli does not know"),
        },
    };
    Ok(StepDownReport {
        node_id: Name::new(&answer.node_id),
        released_epoch: Epoch(answer.released_node_epoch),
        hold_off_ms: u64::try_from(answer.lease_reacquisition_hold_off_ms).unwrap_or(0),
        holder,
    })
}

#[cfg(test)]
#[path = "admin_tests.rs"]
mod tests;
