//! Reads tokens into a filter.

use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use super::QueryError;
use super::lexer::{Placed, Token, tokens};
use super::time::parse_time;
use crate::engine::call::SearchFilter;
use crate::engine::model::FlowStatus;
use crate::ids::Name;

/// The fields that a search knows.
const FIELDS: &str = "flowType, status, flowId, startTime or activeStepType";

/// Every status, as people write it.
const STATUSES: [(&str, FlowStatus); 5] = [
    ("running", FlowStatus::Running),
    ("completed", FlowStatus::Completed),
    ("failed", FlowStatus::Failed),
    ("canceled", FlowStatus::Canceled),
    ("terminated", FlowStatus::Terminated),
];

pub(super) fn parse(query: &str) -> Result<SearchFilter, QueryError> {
    let mut parser = Parser { tokens: tokens(query)?.into(), filter: SearchFilter::default() };
    if parser.peek().token == Token::End {
        return Ok(parser.filter);
    }
    loop {
        parser.condition()?;
        let next = parser.take();
        match &next.token {
            Token::End => return Ok(parser.filter),
            Token::Word(word) if word.eq_ignore_ascii_case("and") => {}
            Token::Word(word) if word.eq_ignore_ascii_case("or") => {
                return Err(next.fault(
                    "OR is not supported: use IN (…) for several values of one field, or search twice".into(),
                ));
            }
            Token::Word(_)
            | Token::Quoted(_)
            | Token::Operator(_)
            | Token::Open
            | Token::Close
            | Token::Comma => return Err(next.expected("AND or the end of the query")),
        }
    }
}

struct Parser {
    tokens: VecDeque<Placed>,
    filter: SearchFilter,
}

impl Parser {
    fn peek(&self) -> &Placed {
        self.tokens.front().expect("the end is never taken")
    }

    /// The next token; the end stays.
    fn take(&mut self) -> Placed {
        match self.tokens.len() {
            1 => self.peek().clone(),
            _ => self.tokens.pop_front().expect("the end is never taken"),
        }
    }

    fn condition(&mut self) -> Result<(), QueryError> {
        let field = self.take();
        let Token::Word(name) = &field.token else {
            return Err(field.expected(FIELDS));
        };
        match name.as_str() {
            "flowType" => {
                let names = self.names(&field)?;
                set(&field, &mut self.filter.flow_types, names)
            }
            "activeStepType" => {
                let names = self.names(&field)?;
                set(&field, &mut self.filter.active_step_types, names)
            }
            "status" => {
                let statuses = self.values(&field)?.iter().map(status).collect::<Result<Vec<_>, _>>()?;
                set(&field, &mut self.filter.statuses, statuses)
            }
            "flowId" => self.flow_id(&field),
            "startTime" => self.start_time(),
            _ => Err(field.fault(field_hint(name))),
        }
    }

    fn flow_id(&mut self, field: &Placed) -> Result<(), QueryError> {
        let keyword = self.peek().clone();
        let prefix = if keyword.is_keyword("startsWith") {
            let _ = self.take();
            let text = self.take();
            text.text().ok_or_else(|| text.expected("a text"))?
        } else if keyword.is_keyword("LIKE") {
            let _ = self.take();
            let pattern = self.take();
            let text = pattern.text().ok_or_else(|| pattern.expected("a pattern, as in \"order-%\""))?;
            match text.strip_suffix('%') {
                Some(prefix) if !prefix.contains('%') => prefix.to_string(),
                Some(_) | None => {
                    return Err(pattern.fault(
                        "a pattern has one % and ends with it, as in flowId LIKE \"order-%\"".into(),
                    ));
                }
            }
        } else {
            let names = self.names(field)?;
            return set(field, &mut self.filter.flow_ids, names);
        };
        if self.filter.flow_id_prefix.is_some() {
            return Err(keyword.fault("flowId has two beginnings: keep the longer one".into()));
        }
        self.filter.flow_id_prefix = Some(Name::from(prefix));
        Ok(())
    }

    /// Several bounds narrow each other.
    fn start_time(&mut self) -> Result<(), QueryError> {
        const MILLISECOND: Duration = Duration::from_millis(1);
        let operator = self.take();
        let Token::Operator(name) = operator.token else {
            return Err(operator.expected(">=, >, < or <="));
        };
        if !matches!(name, ">=" | ">" | "<" | "<=") {
            return Err(operator.fault(format!(
                "startTime cannot be compared by {name}: use >= and <, as in startTime >= \"2026-01-31\" AND \
                 startTime < \"2026-02-01\""
            )));
        }
        let value = self.take();
        let text = value.text().ok_or_else(|| value.expected("a time"))?;
        let time = parse_time(&text).ok_or_else(|| {
            value.fault(format!(
                "{text:?} is not a time: write 2026-01-31T12:00:00Z, a day such as 2026-01-31, or milliseconds \
                 since 1970"
            ))
        })?;
        let bound = match name {
            ">=" | "<" => time,
            _ => time.saturating_add(MILLISECOND),
        };
        let filter = &mut self.filter;
        if name.starts_with('>') {
            filter.started_from = Some(filter.started_from.map_or(bound, |from| from.max(bound)));
        } else {
            filter.started_before = Some(filter.started_before.map_or(bound, |before| before.min(bound)));
        }
        Ok(())
    }

    fn names(&mut self, field: &Placed) -> Result<Vec<Name>, QueryError> {
        let values = self.values(field)?;
        Ok(values.iter().filter_map(Placed::text).map(Name::from).collect())
    }

    /// `= value` or `IN (value, …)`; every token returned is a text.
    fn values(&mut self, field: &Placed) -> Result<Vec<Placed>, QueryError> {
        let operator = self.take();
        match &operator.token {
            Token::Operator("=" | "==") => Ok(vec![self.value()?]),
            Token::Operator("!=" | "<>") => {
                Err(operator.fault("exclusion is not supported: name what is wanted with = or IN (…)".into()))
            }
            Token::Word(_) if operator.is_keyword("IN") => self.list(),
            Token::Word(word) if ["not", "like", "startswith"].contains(&word.to_lowercase().as_str()) => {
                Err(operator.fault(format!(
                    "{word} is not supported for {}: name what is wanted with = or IN (…)",
                    field.describe()
                )))
            }
            Token::Operator(name) => {
                Err(operator
                    .fault(format!("{} cannot be compared by {name}: use = or IN (…)", field.describe())))
            }
            Token::Word(_) | Token::Quoted(_) | Token::Open | Token::Close | Token::Comma | Token::End => {
                Err(operator.expected("= or IN (…)"))
            }
        }
    }

    fn list(&mut self) -> Result<Vec<Placed>, QueryError> {
        let open = self.take();
        if open.token != Token::Open {
            return Err(open.expected("( and the values, as in IN (\"a\", \"b\")"));
        }
        let mut values = vec![self.value()?];
        loop {
            let next = self.take();
            match next.token {
                Token::Comma => values.push(self.value()?),
                Token::Close => return Ok(values),
                Token::Word(_) | Token::Quoted(_) | Token::Operator(_) | Token::Open | Token::End => {
                    return Err(next.expected(", and another value, or )"));
                }
            }
        }
    }

    fn value(&mut self) -> Result<Placed, QueryError> {
        let value = self.take();
        match value.text() {
            Some(text) if text.is_empty() => {
                Err(value.fault("this text is empty: it would match nothing".into()))
            }
            Some(_) => Ok(value),
            None => Err(value.expected("a text, as in \"Order\"")),
        }
    }
}

impl Placed {
    fn text(&self) -> Option<String> {
        match &self.token {
            Token::Word(text) | Token::Quoted(text) => Some(text.clone()),
            Token::Operator(_) | Token::Open | Token::Close | Token::Comma | Token::End => None,
        }
    }

    fn is_keyword(&self, keyword: &str) -> bool {
        matches!(&self.token, Token::Word(word) if word.eq_ignore_ascii_case(keyword))
    }

    fn describe(&self) -> String {
        match &self.token {
            Token::Word(word) => word.clone(),
            Token::Quoted(text) => format!("{text:?}"),
            Token::Operator(operator) => (*operator).to_string(),
            Token::Open => "(".to_string(),
            Token::Close => ")".to_string(),
            Token::Comma => ",".to_string(),
            Token::End => "the end".to_string(),
        }
    }

    fn expected(&self, what: &str) -> QueryError {
        self.fault(format!("found {}, expected {what}", self.describe()))
    }

    fn fault(&self, message: String) -> QueryError {
        QueryError { column: self.column, message }
    }
}

/// A field is given once: two lists for one field would have to be intersected, and IN says it better.
fn set<T>(field: &Placed, part: &mut Vec<T>, values: Vec<T>) -> Result<(), QueryError> {
    if !part.is_empty() {
        let name = field.describe();
        return Err(field.fault(format!("{name} is given twice: use {name} IN (…) for several values")));
    }
    *part = values;
    Ok(())
}

fn status(value: &Placed) -> Result<FlowStatus, QueryError> {
    let text = value.text().unwrap_or_default();
    let known = STATUSES.iter().find(|(name, _)| name.eq_ignore_ascii_case(&text));
    known.map(|(_, status)| *status).ok_or_else(|| {
        value.fault(format!(
            "{text:?} is not a status: use running, completed, failed, canceled or terminated"
        ))
    })
}

fn field_hint(name: &str) -> String {
    let fields = ["flowType", "status", "flowId", "startTime", "activeStepType"];
    let plain = |text: &str| text.replace(['_', '-'], "").to_lowercase();
    match fields.iter().find(|field| plain(field) == plain(name)) {
        Some(field) => format!("{name} is not a field: write {field}"),
        None => format!("{name} is not a field: use {FIELDS}"),
    }
}
