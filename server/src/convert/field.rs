//! The path of a field, and the checks that every kind of field shares.

use std::fmt;

use dexzd_core::engine::CallError;
use dexzd_core::engine::limits::DURATION_MS;
use dexzd_core::ids::{MessageId, Name, RunId};
use dexzd_core::time::Timestamp;

/// A request that is wrong by its form.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Invalid {
    pub(crate) field: String,
    pub(crate) rule: String,
}

impl From<Invalid> for CallError {
    fn from(invalid: Invalid) -> Self {
        Self::InvalidArgument { field: Name::from(invalid.field), rule: Name::from(invalid.rule) }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.field, self.rule)
    }
}

pub(super) type Checked<T> = Result<T, Invalid>;

/// A place in a message. It costs nothing until something there is wrong.
#[derive(Clone, Copy)]
pub(super) struct Field<'a> {
    parent: Option<&'a Field<'a>>,
    segment: Segment,
}

#[derive(Clone, Copy)]
enum Segment {
    Name(&'static str),
    Index(usize),
}

impl Field<'static> {
    /// A field of the message itself.
    pub(super) const fn top(name: &'static str) -> Self {
        Self { parent: None, segment: Segment::Name(name) }
    }
}

impl<'a> Field<'a> {
    pub(super) const fn child(&'a self, name: &'static str) -> Self {
        Self { parent: Some(self), segment: Segment::Name(name) }
    }

    pub(super) const fn index(&'a self, index: usize) -> Self {
        Self { parent: Some(self), segment: Segment::Index(index) }
    }

    pub(super) fn invalid(&self, rule: impl Into<String>) -> Invalid {
        Invalid { field: self.to_string(), rule: rule.into() }
    }
}

impl fmt::Display for Field<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(formatter)?;
        }
        match self.segment {
            Segment::Index(index) => write!(formatter, "[{index}]"),
            Segment::Name(name) if self.parent.is_some() => write!(formatter, ".{name}"),
            Segment::Name(name) => formatter.write_str(name),
        }
    }
}

/// A message that must be there.
pub(super) fn required<T>(field: Field<'_>, message: Option<T>) -> Checked<T> {
    message.ok_or_else(|| field.invalid("is missing and must be given"))
}

/// A known value of an enum.
pub(super) fn known<E: TryFrom<i32>>(field: Field<'_>, value: i32) -> Checked<E> {
    E::try_from(value).map_err(|_| {
        field.invalid(format!(
            "{value} is no value of this enum that the server knows; use one of its .proto file, or upgrade \
             the server before its clients"
        ))
    })
}

/// Every item, with its own path.
pub(super) fn all<M, T>(
    field: Field<'_>,
    messages: Vec<M>,
    convert: impl Fn(Field<'_>, M) -> Checked<T>,
) -> Checked<Vec<T>> {
    messages.into_iter().enumerate().map(|(index, message)| convert(field.index(index), message)).collect()
}

/// A duration in milliseconds: not negative, at most 100 years.
pub(super) fn duration_ms(field: Field<'_>, value: i64) -> Checked<u64> {
    u64::try_from(value).ok().filter(|value| *value <= DURATION_MS).ok_or_else(|| {
        field.invalid(format!(
            "{value} ms is no duration: it must be between 0 and {DURATION_MS} ms (100 years)"
        ))
    })
}

/// As [`duration_ms`], where there is one.
pub(super) fn optional_duration_ms(field: Field<'_>, value: Option<i64>) -> Checked<Option<u64>> {
    value.map(|value| duration_ms(field, value)).transpose()
}

pub(super) fn run_id(field: Field<'_>, text: &str) -> Checked<RunId> {
    RunId::parse(text)
        .ok_or_else(|| field.invalid(format!("{text:?} is no run ID: it has 32 hexadecimal digits")))
}

pub(super) fn message_id(field: Field<'_>, text: &str) -> Checked<MessageId> {
    MessageId::parse(text)
        .ok_or_else(|| field.invalid(format!("{text:?} is no message ID: it has 32 hexadecimal digits")))
}

/// Milliseconds since the Unix epoch, as the protocol has them.
pub(super) fn unix_ms(timestamp: Timestamp) -> i64 {
    i64::try_from(timestamp.as_millis()).unwrap_or(i64::MAX)
}
