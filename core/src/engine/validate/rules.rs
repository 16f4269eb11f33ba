//! The rules for single fields, and how a field is named.

use alloc::format;
use alloc::string::{String, ToString};
use core::convert::Infallible;
use core::fmt;

use minicbor::Encode;
use minicbor::encode::Write;

use crate::engine::call::CallError;
use crate::engine::limits::{DURATION_MS, NAME_BYTES, REQUEST_BYTES, TEXT_BYTES, VALUE_BYTES};
use crate::engine::model::{AttributeValue, Key, Value};
use crate::ids::Name;

/// What every check gives.
pub(super) type Check = Result<(), CallError>;

/// Where a field stands. It is written out only when something is wrong with it.
#[derive(Clone, Copy)]
pub(super) struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    name: &'static str,
    index: Option<usize>,
}

impl<'a> Path<'a> {
    /// A field of the request itself.
    pub(super) const fn field(name: &'static str) -> Self {
        Self { parent: None, name, index: None }
    }

    /// A field of what stands here.
    pub(super) const fn child(&'a self, name: &'static str) -> Self {
        Self { parent: Some(self), name, index: None }
    }

    /// One item of the list that stands here.
    pub(super) const fn at(self, index: usize) -> Self {
        Self { index: Some(index), ..self }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            write!(formatter, "{parent}.")?;
        }
        formatter.write_str(self.name)?;
        self.index.map_or(Ok(()), |index| write!(formatter, "[{index}]"))
    }
}

/// The field is malformed.
pub(super) fn invalid(path: &Path<'_>, rule: String) -> Check {
    Err(CallError::InvalidArgument { field: Name::from(path.to_string()), rule: Name::from(rule) })
}

/// The field is well-formed and too big.
pub(super) fn exceeded(
    path: &dyn fmt::Display,
    found: usize,
    unit: &str,
    most: usize,
    advice: &str,
) -> Check {
    let limit = format!("{path} has {found} {unit}, at most {most} are allowed: {advice}");
    Err(CallError::LimitExceeded { limit: Name::from(limit) })
}

/// An ID, a type, a name: non-empty and at most [`NAME_BYTES`].
pub(super) fn name(path: &Path<'_>, name: &Name) -> Check {
    if name.is_empty() {
        return invalid(path, "is empty: it must have at least one character".into());
    }
    short_text(path, name)
}

/// Like a name, and may be empty.
pub(super) fn short_text(path: &Path<'_>, text: &Name) -> Check {
    if text.len() > NAME_BYTES {
        return invalid(
            path,
            format!(
                "{} has {} bytes, at most {NAME_BYTES} are allowed: choose a shorter one",
                abridged(text),
                text.len()
            ),
        );
    }
    Ok(())
}

/// The type of a Step that an application may schedule.
pub(super) fn step_type(path: &Path<'_>, step_type: &Name) -> Check {
    name(path, step_type)?;
    if step_type.starts_with('$') {
        return invalid(
            path,
            format!(
                "{} begins with $, which is reserved for the server: rename the Step",
                abridged(step_type)
            ),
        );
    }
    Ok(())
}

/// A text for people, from a client.
pub(super) fn text(path: &Path<'_>, text: &Name) -> Check {
    if text.len() > TEXT_BYTES {
        return invalid(
            path,
            format!("has {} bytes, at most {TEXT_BYTES} are allowed: shorten the text", text.len()),
        );
    }
    Ok(())
}

/// The key of an Attribute or Channel.
pub(super) fn key(path: &Path<'_>, key: &Key) -> Check {
    name(&path.child("name"), &key.name)?;
    let Some(instance) = &key.instance else {
        return Ok(());
    };
    let path = path.child("instance");
    name(&path, instance)?;
    if instance.contains('/') {
        return invalid(
            &path,
            format!(
                "{} contains a slash: an instance key must not, use another separator",
                abridged(instance)
            ),
        );
    }
    Ok(())
}

/// A value of the application.
pub(super) fn value(path: &Path<'_>, value: &Value) -> Check {
    short_text(&path.child("encoding"), &value.encoding)?;
    value_bytes(path, value.data.len())
}

/// A value of the application, if there is one.
pub(super) fn optional_value(path: &Path<'_>, given: Option<&Value>) -> Check {
    given.map_or(Ok(()), |given| value(path, given))
}

/// The value of an Attribute.
pub(super) fn attribute(path: &Path<'_>, given: &AttributeValue) -> Check {
    match given {
        AttributeValue::String(text) => value_bytes(path, text.len()),
        AttributeValue::Int(_) | AttributeValue::Double(_) | AttributeValue::Bool(_) => Ok(()),
        AttributeValue::Object(object) => value(path, object),
    }
}

fn value_bytes(path: &Path<'_>, bytes: usize) -> Check {
    if bytes > VALUE_BYTES {
        return exceeded(path, bytes, "bytes", VALUE_BYTES, "keep it elsewhere and pass a reference");
    }
    Ok(())
}

/// A list that may be empty.
pub(super) fn items(path: &Path<'_>, count: usize, most: usize) -> Check {
    if count > most {
        return exceeded(path, count, "items", most, "split them over several requests or Steps");
    }
    Ok(())
}

/// A list that may not be empty.
pub(super) fn some_items(path: &Path<'_>, count: usize, most: usize) -> Check {
    if count == 0 {
        return invalid(path, "is empty: give at least one".into());
    }
    items(path, count, most)
}

/// A duration that may be zero.
pub(super) fn duration(path: &Path<'_>, duration_ms: u64) -> Check {
    if duration_ms > DURATION_MS {
        return invalid(
            path,
            format!("{duration_ms} ms is longer than the longest duration, {DURATION_MS} ms (100 years)"),
        );
    }
    Ok(())
}

/// A duration that may be zero or absent.
pub(super) fn optional_duration(path: &Path<'_>, duration_ms: Option<u64>) -> Check {
    duration_ms.map_or(Ok(()), |duration_ms| duration(path, duration_ms))
}

/// A duration that may be absent and, if given, is not zero.
pub(super) fn optional_positive_duration(path: &Path<'_>, duration_ms: Option<u64>) -> Check {
    if duration_ms == Some(0) {
        return invalid(path, "is 0: give at least 1 ms, or leave it out for the default".into());
    }
    optional_duration(path, duration_ms)
}

/// Everything together, encoded: at most [`REQUEST_BYTES`].
pub(super) fn total_size<T: Encode<()>>(what: &str, whole: &T) -> Check {
    let mut size = ByteCount(0);
    match minicbor::encode(whole, &mut size) {
        Ok(()) => {}
        Err(_) => unreachable!("counting takes every byte"),
    }
    if size.0 > REQUEST_BYTES {
        return exceeded(
            &what,
            size.0,
            "bytes",
            REQUEST_BYTES,
            "send less at once, or keep large values elsewhere and pass references",
        );
    }
    Ok(())
}

/// Counts what an encoder writes.
struct ByteCount(usize);

impl Write for ByteCount {
    type Error = Infallible;

    fn write_all(&mut self, bytes: &[u8]) -> Result<(), Infallible> {
        self.0 += bytes.len();
        Ok(())
    }
}

/// The beginning of a text, quoted, for messages.
pub(super) fn abridged(text: &str) -> String {
    const SHOWN_CHARS: usize = 40;
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}
