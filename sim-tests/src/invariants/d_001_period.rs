//! D-1 and D-8: a period counts from the sending of the very write that is known to stand in the lease, on the
//! holder's own clock.
//!
//! Not checked: the period of an acquisition, and runs with pauses that no monotonic clock counts.

use std::collections::BTreeMap;

use dexzd_core::lease::LeaseDuration;
use dexzd_core::time::micros;
use dexzd_io_sim::watch::{ProcessNumber, Seen, Watcher};
use dexzd_io_sim::{MILLISECOND, TrueTime};

/// See the module.
#[derive(Debug)]
pub struct PeriodCountsFromTheSend {
    longest: TrueTime,
    holders: BTreeMap<ProcessNumber, Holder>,
}

#[derive(Default, Debug)]
struct Holder {
    /// When each renewal left, by nonce.
    sent: BTreeMap<u64, TrueTime>,
    known: Option<u64>,
}

impl PeriodCountsFromTheSend {
    /// For processes that all use this duration, on clocks within this drift.
    #[must_use]
    pub fn new(duration: LeaseDuration, drift_ppb: u64) -> Self {
        let period = micros(duration.period());
        // 1 / (1 - r) is at most 1 + 2r for the rates of the worlds.
        let longest = period + period / 1_000 * (2 * drift_ppb / 1_000) / 1_000 + MILLISECOND;
        Self { longest, holders: BTreeMap::new() }
    }
}

impl Watcher for PeriodCountsFromTheSend {
    fn rule(&self) -> &'static str {
        "D-1 (the period counts from the send)"
    }

    fn observe(&mut self, at: TrueTime, seen: &Seen<'_>) -> Result<(), String> {
        match seen {
            Seen::RenewalSent { process, nonce, .. } => {
                self.holders.entry(*process).or_default().sent.insert(*nonce, at);
            }
            Seen::RenewalKnown { process, nonce } => {
                self.holders.entry(*process).or_default().known = Some(*nonce);
            }
            Seen::GateOpen { process, epoch, until } if *until > at => {
                let Some(holder) = self.holders.get(process) else {
                    return Ok(());
                };
                if let Some(sent) = holder.known.and_then(|nonce| holder.sent.get(&nonce))
                    && *until > sent + self.longest
                {
                    return Err(format!(
                        "p{process} trusts epoch {epoch} until {} us after the sending of the renewal that landed",
                        until - sent
                    ));
                }
            }
            Seen::Died { process, .. } => {
                self.holders.remove(process);
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use dexzd_core::ids::Epoch;
    use dexzd_core::lease::LeaseDuration;
    use dexzd_io_sim::watch::Seen;

    use super::PeriodCountsFromTheSend;
    use crate::invariants::made_up::{open, tell};

    fn story(until: u64) -> Result<(), String> {
        let watcher = PeriodCountsFromTheSend::new(LeaseDuration::DEFAULT, 0);
        let sent = Seen::RenewalSent { process: 0, epoch: Epoch(1), nonce: 4, instant_us: 0 };
        let known = Seen::RenewalKnown { process: 0, nonce: 4 };
        tell(watcher, &[(1_000, sent), (500_000, known), (500_000, open(0, 1, until))])
    }

    #[test]
    fn a_period_from_the_send_is_right() {
        assert_eq!(story(10_001_000), Ok(()));
    }

    #[test]
    fn a_period_from_the_answer_is_seen() {
        assert!(story(10_500_000).is_err());
    }
}
