//! Running other programs, and saying so.

use std::fmt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Why a task ended early: a text for the person who runs it.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Failure {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// The folder of the repository: where this package's folder lies. Asked when it runs, not when it is compiled:
/// clones that share one target folder share this program too.
pub(crate) fn repository() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    package.parent().expect("xtask lies in the repository").to_path_buf()
}

/// The cargo that started this task.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(arguments).current_dir(repository());
    command
}

/// Prints the command, runs it with this task's own streams, and fails if it does.
pub(crate) fn run(command: &mut Command) -> Result<(), Failure> {
    let line = line(command);
    println!("\n\u{25b8} {line}");
    let status = command.status().map_err(|error| Failure::new(format!("cannot run `{line}`: {error}")))?;
    if status.success() {
        return Ok(());
    }
    Err(Failure::new(format!("`{line}` failed ({status})")))
}

/// Whether the program exists and ends well; what it prints is dropped.
pub(crate) fn succeeds(program: &str, arguments: &[&str]) -> bool {
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// The command as it would be typed.
fn line(command: &Command) -> String {
    let program = PathBuf::from(command.get_program());
    let mut words = vec![program.file_name().unwrap_or_default().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|argument| argument.to_string_lossy().into_owned()));
    words.join(" ")
}
