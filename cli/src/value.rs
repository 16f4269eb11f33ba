//! Application values on the command line: JSON in, JSON out.

use std::io::Read as _;

use dexzd_proto::attribute_value::Kind as AttributeKind;
use dexzd_proto::{AttributeEntry, AttributeValue, Key, Value};

use crate::failure::{Failure, Kind};

/// The encoding that `dexcli` and the SDK's serde values share.
pub(crate) const JSON_ENCODING: &str = "json";

/// Reads `JSON`, `@file` or `-` (standard input) and checks that it is JSON.
pub(crate) fn read(operation: &str, flag: &str, argument: &str) -> Result<Value, Failure> {
    let (text, origin) = match argument {
        "-" => {
            let mut text = String::new();
            std::io::stdin()
                .read_to_string(&mut text)
                .map_err(|error| unreadable(operation, flag, "standard input", &error))?;
            (text, "standard input")
        }
        _ => match argument.strip_prefix('@') {
            Some(path) => {
                let text = std::fs::read_to_string(path)
                    .map_err(|error| unreadable(operation, flag, path, &error))?;
                (text, path)
            }
            None => (argument.to_owned(), argument),
        },
    };
    // Compact, so that the same value always is the same bytes.
    let json: serde_json::Value = serde_json::from_str(&text).map_err(|error| {
        let message = format!("{flag}: {origin} is not JSON: {error}");
        Failure::new(Kind::Usage, operation, message)
            .with_hint("A JSON text needs its own quotes: '\"hello\"'. @file reads a file, - standard input.")
    })?;
    Ok(from_json(&json))
}

/// A JSON value as the server stores it.
pub(crate) fn from_json(json: &serde_json::Value) -> Value {
    Value { encoding: JSON_ENCODING.to_owned(), data: json.to_string().into_bytes() }
}

/// Parses `NAME=JSON` into an Attribute write: texts, numbers and truth values keep their type.
pub(crate) fn attribute(operation: &str, argument: &str) -> Result<AttributeEntry, Failure> {
    let usage = |message: String| {
        Failure::new(Kind::Usage, operation, message)
            .with_hint("For example: --attribute customer='\"Ada\"' --attribute amount=42")
    };
    let Some((name, text)) = argument.split_once('=') else {
        return Err(usage(format!("--attribute: {argument:?} has no =")));
    };
    if name.is_empty() {
        return Err(usage(format!("--attribute: {argument:?} has no name before the =")));
    }
    let json: serde_json::Value = serde_json::from_str(text)
        .map_err(|error| usage(format!("--attribute: {text:?} is not JSON: {error}")))?;
    let kind = match &json {
        serde_json::Value::Null => {
            return Err(usage(format!("--attribute: {name} is null, and null means absent")));
        }
        serde_json::Value::Bool(value) => AttributeKind::BoolValue(*value),
        serde_json::Value::String(value) => AttributeKind::StringValue(value.clone()),
        serde_json::Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => AttributeKind::IntValue(integer),
            (None, Some(double)) => AttributeKind::DoubleValue(double),
            (None, None) => {
                return Err(usage(format!("--attribute: {text} is too large a number")));
            }
        },
        serde_json::Value::Array(_) | serde_json::Value::Object(_) => {
            AttributeKind::ObjectValue(from_json(&json))
        }
    };
    Ok(AttributeEntry {
        key: Some(Key { name: name.to_owned(), instance: None }),
        value: Some(AttributeValue { kind: Some(kind) }),
    })
}

fn unreadable(operation: &str, flag: &str, origin: &str, error: &std::io::Error) -> Failure {
    Failure::new(Kind::Usage, operation, format!("{flag}: cannot read {origin}: {error}"))
}

#[cfg(test)]
#[path = "value_tests.rs"]
mod tests;
