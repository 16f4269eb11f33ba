//! The figures, what they are to reach, and how they are told.

use serde_json::{Value, json};

/// Figures that are measured together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Group {
    /// Three SYNC Steps, one client
    Sync,
    /// Three SYNC Steps, 64 clients
    Throughput,
    /// Three ASYNC Steps, one client
    Async,
    /// Resident memory with waiting Flows
    Memory,
    /// From kill -9 to the first served call
    Restart,
    /// CPU with waiting Flows
    Idle,
}

/// One number.
#[derive(Clone, Copy, Debug)]
pub(super) enum Figure {
    SyncP50,
    SyncP99,
    FlowsPerSecond,
    LoadedP50,
    AsyncP50,
    Memory { open: u32 },
    Restart { open: u32 },
    IdleCpu { open: u32 },
}

/// What a figure is to reach.
#[derive(Clone, Copy, Debug)]
enum Target {
    AtMost(f64),
    AtLeast(f64),
}

impl Figure {
    fn name(self) -> String {
        match self {
            Self::SyncP50 => "three SYNC Steps, one client, p50".to_owned(),
            Self::SyncP99 => "three SYNC Steps, one client, p99".to_owned(),
            Self::FlowsPerSecond => "three SYNC Steps, 64 clients, Flows per second".to_owned(),
            Self::LoadedP50 => "three SYNC Steps, 64 clients, p50".to_owned(),
            Self::AsyncP50 => "three ASYNC Steps, one client, p50".to_owned(),
            Self::Memory { open } => format!("resident memory, {open} waiting Flows"),
            Self::Restart { open } => format!("kill -9 to first served call, {open} open Flows"),
            Self::IdleCpu { open } => format!("idle CPU, {open} waiting Flows"),
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Self::SyncP50 | Self::SyncP99 | Self::LoadedP50 | Self::AsyncP50 => "ms",
            Self::FlowsPerSecond => "Flows/s",
            Self::Memory { .. } => "MB",
            Self::Restart { .. } => "s",
            Self::IdleCpu { .. } => "% of a core",
        }
    }

    fn target(self) -> Target {
        match self {
            Self::SyncP50 => Target::AtMost(4.0),
            Self::SyncP99 => Target::AtMost(10.0),
            Self::FlowsPerSecond => Target::AtLeast(3_000.0),
            Self::LoadedP50 => Target::AtMost(25.0),
            Self::AsyncP50 => Target::AtMost(2.0),
            Self::Memory { .. } => Target::AtMost(400.0),
            Self::Restart { .. } | Self::IdleCpu { .. } => Target::AtMost(1.0),
        }
    }
}

impl Target {
    fn is_met(self, value: f64) -> bool {
        match self {
            Self::AtMost(limit) => value <= limit,
            Self::AtLeast(limit) => value >= limit,
        }
    }

    fn number(self) -> f64 {
        match self {
            Self::AtMost(limit) | Self::AtLeast(limit) => limit,
        }
    }

    fn sign(self) -> char {
        match self {
            Self::AtMost(_) => '\u{2264}',
            Self::AtLeast(_) => '\u{2265}',
        }
    }
}

/// Collects figures for a table, or prints each as a line of JSON at once.
#[derive(Debug)]
pub(super) struct Figures {
    json: bool,
    table: Vec<String>,
}

impl Figures {
    pub(super) fn new(json: bool) -> Self {
        Self { json, table: Vec::new() }
    }

    /// Takes a measured value; one that could not be measured is reported as missing and missed.
    pub(super) fn report(&mut self, figure: Figure, value: &Value) {
        let value = value.as_f64();
        if self.json {
            println!("{}", json_line(figure, value));
        } else {
            self.table.push(table_line(figure, value));
        }
    }

    pub(super) fn finish(&self) {
        for line in &self.table {
            println!("{line}");
        }
    }
}

fn json_line(figure: Figure, value: Option<f64>) -> Value {
    let target = figure.target();
    json!({
        "figure": figure.name(),
        "value": value.map(rounded),
        "unit": figure.unit(),
        "target": target.number(),
        "met": value.is_some_and(|value| target.is_met(value)),
    })
}

fn table_line(figure: Figure, value: Option<f64>) -> String {
    let target = figure.target();
    let met = if value.is_some_and(|value| target.is_met(value)) { "met" } else { "missed" };
    let value = value.map_or("-".to_owned(), |value| rounded(value).to_string());
    format!(
        "{:<50} {value:>10} {:<12} {} {:<8} {met}",
        figure.name(),
        figure.unit(),
        target.sign(),
        target.number()
    )
}

/// Three digits after the point: more are noise.
fn rounded(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::{Figure, json_line, table_line};

    #[test]
    fn a_figure_is_one_line_of_json() {
        assert_eq!(
            json_line(Figure::SyncP50, Some(3.99951)).to_string(),
            r#"{"figure":"three SYNC Steps, one client, p50","value":4.0,"unit":"ms","target":4.0,"met":true}"#
        );
        let missed = json_line(Figure::FlowsPerSecond, Some(2_999.0));
        assert_eq!(missed["met"], false);
        assert_eq!(json_line(Figure::Restart { open: 5 }, None)["met"], false);
    }

    #[test]
    fn a_table_shows_value_unit_target_and_verdict() {
        assert_eq!(
            table_line(Figure::Memory { open: 1_000_000 }, Some(399.5)),
            "resident memory, 1000000 waiting Flows                  399.5 MB           \u{2264} 400      met"
        );
    }
}
