//! What happens to one request between a process and a store, request leg and answer leg apart.

use dexzd_core::ids::RequestId;
use dexzd_core::lease::{LeaseInput, LeaseOperation};
use dexzd_core::store::{ReadOutcome, WriteOutcome};

use crate::dice::{Dice, MILLION, Stream};
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
    /// 409, 304, 404, or a 412 caused by the caller's own repeated request.
    Refused {
        /// After the sending.
        after: TrueTime,
    },
    /// 403, 401, 501: the store denies, and trying again helps nobody.
    Permanent {
        /// After the sending.
        after: TrueTime,
    },
    /// Nothing, ever.
    Nothing,
}

impl Heard {
    /// What the caller of a conditional write hears when the store answers with this status and did
    /// nothing: the table of D-9, as the shell maps it.
    ///
    /// # Panics
    /// On a status that the table does not name.
    #[must_use]
    pub fn of_status(status: u16, after: TrueTime) -> Self {
        match status {
            304 | 404 | 409 | 412 => Self::Refused { after },
            408 | 429 | 500 | 502..=504 => Self::Transient { after, retry_after_ms: None },
            400 | 401 | 403 | 501 => Self::Permanent { after },
            other => panic!("D-9 does not say what {other} means"),
        }
    }

    /// What a machine of the lease hears without the store having carried its request out.
    #[must_use]
    pub fn early(self, request: RequestId, operation: &LeaseOperation) -> Option<(TrueTime, LeaseInput)> {
        let is_read = matches!(operation, LeaseOperation::Read);
        let (after, read, write) = match self {
            Self::Transient { after, retry_after_ms } => {
                (after, ReadOutcome::Transient { retry_after_ms }, WriteOutcome::Transient { retry_after_ms })
            }
            // A read has no condition: such an answer to one is a fault of the store.
            Self::Refused { after } => {
                (after, ReadOutcome::Transient { retry_after_ms: None }, WriteOutcome::Refused)
            }
            Self::Permanent { after } => (after, ReadOutcome::Permanent, WriteOutcome::Permanent),
            Self::Answer { .. } | Self::Nothing => return None,
        };
        let input = if is_read {
            LeaseInput::Read { request, outcome: read }
        } else {
            LeaseInput::Written { request, outcome: write }
        };
        Some((after, input))
    }
}

/// The way of one request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fate {
    /// When it takes effect, after the sending; None: never.
    pub lands_after: Option<TrueTime>,
    /// When it is applied once more, by something between the caller and the store that repeats it;
    /// nobody hears of that.
    pub again_after: Option<TrueTime>,
    /// What the caller hears.
    pub heard: Heard,
}

impl Fate {
    /// Lands and is answered after these times.
    #[must_use]
    pub const fn calm(lands_after: TrueTime, answered_after: TrueTime) -> Self {
        Self::landing(lands_after, Heard::Answer { after: answered_after })
    }

    /// Lands, and the caller hears this.
    #[must_use]
    pub const fn landing(lands_after: TrueTime, heard: Heard) -> Self {
        Self { lands_after: Some(lands_after), again_after: None, heard }
    }

    /// When it takes effect, and what the caller hears of each time.
    pub fn landings(self) -> impl Iterator<Item = (TrueTime, Heard)> {
        let again = self.again_after.map(|after| (after, Heard::Nothing));
        self.lands_after.map(|after| (after, self.heard)).into_iter().chain(again)
    }

    /// Never lands, and the caller hears this.
    #[must_use]
    pub const fn lost(heard: Heard) -> Self {
        Self { lands_after: None, again_after: None, heard }
    }
}

/// How a store is to be reached by one process at one moment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Sky {
    /// As the faults of the run say.
    #[default]
    Clear,
    /// Everything takes seconds, and half of it fails.
    BrownOut,
    /// Nothing gets through.
    BlackOut,
}

/// A late landing comes within this time: beyond any lease of the simulation and its successor's start.
pub const LATEST_LANDING: TrueTime = 40 * SECOND;

/// Draws what happens to a request that is sent now.
pub fn fate(dice: &mut Dice, faults: &StoreFaults, sky: Sky) -> Fate {
    let stream = Stream::Store;
    match sky {
        Sky::Clear => {}
        Sky::BrownOut => return brown_out(dice),
        Sky::BlackOut => return black_out(dice),
    }
    let request_leg = latency(dice, faults);
    let answer_leg = latency(dice, faults);
    let after = request_leg + answer_leg;
    let failed = Heard::Transient { after, retry_after_ms: None };
    let weights = [
        MILLION,
        faults.transient,
        faults.throttled,
        faults.lost_request,
        faults.lost_answer,
        faults.late_landing,
        faults.conflict,
        faults.own_retry,
        faults.repeated,
        faults.denied,
    ];
    let silent_or_failed =
        |dice: &mut Dice| if dice.chance(stream, "silent", 500_000) { Heard::Nothing } else { failed };
    match dice.weighted(stream, "fate", &weights) {
        0 => Fate::calm(request_leg, answer_leg),
        1 => Fate::lost(failed),
        2 => Fate::lost(Heard::Transient {
            after,
            retry_after_ms: Some(dice.between(stream, "retry_after", 10, 2_000)),
        }),
        3 => Fate::lost(Heard::Nothing),
        4 => Fate::landing(request_leg, silent_or_failed(dice)),
        5 => {
            let landing = dice.between(stream, "landing", request_leg, LATEST_LANDING);
            Fate::landing(landing, silent_or_failed(dice))
        }
        6 => Fate::lost(Heard::Refused { after }),
        7 => Fate::landing(request_leg, Heard::Refused { after }),
        8 => {
            let again = dice.between(stream, "again", request_leg, LATEST_LANDING);
            Fate { again_after: Some(again), ..Fate::calm(request_leg, answer_leg) }
        }
        _ => Fate::lost(Heard::Permanent { after }),
    }
}

fn brown_out(dice: &mut Dice) -> Fate {
    let stream = Stream::Store;
    let request_leg = dice.between(stream, "brown_leg", 200 * MILLISECOND, 4 * SECOND);
    let answer_leg = dice.between(stream, "brown_leg", 200 * MILLISECOND, 4 * SECOND);
    let failed = Heard::Transient { after: request_leg + answer_leg, retry_after_ms: None };
    match dice.weighted(stream, "brown_fate", &[4, 3, 1]) {
        0 => Fate::calm(request_leg, answer_leg),
        1 => Fate::lost(failed),
        _ => Fate::landing(request_leg, failed),
    }
}

fn black_out(dice: &mut Dice) -> Fate {
    let after = dice.between(Stream::Store, "blackout_leg", MILLISECOND, 3 * SECOND);
    if dice.chance(Stream::Store, "blackout_silent", 500_000) {
        return Fate::lost(Heard::Nothing);
    }
    Fate::lost(Heard::Transient { after, retry_after_ms: None })
}

/// One leg: mostly a few milliseconds, with a heavy tail.
fn latency(dice: &mut Dice, faults: &StoreFaults) -> TrueTime {
    let weights = [MILLION, faults.slow, faults.very_slow];
    let (low, high) = match dice.weighted(Stream::Store, "leg", &weights) {
        0 => (MILLISECOND, 20 * MILLISECOND),
        1 => (20 * MILLISECOND, 800 * MILLISECOND),
        _ => (800 * MILLISECOND, 12 * SECOND),
    };
    dice.between(Stream::Store, "latency", low, high)
}

#[cfg(test)]
mod tests {
    use super::{Fate, Heard, Sky, fate};
    use crate::dice::{Dice, Script};
    use crate::swarm::StoreFaults;

    #[test]
    fn without_faults_everything_lands_and_is_answered_soon() {
        let mut dice = Dice::from_seed(1);
        for _ in 0..1_000 {
            let drawn = fate(&mut dice, &StoreFaults::none(), Sky::Clear);
            assert!(matches!(
                drawn,
                Fate {
                    lands_after: Some(1_000..=20_000),
                    again_after: None,
                    heard: Heard::Answer { after: 1_000..=20_000 }
                }
            ));
        }
    }

    #[test]
    fn an_empty_decision_log_is_fine_weather() {
        let mut dice = Dice::from_script(Script::default());
        assert_eq!(fate(&mut dice, &StoreFaults::all(), Sky::Clear), Fate::calm(1_000, 1_000));
    }

    #[test]
    fn nothing_lands_in_a_blackout() {
        let mut dice = Dice::from_seed(1);
        for _ in 0..100 {
            assert_eq!(fate(&mut dice, &StoreFaults::none(), Sky::BlackOut).lands_after, None);
        }
    }

    #[test]
    fn a_brown_out_is_slow_and_lets_some_through() {
        let mut dice = Dice::from_seed(1);
        let drawn: Vec<Fate> =
            (0..400).map(|_| fate(&mut dice, &StoreFaults::none(), Sky::BrownOut)).collect();
        assert!(drawn.iter().all(|fate| fate.lands_after.is_none_or(|after| after >= 200_000)));
        let calm = drawn.iter().filter(|fate| matches!(fate.heard, Heard::Answer { .. })).count();
        assert!((150..250).contains(&calm), "{calm} of 400 are answered");
    }

    #[test]
    fn d_009_every_status_has_its_class() {
        for (statuses, heard) in [
            (&[304, 404, 409, 412][..], Heard::Refused { after: 7 }),
            (&[408, 429, 500, 502, 503, 504][..], Heard::Transient { after: 7, retry_after_ms: None }),
            (&[400, 401, 403, 501][..], Heard::Permanent { after: 7 }),
        ] {
            for status in statuses {
                assert_eq!(Heard::of_status(*status, 7), heard, "{status}");
            }
        }
    }
}
