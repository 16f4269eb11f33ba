//! Where results and errors go.

use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;

use serde_json::Value;

use crate::args::Format;
use crate::failure::Failure;

/// How this run of the program talks.
#[derive(Debug)]
pub(crate) struct Output {
    format: Format,
    stderr_is_terminal: bool,
}

impl Output {
    /// Without a choice: tables for a terminal, JSON for a program.
    pub(crate) fn new(choice: Option<Format>) -> Self {
        let format =
            choice.unwrap_or(if std::io::stdout().is_terminal() { Format::Table } else { Format::Json });
        Self { format, stderr_is_terminal: std::io::stderr().is_terminal() }
    }

    /// Prints the one result of a command.
    pub(crate) fn result(&self, json: &Value, table: impl FnOnce(&Value) -> String) {
        match self.format {
            Format::Json => write_line(&pretty(json)),
            Format::Table => write_line(table(json).trim_end()),
        }
    }

    /// Prints one of many results: always one JSON object on one line.
    pub(crate) fn line(&self, json: &Value) {
        write_line(&json.to_string());
    }

    /// Says something to a person who watches, and nothing to a program.
    pub(crate) fn remark(&self, text: &str) {
        if self.explains_to_a_person() {
            eprintln!("{text}");
        }
    }

    /// Both streams are a person's: errors may be sentences.
    pub(crate) fn explains_to_a_person(&self) -> bool {
        self.format == Format::Table && self.stderr_is_terminal
    }

    /// A spinner with this text, drawn on stderr if that is a terminal.
    pub(crate) fn spinner(&self, text: String) -> indicatif::ProgressBar {
        if !self.stderr_is_terminal {
            return indicatif::ProgressBar::hidden();
        }
        let spinner = indicatif::ProgressBar::new_spinner().with_message(text);
        spinner.enable_steady_tick(std::time::Duration::from_millis(120));
        spinner
    }

    /// Prints the failure and says how the process ends.
    pub(crate) fn fail(&self, failure: &Failure) -> ExitCode {
        if self.explains_to_a_person() {
            eprintln!("{}", failure.sentence());
        } else {
            eprintln!("{}", failure.json());
        }
        ExitCode::from(failure.exit_code())
    }
}

fn pretty(json: &Value) -> String {
    serde_json::to_string_pretty(json).expect("a JSON value always has a text")
}

/// A reader that has seen enough and closed the pipe is no error.
fn write_line(text: &str) {
    let mut stdout = std::io::stdout().lock();
    if writeln!(stdout, "{text}").and_then(|()| stdout.flush()).is_err() {
        std::process::exit(0);
    }
}
