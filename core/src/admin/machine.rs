//! The machine behind one `dexcli admin` command.

use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use super::epoch::parse_epoch;
use super::io::{
    AdminTimer, CallFailure, Code, Command, Described, Ending, Failure, FailureKind, Input, LeaseHolder,
    Output, StepDownFlags, StepDownReport,
};
use crate::ids::{Epoch, Name};
use crate::node::ActiveProcess;
use crate::time::{Instant, Now};

/// How long `admin describe` waits unless `--timeout` says otherwise.
pub const DESCRIBE_TIMEOUT: Duration = Duration::from_secs(30);
/// How long `admin step-down` waits, its first describe included, unless `--timeout` says otherwise: a
/// drain of 30 s, the commit drain, the release and the closing of the store all fit (HA-122).
pub const STEP_DOWN_TIMEOUT: Duration = Duration::from_secs(120);

const RETRY_LATER: &str = "Perhaps somebody else's step down is running: let the hold-off pass, describe, and \
                           repeat only if the switch that you want is still missing.";

const NO_SERVICE: &str = "The server has no AdminService: it is older than this dexcli, or no dex-server-zd.";

/// One `dexcli admin` command.
///
/// ```text
/// let mut command = AdminCommand::new(now, command, timeout);
/// loop {
///     while let Some(output) = command.poll_output() {
///         match output {
///             Output::Describe | Output::StepDown { .. } => start the call
///             Output::Done(ending) => print it, and exit with ending.exit_code()
///         }
///     }
///     command.handle(now, end of the call, Ctrl+C, or Input::Tick at poll_timeout())
/// }
/// ```
#[derive(Debug)]
pub struct AdminCommand {
    step: Step,
    deadline: Option<Instant>,
    outputs: VecDeque<Output>,
}

#[derive(Clone, Debug)]
enum Step {
    /// `admin describe` waits for its answer.
    Describing,
    /// A step down waits for what its precondition will be; of this node, if one was named.
    Preparing { expected_node_id: Option<Name> },
    /// The step-down call is under way.
    SteppingDown { node_id: Name, epoch: Epoch },
    /// `Done` was given.
    Over,
}

impl AdminCommand {
    /// Begins; a usage error ends it at once, with nothing sent. `timeout`: `None` for no limit.
    #[must_use]
    pub fn new(now: Now, command: Command, timeout: Option<Duration>) -> Self {
        let deadline = timeout.map(|timeout| now.instant.saturating_add(timeout));
        let mut this = Self { step: Step::Over, deadline, outputs: VecDeque::new() };
        match command {
            Command::Describe => {
                this.step = Step::Describing;
                this.outputs.push_back(Output::Describe);
            }
            Command::StepDown(flags) => this.begin_step_down(flags),
        }
        this
    }

    /// Something happened. What comes after the end, or answers no open call, changes nothing.
    pub fn handle(&mut self, now: Now, input: Input) {
        let is_over = self.deadline.is_some_and(|deadline| now.instant >= deadline);
        match input {
            // No call is started whose time is over.
            Input::Described(Ok(_)) if is_over && matches!(self.step, Step::Preparing { .. }) => {}
            Input::Described(result) => self.described(result),
            Input::SteppedDown(result) => self.stepped_down(result),
            Input::Interrupted => {
                self.give_up(FailureKind::Interrupted, Code::Cancelled, "interrupted");
            }
            Input::Tick => {}
        }
        // An answer that is there counts, even if its time was over (D-57).
        if is_over {
            self.give_up(FailureKind::Timeout, Code::DeadlineExceeded, "the time is over");
        }
    }

    /// What the program must do: drain until `None`.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When to call again at the latest, and why.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<(Instant, AdminTimer)> {
        match self.step {
            Step::Describing | Step::Preparing { .. } | Step::SteppingDown { .. } => {
                self.deadline.map(|deadline| (deadline, AdminTimer::Deadline))
            }
            Step::Over => None,
        }
    }

    /// HA-116 to HA-120.
    fn begin_step_down(&mut self, flags: StepDownFlags) {
        let StepDownFlags { yes, expected_node_id, expected_node_epoch } = flags;
        if !yes {
            let message = "a step down interrupts running work: confirm it with --yes";
            return self.usage(String::from(message));
        }
        match (expected_node_id, expected_node_epoch) {
            (None, Some(_)) => self.usage(String::from(
                "--expected-node-epoch needs --expected-node-id: an epoch alone names no node",
            )),
            (Some(node_id), Some(text)) => match parse_epoch(&text) {
                Ok(epoch) => self.call_step_down(node_id, epoch),
                Err(error) => self.usage(format!("--expected-node-epoch `{}`: {error}", &*text)),
            },
            (expected_node_id, None) => {
                self.step = Step::Preparing { expected_node_id };
                self.outputs.push_back(Output::Describe);
            }
        }
    }

    fn call_step_down(&mut self, node_id: Name, epoch: Epoch) {
        self.step = Step::SteppingDown { node_id: node_id.clone(), epoch };
        self.outputs.push_back(Output::StepDown { node_id, epoch });
    }

    fn described(&mut self, result: Result<Described, CallFailure>) {
        let step = self.step.clone();
        match (step, result) {
            (Step::Describing, Ok(described)) => self.done(fields_of(&described)),
            (Step::Describing, Err(failure)) => {
                let hint = hint_of(failure.code);
                self.fail(request(failure.message.to_string(), failure.code, hint));
            }
            (Step::Preparing { .. }, Err(failure)) => {
                let message = format!("nothing was stepped down: describe failed: {}", &*failure.message);
                let hint = hint_of(failure.code);
                self.fail(request(message, failure.code, hint));
            }
            (Step::Preparing { expected_node_id: Some(expected) }, Ok(described))
                if expected != described.node_id =>
            {
                self.fail(Failure {
                    kind: FailureKind::NodeMismatch,
                    message: format!(
                        "nothing was stepped down: this server is of node `{}`, not of `{}`",
                        &*described.node_id, &*expected
                    ),
                    hint: Some(String::from("--server may name another cluster.")),
                    code: None,
                    is_outcome_unknown: false,
                    expected: None,
                });
            }
            (Step::Preparing { .. }, Ok(described)) => {
                self.call_step_down(described.node_id, described.epoch);
            }
            (Step::SteppingDown { .. } | Step::Over, _) => {}
        }
    }

    fn stepped_down(&mut self, result: Result<StepDownReport, CallFailure>) {
        let Step::SteppingDown { node_id, epoch } = self.step.clone() else {
            return;
        };
        match result {
            Ok(report) => self.done(fields_of_step_down(&node_id, epoch, &report)),
            Err(CallFailure { code, message }) => {
                self.step_down_failed(FailureKind::Request, code, &message, node_id, epoch);
            }
        }
    }

    fn give_up(&mut self, kind: FailureKind, code: Code, why: &str) {
        match self.step.clone() {
            Step::Describing => self.fail(Failure { kind, ..request(String::from(why), code, None) }),
            Step::Preparing { .. } => {
                let message = format!("nothing was stepped down: {why}");
                self.fail(Failure { kind, ..request(message, code, None) });
            }
            Step::SteppingDown { node_id, epoch } => self.step_down_failed(kind, code, why, node_id, epoch),
            Step::Over => {}
        }
    }

    /// HA-127 to HA-130: what was expected is part of every failure of the call.
    fn step_down_failed(&mut self, kind: FailureKind, code: Code, why: &str, node_id: Name, epoch: Epoch) {
        let is_outcome_unknown = code.leaves_outcome_unknown();
        let hint = if is_outcome_unknown {
            Some(format!(
                "The step down may have happened. Repeating it with --expected-node-id {} \
                 --expected-node-epoch {epoch} is safe: once that epoch is over it changes nothing. Never \
                 repeat it with an epoch described since, or without the two flags: that would step down \
                 whoever serves now.",
                &*node_id
            ))
        } else {
            (code == Code::Unimplemented).then(|| String::from(NO_SERVICE))
        };
        let message = if is_outcome_unknown {
            format!("the outcome of the step down is unknown: {why}")
        } else {
            String::from(why)
        };
        self.fail(Failure {
            kind,
            is_outcome_unknown,
            expected: Some((node_id, epoch)),
            ..request(message, code, hint)
        });
    }

    fn usage(&mut self, message: String) {
        self.fail(Failure {
            kind: FailureKind::Usage,
            message,
            hint: None,
            code: None,
            is_outcome_unknown: false,
            expected: None,
        });
    }

    fn done(&mut self, fields: Vec<(&'static str, String)>) {
        self.step = Step::Over;
        self.outputs.push_back(Output::Done(Ending { fields, failure: None }));
    }

    fn fail(&mut self, failure: Failure) {
        self.step = Step::Over;
        self.outputs.push_back(Output::Done(Ending { fields: Vec::new(), failure: Some(failure) }));
    }
}

/// What to do about a describe that failed.
fn hint_of(code: Code) -> Option<String> {
    match code {
        // HA-113 and HA-114: both mean that somebody may be stepping down, and in both cases the answer is to wait.
        Code::FailedPrecondition | Code::Unavailable => Some(String::from(RETRY_LATER)),
        Code::Unimplemented => Some(String::from(NO_SERVICE)),
        Code::Cancelled
        | Code::Unknown
        | Code::InvalidArgument
        | Code::DeadlineExceeded
        | Code::NotFound
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::ResourceExhausted
        | Code::Aborted
        | Code::OutOfRange
        | Code::Internal
        | Code::DataLoss
        | Code::Unauthenticated => None,
    }
}

const fn request(message: String, code: Code, hint: Option<String>) -> Failure {
    let kind = FailureKind::Request;
    Failure { kind, message, hint, code: Some(code), is_outcome_unknown: false, expected: None }
}

fn fields_of(described: &Described) -> Vec<(&'static str, String)> {
    Vec::from([
        ("nodeId", described.node_id.to_string()),
        ("nodeEpoch", described.epoch.to_string()),
        ("holderProcessId", described.holder.to_string()),
    ])
}

/// HA-124 to HA-126.
fn fields_of_step_down(node_id: &Name, epoch: Epoch, report: &StepDownReport) -> Vec<(&'static str, String)> {
    let (word, active, detail) = match &report.holder {
        LeaseHolder::TakenOver { active } => ("takenOverByAnotherProcess", *active, None),
        LeaseHolder::TakenBack { active } => ("takenBackByThisProcess", *active, None),
        LeaseHolder::Unknown { detail } => ("unknown", None, Some(detail)),
    };
    let mut fields = Vec::from([
        ("expectedNodeId", node_id.to_string()),
        ("expectedNodeEpoch", epoch.to_string()),
        ("nodeId", report.node_id.to_string()),
        ("releasedNodeEpoch", report.released_epoch.to_string()),
        ("leaseReacquisitionHoldOff", shown(report.hold_off_ms)),
        ("leaseHolderAfterStepDown", String::from(word)),
    ]);
    if let Some(ActiveProcess { epoch, holder }) = active {
        fields.push(("activeNodeEpoch", epoch.to_string()));
        fields.push(("activeHolderProcessId", holder.to_string()));
    }
    if let Some(detail) = detail {
        fields.push(("leaseHolderUnknownDetail", detail.to_string()));
    }
    fields
}

/// `5s`, or `1500ms` where seconds would lose something (D-38).
fn shown(millis: u64) -> String {
    if millis.is_multiple_of(1_000) { format!("{}s", millis / 1_000) } else { format!("{millis}ms") }
}
