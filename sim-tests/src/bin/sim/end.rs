//! How a command ends.

use std::path::Path;
use std::process::ExitCode;

use dexzd_sim_tests::attempt::Fault;
use dexzd_sim_tests::log_file::Refusal;

/// Each has an exit code of its own, which `--help` and docs/simulator.md list.
#[derive(Debug)]
pub(crate) enum End {
    /// 0.
    Well,
    /// 1: told already.
    RuleBroken,
    /// 2, with one line.
    Usage(String),
    /// 3, with one line.
    Unreadable(String),
    /// 4, with one line.
    OtherVersion(String),
    /// 5: told already.
    SimulatorFault,
}

impl End {
    pub(crate) fn code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Well => 0,
            Self::RuleBroken => 1,
            Self::Usage(_) => 2,
            Self::Unreadable(_) => 3,
            Self::OtherVersion(_) => 4,
            Self::SimulatorFault => 5,
        })
    }

    pub(crate) fn of(fault: Option<&Fault>) -> Self {
        match fault {
            None => Self::Well,
            Some(fault) if fault.is_the_simulators() => Self::SimulatorFault,
            Some(_) => Self::RuleBroken,
        }
    }

    /// A file that cannot be written is one that cannot be read, as far as anybody cares.
    pub(crate) fn of_file(path: &Path, error: &std::io::Error) -> Self {
        Self::Unreadable(format!("{}: {error}", path.display()))
    }
}

impl From<Refusal> for End {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Unreadable(text) => Self::Unreadable(text),
            Refusal::OtherVersion(text) => Self::OtherVersion(text),
        }
    }
}
