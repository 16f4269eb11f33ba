//! The start-up probe: seven questions that a store must answer before a process trusts it (D-31).
//!
//! Everything rests on conditional writes. A store that accepts conditions and ignores them would let
//! two processes be active at once, so it is found out here, before any role (lesson C4).

use std::fmt;

use dexzd_core::ids::ProcessId;
use dexzd_core::store::{ReadOutcome, Version, WriteOutcome};

use super::{DeleteOutcome, ObjectStore};

/// One of the seven questions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProbeStep {
    /// An absent object is created.
    Create,
    /// A present one is not.
    CreateAgain,
    /// An update with the current version is accepted.
    UpdateGood,
    /// One with an old version is not.
    UpdateStale,
    /// One of a missing key is not.
    UpdateMissing,
    /// A missing key reads as missing.
    ReadMissing,
    /// A present key reads as its last version.
    ReadLast,
}

impl fmt::Display for ProbeStep {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Create => "create an absent object",
            Self::CreateAgain => "refuse to create an object that exists",
            Self::UpdateGood => "update an object with its current version",
            Self::UpdateStale => "refuse to update an object with an old version",
            Self::UpdateMissing => "refuse to update an object that does not exist",
            Self::ReadMissing => "report a missing object as missing",
            Self::ReadLast => "return the last version of an object",
        })
    }
}

/// Why a store is not used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProbeError {
    /// It gave a wrong answer.
    #[error(
        "the object store {store} does not {step} (it answered: {answer}): it cannot keep two servers apart and is not \
         used; key {key}"
    )]
    Unfit {
        /// Which store.
        store: String,
        /// The probe's object.
        key: String,
        /// What it got wrong.
        step: ProbeStep,
        /// What it answered.
        answer: &'static str,
    },
    /// It gave no answer that tells anything.
    #[error("the object store {store} was asked to {step}: {}; key {key}", trouble.as_deref().unwrap_or(answer))]
    Unavailable {
        /// Which store.
        store: String,
        /// The probe's object.
        key: String,
        /// The question.
        step: ProbeStep,
        /// In which way.
        answer: &'static str,
        /// Whether another try may help.
        transient: bool,
        /// What was wrong and what to do, where the store knows more.
        trouble: Option<String>,
    },
}

/// Asks the seven questions and deletes the object again. Returns the store's stamp of its last write,
/// in milliseconds since the Unix epoch, where it has one: the store's clock for D-2 (b).
///
/// # Errors
///
/// The store is unfit, or does not answer.
pub fn probe(store: &dyn ObjectStore, prefix: &str, process: ProcessId) -> Result<Option<u64>, ProbeError> {
    let probing = Probing { store, key: format!("{prefix}/probe/{process}") };
    let result = probing.run();
    // Also after a failure: a store that is unfit should at least be left clean.
    // The key carries the process id, so that it is never used again.
    let deleted = store.forget(&probing.key);
    let stamp = result?;
    match deleted {
        DeleteOutcome::Done | DeleteOutcome::Transient => Ok(stamp),
        DeleteOutcome::Permanent | DeleteOutcome::LocalFailure => {
            tracing::warn!(key = %probing.key, store = %store.name(), "the probe's object could not be deleted");
            Ok(stamp)
        }
    }
}

struct Probing<'a> {
    store: &'a dyn ObjectStore,
    key: String,
}

impl Probing<'_> {
    fn run(&self) -> Result<Option<u64>, ProbeError> {
        self.expect_missing(&self.key, ProbeStep::ReadMissing)?;
        let first = self.expect_done(self.store.create(&self.key, b"1"), ProbeStep::Create)?;
        self.expect_refused(self.store.create(&self.key, b"2"), ProbeStep::CreateAgain)?;
        let second = self.expect_done(self.store.replace(&self.key, b"3", &first), ProbeStep::UpdateGood)?;
        self.expect_refused(self.store.replace(&self.key, b"4", &first), ProbeStep::UpdateStale)?;
        let missing = format!("{}-missing", self.key);
        let answer = self.store.replace(&missing, b"5", &second);
        if matches!(answer, WriteOutcome::Done { .. }) {
            let _ = self.store.forget(&missing);
        }
        self.expect_refused(answer, ProbeStep::UpdateMissing)?;
        self.expect_missing(&missing, ProbeStep::ReadMissing)?;
        match self.store.read(&self.key) {
            ReadOutcome::Found { version, body, stamp_ms } if version == second && *body == *b"3" => {
                Ok(stamp_ms)
            }
            ReadOutcome::Found { .. } => Err(self.unfit(ProbeStep::ReadLast, "another version")),
            other @ (ReadOutcome::Missing
            | ReadOutcome::Transient { .. }
            | ReadOutcome::Permanent
            | ReadOutcome::LocalFailure) => Err(self.read_failure(&other, ProbeStep::ReadLast)),
        }
    }

    fn expect_done(&self, answer: WriteOutcome, step: ProbeStep) -> Result<Version, ProbeError> {
        if let WriteOutcome::Done { version } = answer {
            return Ok(version);
        }
        Err(self.write_failure(&answer, step))
    }

    fn expect_refused(&self, answer: WriteOutcome, step: ProbeStep) -> Result<(), ProbeError> {
        if answer == WriteOutcome::Refused {
            return Ok(());
        }
        Err(self.write_failure(&answer, step))
    }

    fn expect_missing(&self, key: &str, step: ProbeStep) -> Result<(), ProbeError> {
        let answer = self.store.read(key);
        if answer == ReadOutcome::Missing {
            return Ok(());
        }
        Err(self.read_failure(&answer, step))
    }

    fn unfit(&self, step: ProbeStep, answer: &'static str) -> ProbeError {
        ProbeError::Unfit { store: self.store.name(), key: self.key.clone(), step, answer }
    }

    fn write_failure(&self, answer: &WriteOutcome, step: ProbeStep) -> ProbeError {
        match answer {
            WriteOutcome::Transient { .. } => self.unavailable(step, "no certain answer", true),
            WriteOutcome::Permanent => self.unavailable(step, "denied or not supported", false),
            WriteOutcome::LocalFailure => self.unavailable(step, "the local disk failed", false),
            WriteOutcome::LockReplaced => self.unavailable(step, "dev.lock was replaced", false),
            WriteOutcome::Done { .. } => self.unfit(step, "done"),
            WriteOutcome::Refused => self.unfit(step, "refused"),
        }
    }

    fn read_failure(&self, answer: &ReadOutcome, step: ProbeStep) -> ProbeError {
        match answer {
            ReadOutcome::Transient { .. } => self.unavailable(step, "no certain answer", true),
            ReadOutcome::Permanent => self.unavailable(step, "denied or not supported", false),
            ReadOutcome::LocalFailure => self.unavailable(step, "the local disk failed", false),
            ReadOutcome::Missing => self.unfit(step, "missing"),
            ReadOutcome::Found { .. } => self.unfit(step, "found"),
        }
    }

    fn unavailable(&self, step: ProbeStep, answer: &'static str, transient: bool) -> ProbeError {
        let trouble = self.store.trouble().map(|trouble| trouble.text);
        ProbeError::Unavailable {
            store: self.store.name(),
            key: self.key.clone(),
            step,
            answer,
            transient,
            trouble,
        }
    }
}

#[cfg(test)]
#[path = "probe_tests.rs"]
mod tests;
