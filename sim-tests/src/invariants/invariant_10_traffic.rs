//! Invariant 10: a renewal starts when a third of the period has passed since the sending of the last
//! write known to have landed, and not before. Together with HA-36's exact count this bounds the traffic.
//!
//! Exempt: the confirmation after the fence (D-42), the raising of an epoch (D-55) and renewals in doubt
//! (D-1). Not checked: reads.

use std::collections::BTreeMap;

use dexzd_core::ids::Epoch;
use dexzd_core::lease::LeaseDuration;
use dexzd_core::node::Role;
use dexzd_core::time::micros;
use dexzd_io_sim::TrueTime;
use dexzd_io_sim::watch::{ProcessNumber, Seen, Watcher};

/// See the module.
#[derive(Debug)]
pub struct LeaseTraffic {
    third_us: u64,
    holders: BTreeMap<ProcessNumber, Holder>,
}

#[derive(Default, Debug)]
struct Holder {
    epoch: Epoch,
    sent: BTreeMap<u64, u64>,
    base_us: Option<u64>,
    in_doubt: bool,
    /// A confirmation is wanted, until the first write sent for it, or a later one, is known.
    in_proof: bool,
    proof_nonce: Option<u64>,
}

impl LeaseTraffic {
    /// For processes that all use this duration.
    #[must_use]
    pub fn new(duration: LeaseDuration) -> Self {
        Self { third_us: micros(duration.period()) / 3, holders: BTreeMap::new() }
    }
}

impl Watcher for LeaseTraffic {
    fn rule(&self) -> &'static str {
        "invariant 10 (lease traffic)"
    }

    fn observe(&mut self, _at: TrueTime, seen: &Seen<'_>) -> Result<(), String> {
        match seen {
            Seen::RenewalSent { process, epoch, nonce, instant_us } => {
                let holder = self.holders.entry(*process).or_default();
                if holder.epoch != *epoch {
                    // A doubt may begin before the first renewal.
                    let in_doubt = holder.in_doubt;
                    *holder = Holder { epoch: *epoch, in_doubt, ..Holder::default() };
                }
                holder.sent.insert(*nonce, *instant_us);
                if holder.in_proof {
                    holder.proof_nonce.get_or_insert(*nonce);
                }
                if let Some(base_us) = holder.base_us
                    && !holder.in_doubt
                    && !holder.in_proof
                    && *instant_us < base_us + self.third_us
                {
                    return Err(format!(
                        "p{process} renewed epoch {epoch} {} us after the last write that landed was sent",
                        instant_us - base_us
                    ));
                }
            }
            Seen::RenewalKnown { process, nonce } => {
                if let Some(holder) = self.holders.get_mut(process)
                    && let Some(sent) = holder.sent.get(nonce)
                {
                    holder.base_us = Some(*sent);
                    if holder.proof_nonce.is_some_and(|wanted| *nonce >= wanted) {
                        (holder.in_proof, holder.proof_nonce) = (false, None);
                    }
                }
            }
            Seen::Doubt { process, began } => {
                self.holders.entry(*process).or_default().in_doubt = *began;
            }
            // A tenure begins without a doubt.
            Seen::RoleChanged { process, role: Role::Opening, epoch, .. }
                if self.holders.get(process).is_some_and(|holder| Some(holder.epoch) != *epoch) =>
            {
                self.holders.remove(process);
            }
            Seen::RoleChanged { process, role, .. } => {
                if let Some(holder) = self.holders.get_mut(process)
                    && matches!(role, Role::Confirming | Role::Raising)
                {
                    holder.in_proof = true;
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
    use super::LeaseTraffic;
    use crate::invariants::made_up::tell;
    use dexzd_core::ids::Epoch;
    use dexzd_core::lease::LeaseDuration;
    use dexzd_core::node::Role;
    use dexzd_io_sim::watch::Seen;

    fn sent(nonce: u64, instant_us: u64) -> Seen<'static> {
        Seen::RenewalSent { process: 0, epoch: Epoch(1), nonce, instant_us }
    }

    fn known(nonce: u64) -> Seen<'static> {
        Seen::RenewalKnown { process: 0, nonce }
    }

    fn watcher() -> LeaseTraffic {
        LeaseTraffic::new(LeaseDuration::DEFAULT)
    }

    #[test]
    fn a_doubt_that_begins_before_the_first_renewal_excuses_what_follows() {
        let doubt = |began| Seen::Doubt { process: 0, began };
        let story =
            [(0, doubt(true)), (1, sent(1, 0)), (2, known(1)), (3, sent(2, 50_000)), (4, doubt(false))];
        assert_eq!(tell(watcher(), &story), Ok(()));
        let late =
            [(0, doubt(true)), (1, doubt(false)), (2, sent(1, 0)), (3, known(1)), (4, sent(2, 50_000))];
        assert!(tell(watcher(), &late).is_err());
    }

    #[test]
    fn a_third_apart_is_fine_and_so_is_a_retry() {
        let story =
            [(0, sent(1, 0)), (1, known(1)), (2, sent(2, 3_333_333)), (3, sent(3, 3_500_000)), (4, known(3))];
        assert_eq!(tell(watcher(), &story), Ok(()));
    }

    #[test]
    fn too_early_is_seen() {
        let story = [(0, sent(1, 0)), (1, known(1)), (2, sent(2, 3_333_332))];
        assert_eq!(
            tell(watcher(), &story),
            Err("p0 renewed epoch 1 3333332 us after the last write that landed was sent".to_owned())
        );
    }

    #[test]
    fn a_confirmation_renews_at_once_until_it_is_known() {
        let role =
            Seen::RoleChanged { process: 0, role: Role::Confirming, epoch: Some(Epoch(1)), instant_us: 0 };
        let story =
            [(0, sent(1, 0)), (1, known(1)), (2, role), (2, sent(2, 2)), (3, sent(3, 90)), (4, known(3))];
        assert_eq!(tell(watcher(), &story), Ok(()));
        let again: Vec<_> = story.into_iter().chain([(5, sent(4, 3_000_000))]).collect();
        assert!(tell(watcher(), &again).is_err(), "once it is known the rhythm counts again");
    }

    #[test]
    fn a_doubt_renews_at_once() {
        let doubt = Seen::Doubt { process: 0, began: true };
        let story = [(0, sent(1, 0)), (1, known(1)), (2, doubt), (2, sent(2, 2))];
        assert_eq!(tell(watcher(), &story), Ok(()));
    }
}
