//! What happens to one request between a process and a store, request leg and answer leg apart.

use crate::dice::{Dice, Stream};
use crate::swarm::StoreFaults;
use crate::{MILLISECOND, SECOND, TrueTime};

/// What the caller hears, and after how long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Heard {
    /// What the store said when the request landed.
    Answer {
        /// After the landing.
        after: TrueTime,
    },
    /// An error that says nothing about the effect: a broken connection, 5xx, 429.
    Transient {
        /// After the sending.
        after: TrueTime,
        /// Retry-After.
        retry_after_ms: Option<u64>,
    },
    /// 409 or a 412 caused by the caller's own repeated request.
    Refused {
        /// After the sending.
        after: TrueTime,
    },
    /// Nothing, ever.
    Nothing,
}

/// The way of one request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fate {
    /// When it takes effect, after the sending; None: never.
    pub lands_after: Option<TrueTime>,
    /// What the caller hears.
    pub heard: Heard,
}

impl Fate {
    /// Lands and is answered after these times.
    #[must_use]
    pub const fn calm(lands_after: TrueTime, answered_after: TrueTime) -> Self {
        Self { lands_after: Some(lands_after), heard: Heard::Answer { after: answered_after } }
    }
}

/// A late landing comes within this time: beyond any lease of the simulation and its successor's start.
pub const LATEST_LANDING: TrueTime = 40 * SECOND;

/// Draws what happens to a request that is sent now.
pub fn fate(dice: &mut Dice, faults: &StoreFaults, blacked_out: bool) -> Fate {
    let stream = Stream::Store;
    let request_leg = latency(dice, faults);
    let answer_leg = latency(dice, faults);
    if blacked_out {
        let heard = if dice.chance(stream, "blackout_silent", 500_000) {
            Heard::Nothing
        } else {
            Heard::Transient { after: request_leg, retry_after_ms: None }
        };
        return Fate { lands_after: None, heard };
    }
    let failed = Heard::Transient { after: request_leg + answer_leg, retry_after_ms: None };
    let weights = [
        crate::dice::MILLION,
        faults.transient,
        faults.throttled,
        faults.lost_request,
        faults.lost_answer,
        faults.late_landing,
        faults.conflict,
        faults.own_retry,
    ];
    match dice.weighted(stream, "fate", &weights) {
        0 => Fate::calm(request_leg, answer_leg),
        1 => Fate { lands_after: None, heard: failed },
        2 => Fate {
            lands_after: None,
            heard: Heard::Transient {
                after: request_leg + answer_leg,
                retry_after_ms: Some(dice.between(stream, "retry_after", 10, 2_000)),
            },
        },
        3 => Fate { lands_after: None, heard: Heard::Nothing },
        4 => Fate {
            lands_after: Some(request_leg),
            heard: if dice.chance(stream, "silent", 500_000) { Heard::Nothing } else { failed },
        },
        5 => Fate {
            lands_after: Some(dice.between(stream, "landing", request_leg, LATEST_LANDING)),
            heard: if dice.chance(stream, "silent", 500_000) { Heard::Nothing } else { failed },
        },
        6 => Fate { lands_after: None, heard: Heard::Refused { after: request_leg + answer_leg } },
        _ => {
            Fate { lands_after: Some(request_leg), heard: Heard::Refused { after: request_leg + answer_leg } }
        }
    }
}

/// One leg: mostly a few milliseconds, with a heavy tail.
fn latency(dice: &mut Dice, faults: &StoreFaults) -> TrueTime {
    let weights = [crate::dice::MILLION, faults.slow, faults.very_slow];
    let (low, high) = match dice.weighted(Stream::Store, "leg", &weights) {
        0 => (MILLISECOND, 20 * MILLISECOND),
        1 => (20 * MILLISECOND, 800 * MILLISECOND),
        _ => (800 * MILLISECOND, 12 * SECOND),
    };
    dice.between(Stream::Store, "latency", low, high)
}

#[cfg(test)]
mod tests {
    use super::{Fate, Heard, fate};
    use crate::dice::{Dice, Script};
    use crate::swarm::StoreFaults;

    #[test]
    fn without_faults_everything_lands_and_is_answered_soon() {
        let mut dice = Dice::from_seed(1);
        for _ in 0..1_000 {
            let drawn = fate(&mut dice, &StoreFaults::none(), false);
            assert!(matches!(
                drawn,
                Fate { lands_after: Some(1_000..=20_000), heard: Heard::Answer { after: 1_000..=20_000 } }
            ));
        }
    }

    #[test]
    fn an_empty_decision_log_is_fine_weather() {
        let mut dice = Dice::from_script(Script::default());
        assert_eq!(fate(&mut dice, &StoreFaults::all(), false), Fate::calm(1_000, 1_000));
    }

    #[test]
    fn nothing_lands_in_a_blackout() {
        let mut dice = Dice::from_seed(1);
        for _ in 0..100 {
            assert_eq!(fate(&mut dice, &StoreFaults::none(), true).lands_after, None);
        }
    }
}
