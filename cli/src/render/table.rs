//! Tables for people, made from the JSON, so that both always say the same.

use comfy_table::{Table, presets};
use serde_json::Value;

/// The longest text of one cell, in characters: longer ones end in `…`. JSON output shows everything.
const CELL_CHARACTERS: usize = 72;

/// One line per field: used where an object is the result.
pub(crate) fn fields_table(json: &Value) -> String {
    let Value::Object(fields) = json else {
        return cell(json);
    };
    let mut table = plain();
    for (name, value) in fields {
        table.add_row([label(name), cell(value)]);
    }
    trimmed(&table)
}

pub(crate) fn summary_table(json: &Value) -> String {
    fields_table(json)
}

pub(crate) fn result_table(json: &Value) -> String {
    fields_table(json)
}

pub(crate) fn publish_table(json: &Value) -> String {
    fields_table(json)
}

pub(crate) fn search_table(json: &Value) -> String {
    let flows = list(json, "flows");
    if flows.is_empty() {
        return "no Flows".to_owned();
    }
    let columns = ["flowId", "flowType", "status", "startTime", "closeTime", "activeStepTypes", "runId"];
    with_next_page(rows(flows, &columns), json)
}

pub(crate) fn history_table(json: &Value) -> String {
    let events = list(json, "events");
    if events.is_empty() {
        return "no events".to_owned();
    }
    let mut table = plain();
    table.set_header(["#", "time", "event", "step", "attempt", "what"]);
    for event in events {
        table.add_row([
            cell(&event["number"]),
            cell(&event["time"]),
            cell(&event["type"]),
            cell(&event["step"]),
            cell(&event["attempt"]),
            what_happened(event),
        ]);
    }
    with_next_page(trimmed(&table), json)
}

pub(crate) fn state_table(json: &Value) -> String {
    let mut sections = Vec::new();
    if !json["summary"].is_null() {
        sections.push(fields_table(&json["summary"]));
    }
    let steps = list(json, "steps");
    if !steps.is_empty() {
        let columns =
            ["step", "phase", "method", "attempt", "sinceTime", "nextAttemptTime", "wait", "pendingReason"];
        sections.push(format!("Steps\n{}", rows(steps, &columns)));
    }
    let timers: Vec<Value> = steps.iter().flat_map(step_timers).collect();
    if !timers.is_empty() {
        let columns = ["step", "index", "conditionId", "dueTime", "fired", "skipped"];
        sections.push(format!("Timers\n{}", rows(&timers, &columns)));
    }
    for (title, name, columns) in [
        ("Attributes", "attributes", ["name", "value"]),
        ("Channels", "channels", ["channel", "messages"]),
        ("Outputs", "outputs", ["step", "value"]),
    ] {
        let entries = list(json, name);
        if !entries.is_empty() {
            sections.push(format!("{title}\n{}", rows(entries, &columns)));
        }
    }
    sections.join("\n\n")
}

pub(crate) fn inspect_table(json: &Value) -> String {
    format!("{}\n\nHistory\n{}", state_table(&json["state"]), history_table(&json["history"]))
}

fn step_timers(step: &Value) -> Vec<Value> {
    let timers = list(step, "timers").iter().enumerate();
    timers
        .map(|(index, timer)| {
            let mut timer = timer.clone();
            timer["step"] = step["step"].clone();
            timer["index"] = index.into();
            timer
        })
        .collect()
}

/// The one column of a history table that says what an event brought.
fn what_happened(event: &Value) -> String {
    for name in [
        "decision",
        "wait",
        "failure",
        "error",
        "outputs",
        "publications",
        "attributes",
        "deletions",
        "timer",
        "reason",
        "input",
        "status",
        "skipped",
    ] {
        if !event[name].is_null() {
            return cell(&event[name]);
        }
    }
    String::new()
}

fn rows(entries: &[Value], columns: &[&str]) -> String {
    let mut table = plain();
    table.set_header(columns.iter().map(|column| label(column)));
    for entry in entries {
        table.add_row(columns.iter().map(|column| cell(&entry[column])));
    }
    trimmed(&table)
}

fn with_next_page(table: String, json: &Value) -> String {
    match json["nextPageToken"].as_str() {
        Some(token) if !token.is_empty() => {
            format!("{table}\n\nmore: --page-token {token}, or --all")
        }
        Some(_) | None => table,
    }
}

fn plain() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table
}

/// Without the spaces that fill a table up on the right, and without those before its first column.
fn trimmed(table: &Table) -> String {
    let lines: Vec<String> =
        table.lines().map(|line| line.strip_prefix(' ').unwrap_or(&line).trim_end().to_owned()).collect();
    lines.join("\n")
}

fn list<'a>(json: &'a Value, name: &str) -> &'a [Value] {
    json[name].as_array().map_or(&[], Vec::as_slice)
}

/// `flowId` becomes `flow id`.
fn label(name: &str) -> String {
    let mut words = String::new();
    for character in name.chars() {
        if character.is_ascii_uppercase() {
            words.push(' ');
        }
        words.push(character.to_ascii_lowercase());
    }
    words
}

/// `anyOf: timer 1d (patience), 1 of shipped`
fn wait(wait: &Value) -> String {
    let conditions: Vec<String> = list(wait, "conditions").iter().map(condition).collect();
    let kind = wait["kind"].as_str().unwrap_or_default();
    if conditions.is_empty() { kind.to_owned() } else { format!("{kind}: {}", conditions.join(", ")) }
}

fn condition(condition: &Value) -> String {
    let mut text = match condition["channel"].as_str() {
        Some(channel) => format!("{} of {channel}", condition["atLeast"].as_u64().unwrap_or(1)),
        None => format!("timer {}", duration(condition["durationMs"].as_u64().unwrap_or_default())),
    };
    if let Some(id) = condition["conditionId"].as_str() {
        text.push_str(&format!(" ({id})"));
    }
    text
}

/// In the largest unit that is exact.
fn duration(duration_ms: u64) -> String {
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s")];
    match units.iter().find(|(unit_ms, _)| duration_ms > 0 && duration_ms.is_multiple_of(*unit_ms)) {
        Some((unit_ms, unit)) => format!("{}{unit}", duration_ms / unit_ms),
        None => format!("{duration_ms}ms"),
    }
}

fn cell(value: &Value) -> String {
    let text = match value {
        Value::Object(fields) if fields.contains_key("kind") && fields.contains_key("conditions") => {
            wait(value)
        }
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(values) if values.iter().all(Value::is_string) => {
            let texts: Vec<&str> = values.iter().filter_map(Value::as_str).collect();
            texts.join(", ")
        }
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    };
    let text: String = text.chars().map(|it| if it.is_control() { ' ' } else { it }).collect();
    if text.chars().count() <= CELL_CHARACTERS {
        return text;
    }
    let start: String = text.chars().take(CELL_CHARACTERS - 1).collect();
    format!("{start}…")
}
