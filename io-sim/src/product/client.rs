//! A simulated client: starts one Flow, feeds it, perhaps stops it, and waits for its end. It repeats
//! every call with the same request ID until it knows how it ended.

use dexzd_core::engine::{
    Answer, AttributeValue, AttributeWrite, Call, CallError, FlowStatus, Key, Publication, StartFlow,
    StopKind, Target, TimerTarget,
};
use dexzd_core::ids::{Name, RunId, StepExecutionId};

use super::flows::{self, Shape};
use crate::dice::{Dice, Stream};
use crate::watch::ProcessNumber;
use crate::{MILLISECOND, SECOND, TrueTime};

/// A call that heard nothing for so long is given up and repeated.
pub(super) const CALL_TIMEOUT: TrueTime = 20 * SECOND;

/// What a client wants.
#[derive(Clone, PartialEq, Debug)]
pub enum Action {
    /// Ask; [`Client::answered`] or [`Client::unanswered`] follows.
    Call(Call),
    /// Be called by [`Client::wake`] at this time.
    Wake(TrueTime),
    /// The Flow is closed and the client has nothing left to do.
    Finished,
}

/// One thing that a client asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    Start,
    Publish {
        next: u32,
    },
    Skip,
    Stop(StopKind),
    Wait,
    /// Writes its own text over everybody's note.
    Note {
        next: u32,
    },
    /// Only reads.
    Look(Look),
    /// A start of the same Flow ID by somebody else.
    Rival {
        ignores: bool,
    },
    /// What another client asks for too, with its request ID.
    Twin(TwinOf),
    Finished,
}

/// What a reader wants to know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Look {
    State,
    Describe,
    History,
    Event { number: u64 },
    Closed,
    Step { step_type: usize, number: u32 },
}

/// Which of its host's calls a guest repeats.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TwinOf {
    Start,
    Publish { next: u32 },
}

/// A reader waits so long at most, in milliseconds.
const LOOK_WAIT_MS: u64 = 3_000;
/// A page that holds every history of the simulation.
const PAGE: u32 = 1_000;

/// One client, which cares for one Flow.
#[derive(Debug)]
pub struct Client {
    /// Its number, unique.
    pub number: u32,
    /// Its Flow's shape.
    pub shape: Shape,
    /// Its Flow's ID.
    pub flow_id: Name,
    /// Its run, once it is started.
    pub run_id: Option<RunId>,
    /// What it asked the run to do besides its work.
    pub stopped: Option<StopKind>,
    /// How it ended.
    pub status: Option<FlowStatus>,
    /// The process it always asks, whether it serves or not. None: whoever serves.
    pub(super) address: Option<ProcessNumber>,
    /// The client whose Flow it visits, if it is a guest.
    host: Option<u32>,
    stages: Vec<Stage>,
    asking: bool,
}

impl Client {
    /// Draws what this client will do.
    pub fn new(
        number: u32,
        shape: Shape,
        stops_per_million: u32,
        habits: &super::guests::Habits,
        dice: &mut Dice,
    ) -> Self {
        let draw = Stream::Workload;
        let mut stages = vec![Stage::Start];
        let publishes = shape != Shape::Order || dice.chance(draw, "pays", 600_000);
        if publishes {
            stages.extend((0..shape.messages()).map(|next| Stage::Publish { next }));
        }
        if matches!(shape, Shape::Order | Shape::Reminder) && dice.chance(draw, "skips", 300_000) {
            stages.push(Stage::Skip);
        }
        let mut stopped = None;
        if dice.chance(draw, "stops", stops_per_million) {
            let kinds = [StopKind::Cancel, StopKind::Fail, StopKind::Terminate];
            let kind = kinds[dice.weighted(draw, "stop_kind", &[1, 1, 1])];
            stopped = Some(kind);
            stages.push(Stage::Stop(kind));
        }
        stages.push(Stage::Wait);
        let mut stages = habits.with_looks(stages, dice);
        stages.reverse();
        Self {
            number,
            shape,
            flow_id: Name::new(&format!("{}-{number}", shape.flow_type())),
            run_id: None,
            stopped,
            status: None,
            address: None,
            host: None,
            stages,
            asking: false,
        }
    }

    /// Somebody else who is interested in the same Flow.
    pub(super) fn guest(number: u32, host: &Self, address: Option<ProcessNumber>, plan: Vec<Stage>) -> Self {
        let mut stages = plan;
        stages.reverse();
        Self {
            number,
            shape: host.shape,
            flow_id: host.flow_id.clone(),
            run_id: None,
            stopped: None,
            status: None,
            address,
            host: Some(host.number),
            stages,
            asking: false,
        }
    }

    /// Whether it visits the Flow of another client.
    #[must_use]
    pub fn is_guest(&self) -> bool {
        self.host.is_some()
    }

    /// Whether its Flow is closed, as far as it knows. Nobody waits for a guest.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.status.is_some() || self.is_guest()
    }

    /// It is time for the next call.
    pub fn wake(&mut self) -> Vec<Action> {
        if self.asking {
            return Vec::new();
        }
        match self.call() {
            Some(call) => {
                self.asking = true;
                vec![Action::Call(call)]
            }
            None => vec![Action::Finished],
        }
    }

    /// No answer: the outcome is unknown, so the same call follows, with the same request ID. A guest may
    /// lose its patience, and never learns what became of it.
    pub fn unanswered(&mut self, at: TrueTime, dice: &mut Dice) -> Vec<Action> {
        self.asking = false;
        if self.is_guest() && dice.chance(Stream::Workload, "gives_up", 400_000) {
            self.stages.pop();
        }
        let pause = dice.between(Stream::Workload, "call_again", 20 * MILLISECOND, SECOND);
        vec![Action::Wake(at + pause)]
    }

    /// An answer.
    ///
    /// # Errors
    /// A sentence, if nobody may get such an answer to such a call.
    pub fn answered(
        &mut self,
        at: TrueTime,
        answer: &Result<Answer, CallError>,
        dice: &mut Dice,
    ) -> Result<Vec<Action>, String> {
        let stage = self.stage();
        let goes_on_waiting = stage == Stage::Wait && *answer == Err(CallError::LongPollTimeout);
        if *answer == Err(CallError::Unavailable) || goes_on_waiting {
            return Ok(self.unanswered(at, dice));
        }
        match (stage, answer) {
            (Stage::Start, Ok(Answer::Started { run_id, .. })) => {
                if self.run_id.is_some_and(|known| known != *run_id) {
                    return Err(format!(
                        "{} was started twice: {:?} and {run_id}",
                        self.flow_id, self.run_id
                    ));
                }
                self.run_id = Some(*run_id);
            }
            // A rival was faster.
            (Stage::Start, Err(CallError::AlreadyStarted { run_id, .. })) => self.run_id = Some(*run_id),
            // What a guest may hear, and what it means, is for the check of invariant 4 to say.
            (Stage::Note { .. } | Stage::Look(_) | Stage::Rival { .. } | Stage::Twin(_), answer)
                if !is_absurd(answer) => {}
            (Stage::Publish { .. }, Ok(Answer::Published(ids))) if ids.len() == 1 => {}
            (Stage::Skip, Ok(Answer::Skipped { .. }) | Err(CallError::TimerNotFound))
            | (Stage::Stop(_), Ok(Answer::Done))
            | (
                Stage::Publish { .. } | Stage::Skip | Stage::Stop(_),
                Err(CallError::NotActive { .. } | CallError::Closing),
            ) => {}
            (Stage::Wait, Ok(Answer::FlowResult(result))) => {
                if result.status == FlowStatus::Running {
                    return Err(format!("{} closed with status running", self.flow_id));
                }
                self.status = Some(result.status);
            }
            _ => {
                return Err(format!("{} got {answer:?} at its stage {stage:?}", self.flow_id));
            }
        }
        // Some answers are lost on their last metre: the client asks again although it is settled.
        self.asking = false;
        if !dice.chance(Stream::Workload, "asks_again", 50_000) {
            self.stages.pop();
        }
        let pause = dice.between(Stream::Workload, "thinks", 0, 2 * SECOND);
        Ok(vec![Action::Wake(at + pause)])
    }

    fn stage(&self) -> Stage {
        self.stages.last().copied().unwrap_or(Stage::Finished)
    }

    fn target(&self) -> Target {
        Target { flow_id: self.flow_id.clone(), run_id: None }
    }

    fn request(&self, what: &str) -> Name {
        Name::new(&format!("c{}-{what}", self.number))
    }

    fn call(&self) -> Option<Call> {
        Some(match self.stage() {
            Stage::Start => Call::Start(Box::new(self.shape.start(&self.flow_id, &self.request("start")))),
            Stage::Publish { next } => self.publish(self.request(&format!("publish-{next}")), next),
            Stage::Skip => Call::SkipTimer {
                request_id: self.request("skip"),
                target: self.target(),
                timer: TimerTarget::Index {
                    step: StepExecutionId { step_type: Name::new(self.shape.step_types()[0]), number: 1 },
                    index: 0,
                },
            },
            Stage::Stop(kind) => Call::Stop {
                request_id: self.request("stop"),
                target: self.target(),
                kind,
                reason: Name::new("the client thought better of it"),
            },
            Stage::Wait => Call::WaitForFlow { target: self.target(), wait_ms: Some(10_000) },
            Stage::Note { next } => Call::WriteAttributes {
                request_id: self.request(&format!("note-{next}")),
                target: self.target(),
                writes: vec![AttributeWrite {
                    key: Key { name: Name::new(flows::NOTE), instance: None },
                    value: Some(AttributeValue::String(self.request(&format!("note-{next}")))),
                }],
            },
            Stage::Look(look) => self.look(look),
            Stage::Rival { ignores } => Call::Start(Box::new(StartFlow {
                ignore_already_started: ignores,
                ..self.shape.start(&self.flow_id, &self.request("start"))
            })),
            Stage::Twin(of) => self.twin(of),
            Stage::Finished => return None,
        })
    }

    fn look(&self, look: Look) -> Call {
        let (target, wait_ms) = (self.target(), Some(LOOK_WAIT_MS));
        match look {
            Look::State => Call::State(target),
            Look::Describe => Call::Describe(target),
            Look::History => Call::History { target, start_event: 1, page_size: PAGE },
            Look::Event { number } => Call::WaitForEvent { target, event: number, wait_ms },
            Look::Closed => Call::WaitForFlow { target, wait_ms },
            Look::Step { step_type, number } => {
                let step_types = self.shape.step_types();
                let step_type = Name::new(step_types[step_type % step_types.len()]);
                Call::WaitForStep { target, step: StepExecutionId { step_type, number }, wait_ms }
            }
        }
    }

    fn twin(&self, of: TwinOf) -> Call {
        let host = self.host.unwrap_or(self.number);
        match of {
            TwinOf::Start => {
                Call::Start(Box::new(self.shape.start(&self.flow_id, &format!("c{host}-start"))))
            }
            TwinOf::Publish { next } => self.publish(Name::new(&format!("c{host}-publish-{next}")), next),
        }
    }

    fn publish(&self, request_id: Name, next: u32) -> Call {
        Call::Publish {
            request_id,
            target: self.target(),
            publications: vec![Publication { channel: self.shape.channel(), value: flows::number(next + 1) }],
        }
    }
}

/// An answer that no right server gives to a right client.
fn is_absurd(answer: &Result<Answer, CallError>) -> bool {
    matches!(
        answer,
        Err(CallError::InvalidArgument { .. }
            | CallError::Internal { .. }
            | CallError::RequestIdReused
            | CallError::LimitExceeded { .. })
    )
}
