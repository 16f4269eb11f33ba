//! What scripts about the lease share: a world in which every draw is the calm one, a story told line by
//! line, and the ways of single requests.

use std::cell::RefCell;
use std::rc::Rc;

use dexzd_core::lease::{LeaseOperation, LeaseState};
use dexzd_core::node::{AdminAnswer, StepDownOutcome};
use dexzd_io_sim::dice::{Dice, Script};
use dexzd_io_sim::lease_world::{LeaseConfig, LeaseWorld, Sent};
use dexzd_io_sim::watch::{Seen, Watcher, Watchers};
use dexzd_io_sim::weather::{Fate, Heard};
use dexzd_io_sim::{MILLISECOND, TrueTime};

use crate::runner::story;

/// A leg of a calm request.
pub const CALM: TrueTime = MILLISECOND;

/// What a story is told by: one line per fact, in true milliseconds.
///
/// ```text
/// 3335 p0 held 1              a lease write landed
/// 9900 p0 stops: lease_expired
/// 3336 p0 open until 13334    a gate, by its own clock
/// 3400 p0 shut                for good
/// 3500 p0 role releasing
/// 3501 p0 takes 2             a takeover write left
/// 3502 p0 releases 1          the first release of an epoch left
/// 3503 p0 asked               a call of AdminService
/// 3504 p0 answers taken over by epoch 2
/// ```
#[derive(Clone, Default, Debug)]
pub struct Notes(Rc<RefCell<Vec<String>>>);

impl Watcher for Notes {
    fn rule(&self) -> &'static str {
        "notes"
    }

    fn observe(&mut self, at: TrueTime, seen: &Seen<'_>) -> Result<(), String> {
        let at = at / MILLISECOND;
        let line = match seen {
            Seen::LeaseLanded { process, record } => {
                let state = if record.state == LeaseState::Held { "held" } else { "free" };
                format!("{at} p{process} {state} {}", record.epoch)
            }
            Seen::Died { process, reason: Some(reason) } => {
                format!("{at} p{process} stops: {}", reason.label())
            }
            Seen::GateOpen { process, until, .. } => {
                format!("{at} p{process} open until {}", until / MILLISECOND)
            }
            Seen::GateShut { process, .. } => format!("{at} p{process} shut"),
            Seen::RoleChanged { process, role, .. } => format!("{at} p{process} role {}", role.label()),
            Seen::TakeoverSent { process, epoch, .. } => format!("{at} p{process} takes {epoch}"),
            Seen::ReleaseSent { process, epoch } => format!("{at} p{process} releases {epoch}"),
            Seen::CallAsked { process, .. } => format!("{at} p{process} asked"),
            Seen::CallAnswered { process, answer, .. } => {
                format!("{at} p{process} answers {}", told(answer))
            }
            Seen::StoreRefused { process, fault } => format!("{at} p{process} refuses the store: {fault}"),
            _ => return Ok(()),
        };
        self.0.borrow_mut().push(line);
        Ok(())
    }
}

fn told(answer: &Result<AdminAnswer, dexzd_core::node::AdminError>) -> String {
    match answer {
        Ok(AdminAnswer::Described { epoch, .. }) => format!("epoch {epoch}"),
        Ok(AdminAnswer::SteppedDown { outcome, .. }) => match outcome {
            StepDownOutcome::TakenOver { active: Some(active) } => {
                format!("taken over by epoch {}", active.epoch)
            }
            StepDownOutcome::TakenOver { active: None } => "taken over and released again".to_owned(),
            StepDownOutcome::TakenBack { active } => format!("taken back as epoch {}", active.epoch),
            StepDownOutcome::Unknown { detail } => format!("unknown: {detail:?}"),
        },
        Err(error) => format!("{:?} ({})", error.code, error.reason),
    }
}

impl Notes {
    /// Every line.
    #[must_use]
    pub fn all(&self) -> Vec<String> {
        self.0.borrow().clone()
    }

    /// The lines from this moment on.
    #[must_use]
    pub fn since(&self, from_ms: u64) -> Vec<String> {
        self.0.borrow().iter().filter(|line| ms(line) >= from_ms).cloned().collect()
    }

    /// When the first line from this moment on comes that ends so.
    #[must_use]
    pub fn first_ms(&self, from_ms: u64, ending: &str) -> Option<u64> {
        self.since(from_ms).iter().find(|line| line.ends_with(ending)).map(|line| ms(line))
    }

    /// When the last line comes that ends so.
    #[must_use]
    pub fn last_ms(&self, ending: &str) -> Option<u64> {
        self.0.borrow().iter().rfind(|line| line.ends_with(ending)).map(|line| ms(line))
    }

    /// How many lines end so.
    #[must_use]
    pub fn count(&self, ending: &str) -> usize {
        self.0.borrow().iter().filter(|line| line.ends_with(ending)).count()
    }

    /// The stops, without their times.
    #[must_use]
    pub fn stops(&self) -> Vec<String> {
        let stops =
            |line: &String| line.contains(" stops: ").then(|| line.split_once(' ').map(|it| it.1.to_owned()));
        self.0.borrow().iter().filter_map(stops).flatten().collect()
    }
}

/// The time of a line.
fn ms(line: &str) -> u64 {
    line.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// A world in which every draw is the calm one: 1 ms to the store and 1 ms back, no jitter, exact clocks,
/// cold standbys.
#[must_use]
pub fn world(processes: u8, duration_seconds: u64) -> (LeaseWorld, Notes) {
    world_of(LeaseConfig::calm(processes, duration_seconds))
}

/// The same with hot standbys.
#[must_use]
pub fn hot_world(processes: u8, duration_seconds: u64) -> (LeaseWorld, Notes) {
    world_of(LeaseConfig::calm_and_hot(processes, duration_seconds))
}

/// A world whose draws are all calm, with every check that its configuration allows.
#[must_use]
pub fn world_of(config: LeaseConfig) -> (LeaseWorld, Notes) {
    let notes = Notes::default();
    let mut watchers = crate::lease_watchers(&config);
    watchers.add(Box::new(notes.clone()));
    (LeaseWorld::new(config, Dice::from_script(Script::default()), watchers, story()), notes)
}

/// A world in which two gates may be open at once: the rest is checked.
#[must_use]
pub fn world_beyond(config: LeaseConfig) -> (LeaseWorld, Notes) {
    let notes = Notes::default();
    let mut watchers = crate::lease_watchers_beyond(&config);
    watchers.add(Box::new(notes.clone()));
    (LeaseWorld::new(config, Dice::from_script(Script::default()), watchers, story()), notes)
}

/// Whether a request is a write.
#[must_use]
pub fn is_write(sent: &Sent<'_>) -> bool {
    !matches!(sent.operation, LeaseOperation::Read)
}

/// Whether a request gives the lease back.
#[must_use]
pub fn is_release(sent: &Sent<'_>) -> bool {
    sent.record.is_some_and(|record| record.state == LeaseState::Free)
}

/// It lands, and the caller hears an error.
#[must_use]
pub const fn answer_lost() -> Fate {
    Fate::landing(CALM, Heard::Transient { after: 2 * CALM, retry_after_ms: None })
}

/// Nothing happens, and the caller hears an error.
#[must_use]
pub const fn unavailable() -> Fate {
    Fate::lost(Heard::Transient { after: 2 * CALM, retry_after_ms: None })
}

/// Nothing happens, and the caller never hears anything.
#[must_use]
pub const fn swallowed() -> Fate {
    Fate::lost(Heard::Nothing)
}

/// It lands after this long, and the caller hears nothing.
#[must_use]
pub const fn lands_silently(after: TrueTime) -> Fate {
    Fate::landing(after, Heard::Nothing)
}

/// It lands and is answered, each leg taking this long.
#[must_use]
pub const fn slow(leg: TrueTime) -> Fate {
    Fate::calm(leg, leg)
}

/// Watchers for a run that nobody checks.
#[must_use]
pub fn unwatched() -> Watchers {
    Watchers::default()
}
