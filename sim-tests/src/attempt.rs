//! One run that may panic, and whose fault it was: a broken rule and a panic of the core are the product's,
//! a panic of anything else and a divergence are the simulator's. They are never mixed up.

use std::cell::RefCell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use dexzd_io_sim::dice::{Decision, Dice, decisions_of_panicked_run};
use dexzd_io_sim::marks::{self, Tally};
use dexzd_io_sim::trace::Trace;
use dexzd_io_sim::watch::Violation;

use crate::runner::{Run, World};

/// The rule that a panic of the core breaks.
pub const NO_PANIC: &str = "the core never panics";

/// What went wrong, and whose fault it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The product broke a rule.
    Rule(Violation),
    /// The product panicked.
    CorePanic(Panic),
    /// The simulator panicked: a check, a world, or what they use.
    SimulatorPanic(Panic),
    /// Two runs of one seed differ.
    Divergence(String),
    /// Seeds did not reach what they must reach.
    MarkMissed(String),
}

impl Fault {
    /// Whether the simulator is to be mended, and not the product.
    #[must_use]
    pub fn is_the_simulators(&self) -> bool {
        match self {
            Self::Rule(_) | Self::CorePanic(_) => false,
            Self::SimulatorPanic(_) | Self::Divergence(_) | Self::MarkMissed(_) => true,
        }
    }

    /// The same for failures of one kind: what shrinking must keep.
    #[must_use]
    pub fn key(&self) -> String {
        match self {
            Self::Rule(violation) => violation.rule.clone(),
            Self::CorePanic(panic) | Self::SimulatorPanic(panic) => panic.place.clone(),
            Self::Divergence(_) => "divergence".to_owned(),
            Self::MarkMissed(mark) => mark.clone(),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule(violation) => write!(formatter, "{violation}"),
            Self::CorePanic(panic) => write!(formatter, "the core panicked: {panic}"),
            Self::SimulatorPanic(panic) => {
                write!(formatter, "fault of the simulator, not of the product: it panicked: {panic}")
            }
            Self::Divergence(text) | Self::MarkMissed(text) => {
                write!(formatter, "fault of the simulator, not of the product: {text}")
            }
        }
    }
}

/// A panic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Panic {
    /// What it said.
    pub message: String,
    /// File and line.
    pub place: String,
}

impl Panic {
    /// Whether the product's own code panicked.
    #[must_use]
    pub fn is_of_core(&self) -> bool {
        self.place.starts_with("core/") || self.place.contains("/core/src/")
    }
}

impl fmt::Display for Panic {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({})", self.message, self.place)
    }
}

/// What became of one run.
#[derive(Debug)]
pub struct Attempt {
    /// What went wrong.
    pub fault: Option<Fault>,
    /// The run, unless it panicked.
    pub run: Option<Run>,
    /// What was drawn, even if it panicked.
    pub decisions: Vec<Decision>,
    /// The marks it reached.
    pub tally: Tally,
}

/// Makes one run.
#[must_use]
pub fn attempt(world: World, dice: Dice, trace: Trace) -> Attempt {
    listen();
    drop(marks::take());
    LISTENS.set(true);
    let outcome = catch_unwind(AssertUnwindSafe(|| world(dice, trace)));
    LISTENS.set(false);
    let tally = marks::take();
    match outcome {
        Ok(run) => {
            let fault = run.result.as_ref().err().cloned().map(Fault::Rule);
            let decisions = if fault.is_some() { run.dice.decisions().to_vec() } else { Vec::new() };
            Attempt { fault, run: Some(run), decisions, tally }
        }
        Err(_) => {
            let panic = LAST.take().unwrap_or_else(|| Panic {
                message: "a panic without a message".to_owned(),
                place: "somewhere".to_owned(),
            });
            let fault =
                if panic.is_of_core() { Fault::CorePanic(panic) } else { Fault::SimulatorPanic(panic) };
            Attempt { fault: Some(fault), run: None, decisions: decisions_of_panicked_run(), tally }
        }
    }
}

thread_local! {
    static LISTENS: RefCell<bool> = const { RefCell::new(false) };
    static LAST: RefCell<Option<Panic>> = const { RefCell::new(None) };
}

/// From now on panics of runs are written down, and not printed; all others go where they went.
fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let others = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !LISTENS.with_borrow(|listens| *listens) {
                others(info);
                return;
            }
            let payload = info.payload();
            let message = payload
                .downcast_ref::<&str>()
                .copied()
                .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
                .unwrap_or("a panic without a message")
                .to_owned();
            let place = info.location().map_or_else(
                || "somewhere".to_owned(),
                |location| format!("{}:{}", location.file(), location.line()),
            );
            LAST.set(Some(Panic { message, place }));
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::{Fault, Panic, attempt};
    use dexzd_io_sim::dice::{Dice, Stream};
    use dexzd_io_sim::trace::Trace;

    #[test]
    fn a_panic_of_the_simulator_is_not_a_failure_of_the_product_and_keeps_its_decisions() {
        let attempt = attempt(
            |mut dice, _| {
                dice.below(Stream::Store, "latency", 10);
                panic!("a check is wrong")
            },
            Dice::from_seed(1),
            Trace::quiet(),
        );
        let fault = attempt.fault.expect("it panicked");
        assert!(fault.is_the_simulators());
        assert!(fault.to_string().starts_with(
            "fault of the simulator, not of the product: it panicked: a check is wrong (sim-tests/src/attempt.rs:"
        ));
        assert_eq!(attempt.decisions.len(), 1);
    }

    #[test]
    fn a_panic_of_the_core_is_one_of_the_product() {
        let panic = Panic { message: "an invariant".to_owned(), place: "core/src/gate/mod.rs:7".to_owned() };
        assert!(panic.is_of_core());
        assert!(!Fault::CorePanic(panic).is_the_simulators());
    }
}
