//! What stands around every call, whatever it asks: its deadline, its count, and one code that is put right.

use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use tonic::{Code, Status};

use crate::telemetry::CallMetrics;

const GRPC_STATUS: &str = "grpc-status";

/// Answers a call within the deadline that its caller sent along: nobody waits for it afterwards. A stream counts as
/// answered once it is open.
pub(super) async fn around(State(calls): State<CallMetrics>, request: Request, next: Next) -> Response {
    let began = tokio::time::Instant::now();
    let path = request.uri().path().to_owned();
    let mut response = match timeout_of(request.headers()) {
        None => next.run(request).await,
        Some(limit) => match tokio::time::timeout(limit, next.run(request)).await {
            Ok(response) => response,
            Err(_) => Status::deadline_exceeded("the caller's deadline is over").into_http(),
        },
    };
    let mut code = code_of(response.headers());
    if code == Code::OutOfRange {
        // A message above the limit is refused by tonic so, before any service sees it. Like everything else that is
        // too big, it is RESOURCE_EXHAUSTED here; nothing of ours is OUT_OF_RANGE.
        code = Code::ResourceExhausted;
        response.headers_mut().insert(GRPC_STATUS, HeaderValue::from(code as u16));
    }
    calls.answered(&path, code, began.elapsed());
    response
}

/// An error is the head of its answer. What begins as a success may still fail on the way: a broken stream shows in
/// other metrics.
fn code_of(headers: &HeaderMap) -> Code {
    headers.get(GRPC_STATUS).map_or(Code::Ok, |status| Code::from_bytes(status.as_bytes()))
}

/// `grpc-timeout` is at most eight digits and a unit. One that is malformed is as good as none: the caller keeps its
/// own time anyway.
fn timeout_of(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: u64 = digits.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(number * 3_600)),
        "M" => Some(Duration::from_secs(number * 60)),
        "S" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_millis(number)),
        "u" => Some(Duration::from_micros(number)),
        "n" => Some(Duration::from_nanos(number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_digits_and_a_unit() {
        let parsed = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("grpc-timeout", text.parse().expect("a header"));
            timeout_of(&headers)
        };
        for (text, duration) in [
            ("2H", Some(Duration::from_secs(7_200))),
            ("3M", Some(Duration::from_secs(180))),
            ("30S", Some(Duration::from_secs(30))),
            ("250m", Some(Duration::from_millis(250))),
            ("7u", Some(Duration::from_micros(7))),
            ("99999999n", Some(Duration::from_nanos(99_999_999))),
            ("100000000m", None),
            ("S", None),
            ("", None),
            ("-1S", None),
            ("1s", None),
            ("1", None),
        ] {
            assert_eq!(parsed(text), duration, "{text}");
        }
        assert_eq!(timeout_of(&HeaderMap::new()), None);
    }
}
