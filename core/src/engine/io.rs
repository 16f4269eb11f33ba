//! The engine's inputs and outputs: everything that crosses its border (architecture.md 2).

use alloc::vec::Vec;

use minicbor::{Decode, Encode};

use super::call::{Answer, Call, CallError};
use super::frame::{ServerFrame, WorkerFrame};
use crate::ids::{CallId, Name, Position, StreamId};
use crate::log::{AppenderInput, AppenderOutput};

/// Something happened.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub enum Input {
    /// A client asks. Exactly one `Output::Reply` follows, unless the call is dropped first.
    #[n(0)]
    Call {
        /// Named by the reply.
        #[n(0)]
        id: CallId,
        /// What it asks.
        #[n(1)]
        call: Call,
    },
    /// The client went away; a wait of its may end.
    #[n(1)]
    CallDropped {
        /// Which.
        #[n(0)]
        id: CallId,
    },
    /// A frame came from a Worker. The first of a stream must be a hello.
    #[n(2)]
    Frame {
        /// Which stream.
        #[n(0)]
        stream: StreamId,
        /// What it says.
        #[n(1)]
        frame: WorkerFrame,
    },
    /// A Worker's stream ended, whoever ended it.
    #[n(3)]
    StreamClosed {
        /// Which.
        #[n(0)]
        stream: StreamId,
    },
    /// The log answers.
    #[n(4)]
    Log(#[n(0)] AppenderInput),
    /// The local store has applied every entry up to here.
    #[n(5)]
    Applied {
        /// The newest entry applied.
        #[n(0)]
        position: Position,
    },
    /// `node` orders.
    #[n(6)]
    Node(#[n(0)] NodeOrder),
    /// Time has passed: what became due is done.
    #[n(7)]
    Tick,
}

/// What `node` tells `engine`. Recovery itself is the engine's construction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
#[cbor(index_only)]
pub enum NodeOrder {
    /// Recovery is durable and the gate open: answer calls, hand out tasks, fire timers.
    #[n(0)]
    Serve,
    /// Hand out nothing new and wait for running attempts; `NodeReport::Drained` follows when none is left.
    #[n(1)]
    Drain,
    /// The drain is over: ask running attempts to cancel (HA-96).
    #[n(2)]
    Interrupt,
    /// Refuse new calls, make durable what was gathered; `NodeReport::Committed` follows (D-18).
    #[n(3)]
    Commit,
    /// End every call and stream; `NodeReport::Closed` follows and nothing leaves after it.
    #[n(4)]
    Close,
}

/// What the shell must do.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub enum Output {
    /// Answer a call, once everything up to `after` is durable (D-48).
    #[n(0)]
    Reply {
        /// Which call.
        #[n(0)]
        id: CallId,
        /// The highest position that the decision read or wrote.
        #[n(1)]
        after: Position,
        /// The answer.
        #[n(2)]
        answer: Result<Answer, CallError>,
    },
    /// Send a frame to a Worker, once everything up to `after` is durable.
    #[n(1)]
    Send {
        /// Which stream.
        #[n(0)]
        stream: StreamId,
        /// Position 0: at once.
        #[n(1)]
        after: Position,
        /// The frame.
        #[n(2)]
        frame: ServerFrame,
    },
    /// Forget the task of this hand-out, which waits for its position: it was taken back (D-23).
    #[n(6)]
    Withdraw {
        /// Which stream it was for.
        #[n(0)]
        stream: StreamId,
        /// Which hand-out.
        #[n(1)]
        handout: crate::ids::HandoutId,
    },
    /// Close a Worker stream after everything already sent on it.
    #[n(2)]
    CloseStream {
        /// Which stream.
        #[n(0)]
        stream: StreamId,
    },
    /// The log wants something.
    #[n(3)]
    Log(#[n(0)] AppenderOutput),
    /// Tell `node`.
    #[n(4)]
    Node(#[n(0)] NodeReport),
    /// Something worth telling people.
    #[n(5)]
    Event(#[n(0)] EngineEvent),
}

/// What `engine` tells `node`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
#[cbor(index_only)]
pub enum NodeReport {
    /// Every received attempt of earlier epochs is failed, durably (HA-20).
    #[n(0)]
    Recovered,
    /// Nothing runs.
    #[n(1)]
    Drained,
    /// Everything gathered is durable.
    #[n(2)]
    Committed,
    /// Nothing can leave any more (D-37).
    #[n(3)]
    Closed,
}

/// Typed events: log lines, metrics and simulator traces are made from them.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub enum EngineEvent {
    /// A run was created.
    #[n(0)]
    FlowStarted {
        /// Its type.
        #[n(0)]
        flow_type: Name,
    },
    /// A run closed.
    #[n(1)]
    FlowClosed {
        /// Its type.
        #[n(0)]
        flow_type: Name,
        /// How.
        #[n(1)]
        status: super::model::FlowStatus,
    },
    /// An attempt was handed out.
    #[n(2)]
    AttemptStarted {
        /// Its Step type.
        #[n(0)]
        step_type: Name,
    },
    /// An attempt ended.
    #[n(3)]
    AttemptEnded {
        /// Its Step type.
        #[n(0)]
        step_type: Name,
        /// How.
        #[n(1)]
        outcome: AttemptOutcome,
    },
    /// Timers fired.
    #[n(4)]
    TimersFired {
        /// How many.
        #[n(0)]
        count: u32,
    },
    /// A Worker's stream opened.
    #[n(5)]
    WorkerConnected {
        /// Its identity.
        #[n(0)]
        worker: Name,
        /// Its slots.
        #[n(1)]
        slots: u32,
    },
    /// A Worker's stream ended.
    #[n(6)]
    WorkerDisconnected {
        /// Its identity.
        #[n(0)]
        worker: Name,
        /// How many running attempts failed with it.
        #[n(1)]
        lost_attempts: u32,
    },
    /// Recovery found this.
    #[n(7)]
    Recovered {
        /// Attempts failed with NOT_COMPLETED.
        #[n(0)]
        failed_attempts: u64,
        /// Steps queued.
        #[n(1)]
        queued_steps: u64,
    },
    /// A record of the local store cannot be read: the run it belongs to is left alone.
    #[n(8)]
    DamagedRecord {
        /// The key, printable.
        #[n(0)]
        key: Name,
        /// What is wrong.
        #[n(1)]
        detail: Name,
    },
}

/// How an attempt ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Encode, Decode)]
#[cbor(index_only)]
pub enum AttemptOutcome {
    /// Its result was accepted.
    #[n(0)]
    Completed,
    /// It failed and is retried.
    #[n(1)]
    Retried,
    /// It failed for good.
    #[n(2)]
    Exhausted,
    /// Declined or returned unused: number and budget unchanged.
    #[n(3)]
    HandedBack,
    /// Cancelled: its result is no longer wanted.
    #[n(4)]
    Cancelled,
    /// A result that came too late was dropped whole (FD-11).
    #[n(5)]
    Late,
}

/// One change of the local store. None deletes.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Encode, Decode)]
pub struct Change {
    /// The key.
    #[cbor(n(0), with = "minicbor::bytes")]
    pub key: Vec<u8>,
    /// The new value.
    #[cbor(n(1), with = "minicbor::bytes")]
    pub value: Option<Vec<u8>>,
}

impl Change {
    /// About what it takes in an entry, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.key.len() + self.value.as_ref().map_or(0, Vec::len)
    }
}
