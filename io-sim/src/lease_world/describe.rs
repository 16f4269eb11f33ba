//! The words of a story.

use dexzd_core::ids::{Name, RequestId};
use dexzd_core::lease::{LeaseInput, LeaseRecord, LeaseState};
use dexzd_core::node::Input;
use dexzd_core::store::{ReadOutcome, WriteOutcome};

use super::NODE;
use crate::watch::ProcessNumber;
use crate::weather::{Fate, Heard};
use crate::{SECOND, TrueTime};

pub(super) fn seconds(at: TrueTime) -> String {
    format!("{}.{:06}", at / SECOND, at % SECOND)
}

pub(super) fn record(record: &LeaseRecord) -> String {
    let state = match record.state {
        LeaseState::Held => "held",
        LeaseState::Free => "free",
    };
    format!("lease {state}, epoch {}, nonce {}", record.epoch, record.nonce.counter)
}

pub(super) fn request(
    number: ProcessNumber,
    id: RequestId,
    written: Option<&LeaseRecord>,
    fate: Fate,
) -> String {
    let what = written.map_or_else(|| "read".to_owned(), record);
    match fate {
        Fate { lands_after: Some(_), again_after: None, heard: Heard::Answer { .. } } => {
            format!("p{number} -> r{id} {what}")
        }
        Fate { lands_after, again_after, heard } => {
            let lands = lands_after.map_or_else(
                || "never lands".to_owned(),
                |after| format!("lands {} s later", seconds(after)),
            );
            let again = again_after
                .map_or_else(String::new, |after| format!(" and {} s later again", seconds(after)));
            format!("p{number} -> r{id} {what}; {lands}{again}, the caller hears {heard:?}")
        }
    }
}

pub(super) fn input(input: &Input) -> String {
    match input {
        Input::Lease(lease) => lease_input(lease),
        Input::LogFenced
        | Input::Engine(_)
        | Input::EngineAlive
        | Input::Failed(_)
        | Input::Durable(_)
        | Input::TrimBelow(_)
        | Input::Terminate
        | Input::Tick
        | Input::GateJumped(_)
        | Input::EpochBehind { .. }
        | Input::Follower(_)
        | Input::StoreClosed
        | Input::Admin { .. } => format!("{input:?}"),
    }
}

fn lease_input(input: &LeaseInput) -> String {
    match input {
        LeaseInput::Written { request, outcome } => match outcome {
            WriteOutcome::Done { .. } => format!("r{request} done"),
            WriteOutcome::Refused
            | WriteOutcome::Transient { .. }
            | WriteOutcome::Permanent
            | WriteOutcome::LocalFailure
            | WriteOutcome::LockReplaced => format!("r{request} {outcome:?}"),
        },
        LeaseInput::Read { request, outcome } => match outcome {
            ReadOutcome::Found { body, .. } => match LeaseRecord::decode(body, &Name::new(NODE)) {
                Ok(shown) => format!("r{request} shows {}", record(&shown)),
                Err(reason) => format!("r{request} shows {reason:?}"),
            },
            ReadOutcome::Missing
            | ReadOutcome::Transient { .. }
            | ReadOutcome::Permanent
            | ReadOutcome::LocalFailure => format!("r{request} {outcome:?}"),
        },
        LeaseInput::Surveyed { survey, .. } => format!("survey {survey:?}"),
        LeaseInput::Tick => "tick".to_owned(),
    }
}
