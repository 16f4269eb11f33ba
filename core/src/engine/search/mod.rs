//! Search: which runs match a filter, and the language in which people write one.
//!
//! ```text
//! query     = [ condition { "AND" condition } ]
//! condition = "flowType"       ( "=" text | "IN" texts )
//!           | "status"         ( "=" status | "IN" "(" status { "," status } ")" )
//!           | "flowId"         ( "=" text | "IN" texts | "startsWith" text | "LIKE" text )
//!           | "startTime"      ( ">=" | ">" | "<" | "<=" ) time
//!           | "activeStepType" ( "=" text | "IN" texts )
//! texts     = "(" text { "," text } ")"
//! ```
//!
//! A text stands in single or double quotes, or bare if it is one word. A status is `running`,
//! `completed`, `failed`, `canceled` or `terminated`. A time is RFC 3339 (`2026-01-31T12:00:00Z`), a day in UTC
//! (`2026-01-31`), or milliseconds since 1970; it is compared in whole milliseconds. The pattern of
//! `LIKE` ends with its only `%`.

mod lexer;
mod parser;
mod time;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::call::{CallError, SearchFilter, Summary};
use crate::ids::Name;

/// A query that cannot be understood.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueryError {
    /// Where, in characters from 1.
    pub column: usize,
    /// What is wrong there and what to write instead.
    pub message: String,
}

impl fmt::Display for QueryError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "column {}: {}", self.column, self.message)
    }
}

impl core::error::Error for QueryError {}

impl From<QueryError> for CallError {
    fn from(error: QueryError) -> Self {
        Self::InvalidArgument { field: Name::new("query"), rule: Name::from(format!("{error}")) }
    }
}

/// Reads a query. The empty query matches every run.
///
/// # Errors
///
/// The first fault, with its place and what to write instead.
pub fn parse_query(query: &str) -> Result<SearchFilter, QueryError> {
    parser::parse(query)
}

/// Whether a run is what a search asks for. Empty parts of the filter match everything.
#[must_use]
pub fn matches(filter: &SearchFilter, run: &Summary) -> bool {
    let any_of = |wanted: &Vec<Name>, found: &Name| wanted.is_empty() || wanted.contains(found);
    any_of(&filter.flow_types, &run.flow_type)
        && any_of(&filter.flow_ids, &run.flow_id)
        && (filter.statuses.is_empty() || filter.statuses.contains(&run.status))
        && filter.flow_id_prefix.as_ref().is_none_or(|prefix| run.flow_id.starts_with(&**prefix))
        && filter.started_from.is_none_or(|from| run.start_time >= from)
        && filter.started_before.is_none_or(|before| run.start_time < before)
        && (filter.active_step_types.is_empty()
            || run.active_step_types.iter().any(|active| filter.active_step_types.contains(active)))
}

#[cfg(test)]
mod tests;
