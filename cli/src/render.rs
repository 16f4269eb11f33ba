//! The API's messages as stable JSON, and that JSON as tables for people.
//!
//! Names are the protocol's in lowerCamelCase, moments are RFC 3339 in UTC with milliseconds, durations end
//! in `Ms`, enum values are lowerCamelCase, and what is absent is left out.

mod flow;
mod history;
mod parts;
mod table;
mod time;

pub(crate) use self::flow::{flow_result, server_info, state, summary};
pub(crate) use self::history::event;
pub(crate) use self::parts::status_name;
pub(crate) use self::table::{
    fields_table, history_table, inspect_table, publish_table, result_table, search_table, state_table,
    summary_table,
};

use serde_json::{Map, Value};

/// Builds a JSON object and leaves out what is absent.
#[derive(Debug, Default)]
pub(crate) struct Object(Map<String, Value>);

impl Object {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.insert(name.to_owned(), value.into());
        self
    }

    pub(crate) fn with_some(self, name: &str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// A text that is absent when empty, as protobuf has it.
    pub(crate) fn with_text(self, name: &str, text: &str) -> Self {
        self.with_some(name, Some(text).filter(|text| !text.is_empty()))
    }

    /// A list that is absent when empty.
    pub(crate) fn with_list(self, name: &str, list: impl IntoIterator<Item = Value>) -> Self {
        let list: Vec<Value> = list.into_iter().collect();
        if list.is_empty() { self } else { self.with(name, list) }
    }

    pub(crate) fn build(self) -> Value {
        Value::Object(self.0)
    }
}

#[cfg(test)]
mod tests;
