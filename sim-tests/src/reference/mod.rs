//! A Flow as concepts.md describes it, and not as the engine does it: given what Workers returned and what
//! clients sent, in the order of the history, it says everything else. Which Step executions exist, when a
//! Wait is over and which messages it takes, when a method call has failed for good and what follows, how
//! the run ends and with what.
//!
//! | file | concepts.md |
//! | --- | --- |
//! | `flow` | 1.1, 1.5: Steps, decisions, stops, the end |
//! | `step` | 1.2: one Step execution |
//! | `wait` | 1.6, 1.7: conditions and timers |
//! | `channel` | 1.8: queues |
//! | `retry` | 1.3 and the table of section 2 |
//!
//! Not modelled: the Step that runs a timeout handler, delayed starts, and which of two Waits takes a message
//! where one of them also waits for a timer that was due and its Execute was never handed out.
//!
//! It is slow and simple on purpose: no indexes, no laziness, every Wait looked at after every event.

mod channel;
mod flow;
mod retry;
mod step;
mod wait;

pub use channel::Channels;
pub use flow::{Flow, Told};
pub use retry::{delay_before, is_exhausted};
pub use step::{Phase, Step};
pub use wait::{Outcome, Timers, evaluate};
