//! Values as they travel: JSON under the encoding name `json`, and typed Attribute values.

use dexzd_proto as proto;
use proto::attribute_value::Kind;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The encoding name of every value that this library writes.
pub const JSON: &str = "json";

/// The largest value the server accepts, encoded: 1 MiB. Larger things belong into a store of the
/// application's own, with a reference in the Flow.
pub const VALUE_BYTES: usize = 1 << 20;

/// A value could not be written as JSON, or read as the type that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// The type's `Serialize` failed.
    #[error("cannot write a {type_name} as JSON: {message}")]
    Encode {
        /// The Rust type.
        type_name: &'static str,
        /// What serde said.
        message: String,
    },
    /// The value is there, and is something else.
    #[error("cannot read {found} as a {type_name}: {message}")]
    Decode {
        /// The Rust type asked for.
        type_name: &'static str,
        /// The encoding and size of what was found.
        found: String,
        /// What serde said.
        message: String,
    },
    /// The value is larger than the server accepts.
    #[error(
        "a {type_name} is {bytes} bytes as JSON, and a value has at most {VALUE_BYTES}: store it elsewhere and \
         pass a reference"
    )]
    TooLarge {
        /// The Rust type.
        type_name: &'static str,
        /// Its size as JSON.
        bytes: usize,
    },
}

/// Writes a value as JSON.
pub fn encode<T: Serialize + ?Sized>(value: &T) -> Result<proto::Value, ValueError> {
    let data = serde_json::to_vec(value).map_err(|error| encode_error::<T>(&error))?;
    if data.len() > VALUE_BYTES {
        return Err(ValueError::TooLarge { type_name: std::any::type_name::<T>(), bytes: data.len() });
    }
    Ok(proto::Value { encoding: JSON.to_owned(), data })
}

/// Reads a JSON value. An absent value reads as `null`, so `()` and `Option<T>` accept it.
pub fn decode<T: DeserializeOwned>(value: Option<&proto::Value>) -> Result<T, ValueError> {
    let Some(value) = value else {
        return serde_json::from_slice(b"null")
            .map_err(|error| decode_error::<T>("an absent value".to_owned(), &error));
    };
    if value.encoding != JSON {
        return Err(ValueError::Decode {
            type_name: std::any::type_name::<T>(),
            found: describe(value),
            message: format!("this library reads the encoding {JSON:?} only"),
        });
    }
    serde_json::from_slice(&value.data).map_err(|error| decode_error::<T>(describe(value), &error))
}

/// Writes an Attribute: text, integers, doubles and truth values keep their type so that they can be
/// searched and compared; `null` deletes; everything else travels as JSON.
pub(crate) fn encode_attribute<T: Serialize + ?Sized>(
    value: &T,
) -> Result<proto::AttributeValue, ValueError> {
    let json = serde_json::to_value(value).map_err(|error| encode_error::<T>(&error))?;
    let kind = match json {
        serde_json::Value::Null => None,
        serde_json::Value::Bool(value) => Some(Kind::BoolValue(value)),
        serde_json::Value::String(text) => {
            if text.len() > VALUE_BYTES {
                return Err(ValueError::TooLarge {
                    type_name: std::any::type_name::<T>(),
                    bytes: text.len(),
                });
            }
            Some(Kind::StringValue(text))
        }
        serde_json::Value::Number(number) => {
            match (number.as_i64(), number.is_f64(), number.as_f64()) {
                (Some(integer), _, _) => Some(Kind::IntValue(integer)),
                (None, true, Some(double)) => Some(Kind::DoubleValue(double)),
                // Above the 64-bit integers: JSON keeps it exactly.
                (None, _, _) => Some(Kind::ObjectValue(encode(value)?)),
            }
        }
        serde_json::Value::Array(_) | serde_json::Value::Object(_) => Some(Kind::ObjectValue(encode(value)?)),
    };
    Ok(proto::AttributeValue { kind })
}

/// Reads an Attribute as the type its handle declares; None for a deleted one.
pub(crate) fn decode_attribute<T: DeserializeOwned>(
    value: &proto::AttributeValue,
) -> Result<Option<T>, ValueError> {
    let json = match &value.kind {
        None => return Ok(None),
        Some(Kind::ObjectValue(object)) => return decode(Some(object)).map(Some),
        Some(Kind::StringValue(text)) => serde_json::Value::from(text.as_str()),
        Some(Kind::IntValue(integer)) => serde_json::Value::from(*integer),
        Some(Kind::DoubleValue(double)) => serde_json::Value::from(*double),
        Some(Kind::BoolValue(value)) => serde_json::Value::from(*value),
    };
    let found = format!("the Attribute value {json}");
    serde_json::from_value(json).map(Some).map_err(|error| decode_error::<T>(found, &error))
}

fn describe(value: &proto::Value) -> String {
    format!("{} bytes of {:?}", value.data.len(), value.encoding)
}

fn encode_error<T: ?Sized>(error: &serde_json::Error) -> ValueError {
    ValueError::Encode { type_name: std::any::type_name::<T>(), message: error.to_string() }
}

fn decode_error<T>(found: String, error: &serde_json::Error) -> ValueError {
    ValueError::Decode { type_name: std::any::type_name::<T>(), found, message: error.to_string() }
}

#[cfg(test)]
#[path = "value_tests.rs"]
mod tests;
