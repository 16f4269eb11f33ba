//! The end of an admin command, as it is printed.

use dexzd_core::admin::{Code as CoreCode, Ending, Failure as CoreFailure, FailureKind};
use serde_json::{Map, Value};
use tonic::Code;

use crate::failure::{Failure, Kind, credential_hint};
use crate::output::Output;
use crate::render;

/// Prints the result, or makes the failure of this command.
pub(super) fn finish(
    ending: Ending,
    operation: &str,
    was_reached: bool,
    output: &Output,
) -> Result<(), Failure> {
    if let Some(failure) = ending.failure {
        return Err(failed(failure, operation, was_reached));
    }
    let fields: Map<String, Value> =
        ending.fields.into_iter().map(|(name, text)| (name.to_owned(), Value::String(text))).collect();
    output.result(&Value::Object(fields), render::fields_table);
    Ok(())
}

fn failed(failure: CoreFailure, operation: &str, was_reached: bool) -> Failure {
    let kind = match failure.kind {
        FailureKind::Usage => Kind::Usage,
        FailureKind::NodeMismatch => Kind::NodeMismatch,
        FailureKind::Timeout => Kind::Timeout,
        FailureKind::Interrupted => Kind::Interrupted,
        FailureKind::Request if was_reached => Kind::Request,
        FailureKind::Request => Kind::Connection,
    };
    let facts = failure.fields();
    let mut printed = Failure::new(kind, operation, failure.message).with_facts(facts);
    if let Some(code) = failure.code {
        printed = printed.with_code(code_out(code));
    }
    let hint = failure.hint;
    match hint.or_else(|| failure.code.and_then(|code| credential_hint(code_out(code))).map(str::to_owned)) {
        Some(hint) => printed.with_hint(hint),
        None => printed,
    }
}

/// gRPC's number, as the machine has it.
pub(super) fn code_in(code: Code) -> CoreCode {
    match code {
        // An OK that came as an error is a broken connection's.
        Code::Ok | Code::Unknown => CoreCode::Unknown,
        Code::Cancelled => CoreCode::Cancelled,
        Code::InvalidArgument => CoreCode::InvalidArgument,
        Code::DeadlineExceeded => CoreCode::DeadlineExceeded,
        Code::NotFound => CoreCode::NotFound,
        Code::AlreadyExists => CoreCode::AlreadyExists,
        Code::PermissionDenied => CoreCode::PermissionDenied,
        Code::ResourceExhausted => CoreCode::ResourceExhausted,
        Code::FailedPrecondition => CoreCode::FailedPrecondition,
        Code::Aborted => CoreCode::Aborted,
        Code::OutOfRange => CoreCode::OutOfRange,
        Code::Unimplemented => CoreCode::Unimplemented,
        Code::Internal => CoreCode::Internal,
        Code::Unavailable => CoreCode::Unavailable,
        Code::DataLoss => CoreCode::DataLoss,
        Code::Unauthenticated => CoreCode::Unauthenticated,
    }
}

pub(super) fn code_out(code: CoreCode) -> Code {
    match code {
        CoreCode::Cancelled => Code::Cancelled,
        CoreCode::Unknown => Code::Unknown,
        CoreCode::InvalidArgument => Code::InvalidArgument,
        CoreCode::DeadlineExceeded => Code::DeadlineExceeded,
        CoreCode::NotFound => Code::NotFound,
        CoreCode::AlreadyExists => Code::AlreadyExists,
        CoreCode::PermissionDenied => Code::PermissionDenied,
        CoreCode::ResourceExhausted => Code::ResourceExhausted,
        CoreCode::FailedPrecondition => Code::FailedPrecondition,
        CoreCode::Aborted => Code::Aborted,
        CoreCode::OutOfRange => Code::OutOfRange,
        CoreCode::Unimplemented => Code::Unimplemented,
        CoreCode::Internal => Code::Internal,
        CoreCode::Unavailable => Code::Unavailable,
        CoreCode::DataLoss => Code::DataLoss,
        CoreCode::Unauthenticated => Code::Unauthenticated,
    }
}
