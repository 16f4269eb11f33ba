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
    Memory {
        open: u32,
    },
    Restart {
        open: u32,
    },
    IdleCpu {
        open: u32,
    },
    /// From the last answer of the one who steps down to the first one of the other.
    Release {
        open: u32,
        rounds: u32,
    },
    Kill {
        lease_secs: u64,
        open: u32,
        rounds: u32,
    },
    /// The part of it from the lease to serving.
    Recovery {
        lease_secs: u64,
        open: u32,
        rounds: u32,
    },
    /// Recovery before so many Flows, divided by that before a tenth of them.
    RecoveryGrowth {
        open: u32,
    },
    ClientErrors {
        kills: u32,
        step_downs: u32,
    },
    LeaseWrites {
        lease_secs: u64,
    },
    SyncStep {
        put_ms: u32,
    },
    AsyncChain {
        put_ms: u32,
    },
    StoreFlows {
        put_ms: u32,
        clients: u32,
    },
}

/// What a figure is to reach.
#[derive(Clone, Copy, Debug)]
enum Target {
    AtMost(f64),
    AtLeast(f64),
    /// This, give or take so many percent.
    About(f64, f64),
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
            Self::Release { open, rounds } => {
                format!("release to first served call, {open} open Flows, p99 of {rounds}")
            }
            Self::Kill { lease_secs, open, rounds } => {
                format!(
                    "SIGKILL to first served call, lease {lease_secs} s, {open} open Flows, max of {rounds}"
                )
            }
            Self::Recovery { lease_secs, open, rounds } => {
                format!("of it recovery, lease {lease_secs} s, {open} open Flows, max of {rounds}")
            }
            Self::RecoveryGrowth { open } => format!("recovery, {open} open Flows to {}, p50", open / 10),
            Self::ClientErrors { kills, step_downs } => {
                format!("errors of SDK clients under load, {kills} kills and {step_downs} step downs")
            }
            Self::LeaseWrites { lease_secs } => format!("lease PUTs per hour, lease {lease_secs} s"),
            Self::SyncStep { put_ms } => format!("SYNC Step, {put_ms} ms PUT, p50 per Step"),
            Self::AsyncChain { put_ms } => format!("chain of 10 ASYNC Steps, {put_ms} ms PUT, p50"),
            Self::StoreFlows { put_ms, clients } => {
                format!("three SYNC Steps, {put_ms} ms PUT, {clients} clients, Flows per second")
            }
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Self::SyncP50
            | Self::SyncP99
            | Self::LoadedP50
            | Self::AsyncP50
            | Self::Release { .. }
            | Self::Recovery { .. }
            | Self::SyncStep { .. }
            | Self::AsyncChain { .. } => "ms",
            Self::FlowsPerSecond | Self::StoreFlows { .. } => "Flows/s",
            Self::Memory { .. } => "MB",
            Self::Restart { .. } | Self::Kill { .. } => "s",
            Self::RecoveryGrowth { .. } => "times",
            Self::ClientErrors { .. } => "errors",
            Self::LeaseWrites { .. } => "PUTs/h",
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
            Self::Release { .. } => Target::AtMost(500.0),
            // The rest of the lease, its second, and 0.8 s for everything else.
            Self::Kill { lease_secs, .. } => Target::AtMost(lease_secs as f64 + 1.8),
            Self::Recovery { .. } => Target::AtMost(300.0),
            // Flat; the rest is what two medians of few differ by.
            Self::RecoveryGrowth { .. } => Target::AtMost(1.5),
            Self::ClientErrors { .. } => Target::AtMost(0.0),
            // One for each third of the lease.
            Self::LeaseWrites { lease_secs } => Target::About(3_600.0 * 3.0 / lease_secs as f64, 2.0),
            Self::SyncStep { put_ms } => Target::AtMost(1.5 * f64::from(put_ms) + 5.0),
            Self::AsyncChain { put_ms } => Target::AtMost(2.0 * f64::from(put_ms) + 20.0),
            Self::StoreFlows { .. } => Target::AtLeast(2_000.0),
        }
    }
}

impl Target {
    fn is_met(self, value: f64) -> bool {
        match self {
            Self::AtMost(limit) => value <= limit,
            Self::AtLeast(limit) => value >= limit,
            Self::About(center, percent) => (value - center).abs() <= center * percent / 100.0,
        }
    }

    fn number(self) -> f64 {
        match self {
            Self::AtMost(limit) | Self::AtLeast(limit) | Self::About(limit, _) => limit,
        }
    }

    fn sign(self) -> char {
        match self {
            Self::AtMost(_) => '\u{2264}',
            Self::AtLeast(_) => '\u{2265}',
            Self::About(..) => '\u{2248}',
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

    /// Under which conditions: above the table, and apart from lines of JSON.
    pub(super) fn say(&mut self, text: &str) {
        if self.json {
            eprintln!("bench: {text}");
        } else {
            self.table.push(text.to_owned());
        }
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
        "{:<78} {value:>10} {:<12} {} {:<8} {met}",
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
            format!(
                "{:<78}      399.5 MB           \u{2264} 400      met",
                "resident memory, 1000000 waiting Flows"
            )
        );
    }

    #[test]
    fn a_target_may_be_a_value_to_be_near_to() {
        let writes = Figure::LeaseWrites { lease_secs: 60 };
        let is_met = |value| json_line(writes, Some(value))["met"] == true;
        assert!(is_met(180.0) && is_met(176.4) && is_met(183.6));
        assert!(!is_met(176.3) && !is_met(183.7));
        assert_eq!(json_line(writes, None)["target"], 180.0);
    }

    #[test]
    fn targets_follow_from_lease_and_store() {
        for (figure, target) in [
            (Figure::Kill { lease_secs: 10, open: 1, rounds: 1 }, 11.8),
            (Figure::Kill { lease_secs: 3, open: 1, rounds: 1 }, 4.8),
            (Figure::LeaseWrites { lease_secs: 10 }, 1_080.0),
            (Figure::SyncStep { put_ms: 50 }, 80.0),
            (Figure::AsyncChain { put_ms: 50 }, 120.0),
        ] {
            assert_eq!(json_line(figure, None)["target"], target);
        }
    }
}
