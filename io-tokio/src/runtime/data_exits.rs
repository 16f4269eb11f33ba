//! The ways out of the data plane: answers and frames, held back until they are durable.

use std::collections::HashMap;

use dexzd_core::engine::{Answer, CallError, ServerFrame};
use dexzd_core::ids::{CallId, HandoutId, Position, StreamId};
use dexzd_core::log::Outbox;
use tokio::sync::{mpsc, oneshot};

type Reply = oneshot::Sender<Result<Answer, CallError>>;

/// Who waits for what.
#[derive(Default)]
pub(super) struct Exits {
    calls: HashMap<CallId, Reply>,
    streams: HashMap<StreamId, mpsc::UnboundedSender<ServerFrame>>,
    outbox: Outbox<Item>,
    durable: Position,
}

enum Item {
    Reply(CallId, Result<Answer, CallError>),
    Frame(StreamId, ServerFrame),
    Close(StreamId),
}

impl Exits {
    pub(super) fn call_opened(&mut self, id: CallId, reply: Reply) {
        self.calls.insert(id, reply);
    }

    pub(super) fn call_dropped(&mut self, id: CallId) {
        self.calls.remove(&id);
    }

    pub(super) fn stream_opened(&mut self, id: StreamId, frames: mpsc::UnboundedSender<ServerFrame>) {
        self.streams.insert(id, frames);
    }

    pub(super) fn has_stream(&self, id: StreamId) -> bool {
        self.streams.contains_key(&id)
    }

    /// The Worker's half ended. Whether the engine did not know yet.
    pub(super) fn stream_dropped(&mut self, id: StreamId) -> bool {
        self.streams.remove(&id).is_some()
    }

    pub(super) fn reply(&mut self, id: CallId, after: Position, answer: Result<Answer, CallError>) {
        if after <= self.durable {
            self.leave(Item::Reply(id, answer));
        } else {
            self.outbox.push(after, Item::Reply(id, answer));
        }
    }

    pub(super) fn send(&mut self, stream: StreamId, after: Position, frame: ServerFrame) {
        // No lane: the engine gives frames that must not overtake one another the right positions, and an
        // ASYNC task must not wait behind the acknowledgement of a SYNC result.
        self.outbox.push(after, Item::Frame(stream, frame));
    }

    /// Forgets a task that was taken back before it left.
    pub(super) fn withdraw(&mut self, handout: HandoutId) {
        self.outbox.remove(
            |item| matches!(item, Item::Frame(_, ServerFrame::Task(task)) if task.handout == handout),
        );
    }

    /// After everything already sent on it.
    pub(super) fn close_stream(&mut self, stream: StreamId) {
        self.outbox.push(Position(0), Item::Close(stream));
    }

    pub(super) fn became_durable(&mut self, position: Position) {
        self.durable = self.durable.max(position);
    }

    /// Lets go what may leave now.
    pub(super) fn release(&mut self) {
        if self.outbox.is_empty() {
            return;
        }
        let leaving: Vec<Item> = self.outbox.release(self.durable).collect();
        for item in leaving {
            self.leave(item);
        }
    }

    /// Ends every call and stream; what was held back never leaves.
    pub(super) fn close(&mut self) {
        self.release();
        *self = Self::default();
    }

    fn leave(&mut self, item: Item) {
        // A receiver that is gone has said so, or is about to.
        match item {
            Item::Reply(id, answer) => {
                if let Some(reply) = self.calls.remove(&id) {
                    let _ = reply.send(answer);
                }
            }
            Item::Frame(stream, frame) => {
                if let Some(frames) = self.streams.get(&stream) {
                    let _ = frames.send(frame);
                }
            }
            Item::Close(stream) => {
                self.streams.remove(&stream);
            }
        }
    }
}
