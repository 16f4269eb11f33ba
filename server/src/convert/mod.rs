//! Messages to core values and back.
//!
//! What a core type cannot express is refused here, with the path of the field: a missing message, an
//! unknown enum value, a negative duration, a malformed ID. What it can express and the rules forbid
//! (lengths, numbers of items, combinations) is refused by the core itself. Nothing else happens here.

mod answer;
mod call;
mod decision;
mod field;
mod frame;
mod history;
mod options;
mod run;
mod value;
mod wait;

pub(crate) use answer::*;
pub(crate) use call::*;
pub(crate) use field::Invalid;
pub(crate) use frame::{server_frame, worker_frame};

#[cfg(test)]
mod tests;
