//! The local store, as the data plane holds it: opened for one purpose, let go of, closed, opened again.
//!
//! ```text
//! closed ──Open, Replace──▶ opening ──▶ open ──LetGo──▶ closing ──the last user lets go──▶ closed
//! ```
//!
//! Between two tenures it is always closed once, and nothing is deleted that somebody has open (HA-104,
//! lesson H1).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dexzd_core::ids::Position;
use dexzd_core::log::{LogEnd, StartupInput};
use dexzd_core::node::{Input as NodeInput, OpenLog};
use dexzd_core::standby::FollowerInput;

use super::data::{DataPlane, Phase};
use super::local_opener::{ReplaceFailure, Replaced, Replacement};
use super::messages::ApplyMessage;
use crate::local::LocalStore;

/// What the local store is waited for.
#[derive(Clone, Copy)]
pub(super) enum Purpose {
    Start(OpenLog),
    Follow { trimmed_below: Position, log_end: Position },
}

/// What follows once it is closed.
pub(super) enum Then {
    Nothing,
    /// A tenure has ended (HA-104).
    TellNode,
    /// Another one takes its place.
    Replace {
        empty: bool,
    },
}

/// The local store of this process.
pub(super) struct Local {
    state: State,
    /// Of the newest lease seen, for a replacement that is on its way.
    trimmed_below: Arc<AtomicU64>,
    cancelled: Arc<std::sync::atomic::AtomicBool>,
}

enum State {
    /// Nobody has it open.
    Closed,
    /// The apply thread opens or replaces it.
    Opening,
    Open(Arc<dyn LocalStore>),
    /// This thread uses it no longer; whoever is the last one closes it.
    Closing(Then),
}

impl Local {
    pub(super) fn new() -> Self {
        Self { state: State::Closed, trimmed_below: Arc::default(), cancelled: Arc::default() }
    }

    pub(super) fn saw_bound(&self, trimmed_below: Position) {
        self.trimmed_below.fetch_max(trimmed_below.0, Ordering::Relaxed);
    }

    pub(super) const fn store(&self) -> Option<&Arc<dyn LocalStore>> {
        match &self.state {
            State::Open(local) => Some(local),
            State::Closed | State::Opening | State::Closing(_) => None,
        }
    }
}

impl DataPlane {
    /// The phase waits for the local store, and goes on in `local_opened`, at once if it is open.
    pub(super) fn with_local(&mut self, purpose: Purpose) {
        self.host(Phase::Waiting(purpose));
        match &self.local.state {
            State::Open(_) => self.local_ready(),
            State::Closed => self.open_local(),
            // It comes; when it is closing for good, it is opened again.
            State::Opening | State::Closing(_) => {}
        }
    }

    fn open_local(&mut self) {
        self.local.state = State::Opening;
        self.apply.send(ApplyMessage::Open);
    }

    /// This thread, the apply thread and the upkeep use it no longer. In order: it is made durable first.
    pub(super) fn let_go(&mut self, then: Then, in_order: bool) {
        match std::mem::replace(&mut self.local.state, State::Closed) {
            State::Open(local) => {
                // Whoever comes last closes it: not this thread, if anybody is left.
                drop(local);
                self.apply.send(ApplyMessage::LetGo { in_order });
                self.local.state = State::Closing(then);
            }
            State::Opening => {
                // Nobody waits for it: it is let go of when it comes.
                self.local.cancelled.store(true, Ordering::Relaxed);
                self.local.state = State::Opening;
            }
            // What was to follow is not forgotten; nobody asks for more than one thing at a time.
            State::Closing(before) => {
                self.local.state = State::Closing(match before {
                    Then::TellNode => before,
                    Then::Nothing | Then::Replace { .. } => then,
                });
            }
            State::Closed => self.after_closing(then),
        }
    }

    pub(super) fn local_closed(&mut self) {
        if let State::Closing(then) = std::mem::replace(&mut self.local.state, State::Closed) {
            self.after_closing(then);
        }
    }

    fn after_closing(&mut self, then: Then) {
        match then {
            Then::Nothing => {}
            Then::TellNode => self.control.send(NodeInput::StoreClosed),
            Then::Replace { empty } => {
                self.local.state = State::Opening;
                self.local.cancelled = Arc::default();
                self.apply.send(ApplyMessage::Replace(Replacement {
                    empty,
                    trimmed_below: Arc::clone(&self.local.trimmed_below),
                    cancelled: Arc::clone(&self.local.cancelled),
                }));
                return;
            }
        }
        if matches!(self.phase, Phase::Waiting(_)) {
            self.open_local();
        }
    }

    pub(super) fn local_opened(&mut self, opened: Replaced) {
        match opened {
            Ok(local) => {
                self.granted = local.end();
                self.local.state = State::Open(local);
                self.local_ready();
            }
            Err(failure) => {
                self.local.state = State::Closed;
                self.no_local(failure);
            }
        }
    }

    fn local_ready(&mut self) {
        let end = self.granted;
        match &mut self.phase {
            Phase::Waiting(Purpose::Start(open)) => {
                let open = *open;
                self.begin_start(open, end);
            }
            Phase::Waiting(Purpose::Follow { trimmed_below, log_end }) => {
                let (trimmed_below, log_end) = (*trimmed_below, *log_end);
                self.begin_to_follow(trimmed_below, log_end, end);
            }
            Phase::Following(_) => self.follower(FollowerInput::LocalStore { end }),
            Phase::Starting(_) => self.startup(StartupInput::LocalStore { end }),
            Phase::Idle | Phase::Running(_) | Phase::Over => self.let_go(Then::TellNode, false),
        }
    }

    fn no_local(&mut self, failure: ReplaceFailure) {
        let ReplaceFailure { reason, detail } = failure;
        match &self.phase {
            Phase::Following(_) => {
                tracing::warn!(%reason, detail, "the local store could not be replaced");
                self.follower(FollowerInput::ReplaceFailed(reason));
            }
            Phase::Waiting(_) | Phase::Starting(_) => self.fail(reason, detail),
            Phase::Idle | Phase::Running(_) | Phase::Over => self.after_closing(Then::TellNode),
        }
    }

    /// The local store is of no use: another one takes its place, once nobody has it open.
    pub(super) fn replace_local(&mut self, empty: bool) {
        self.granted = LogEnd::default();
        self.let_go(Then::Replace { empty }, false);
    }
}
