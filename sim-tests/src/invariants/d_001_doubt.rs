//! D-1: a gate that the wall clock has put in doubt opens again only by a renewal that was sent after the
//! doubt began: an answer to an older one proves nothing.
//!
//! Not checked: doubts that begin while another one lasts.

use std::collections::BTreeMap;

use dexzd_io_sim::TrueTime;
use dexzd_io_sim::watch::{ProcessNumber, Seen, Watcher};

/// See the module.
#[derive(Default, Debug)]
pub struct DoubtEndsByARenewal {
    holders: BTreeMap<ProcessNumber, Holder>,
}

#[derive(Default, Debug)]
struct Holder {
    sent: BTreeMap<u64, TrueTime>,
    known: u64,
    doubt_since: Option<TrueTime>,
}

impl Watcher for DoubtEndsByARenewal {
    fn rule(&self) -> &'static str {
        "D-1 (doubt)"
    }

    fn observe(&mut self, at: TrueTime, seen: &Seen<'_>) -> Result<(), String> {
        match seen {
            Seen::RenewalSent { process, nonce, .. } => {
                self.holders.entry(*process).or_default().sent.insert(*nonce, at);
            }
            Seen::RenewalKnown { process, nonce } => {
                self.holders.entry(*process).or_default().known = *nonce;
            }
            Seen::GateOpen { process, epoch, until } => {
                let holder = self.holders.entry(*process).or_default();
                if *until <= at {
                    holder.doubt_since.get_or_insert(at);
                } else if let Some(since) = holder.doubt_since.take()
                    && holder.sent.get(&holder.known).is_none_or(|sent| *sent < since)
                {
                    return Err(format!(
                        "p{process} trusts epoch {epoch} again by a renewal sent before its doubt began at {since} us"
                    ));
                }
            }
            Seen::GateShut { process, .. } | Seen::Died { process, .. } => {
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
    use dexzd_io_sim::watch::{Seen, Watcher};

    use super::DoubtEndsByARenewal;

    fn gate(until: u64) -> Seen<'static> {
        Seen::GateOpen { process: 0, epoch: Epoch(1), until }
    }

    fn story(nonce: u64) -> Result<(), String> {
        let mut watcher = DoubtEndsByARenewal::default();
        let sent = |nonce| Seen::RenewalSent { process: 0, epoch: Epoch(1), nonce, instant_us: 0 };
        watcher.observe(5, &sent(7))?;
        watcher.observe(10, &gate(10))?;
        watcher.observe(11, &sent(8))?;
        watcher.observe(12, &Seen::RenewalKnown { process: 0, nonce })?;
        watcher.observe(12, &gate(100))
    }

    #[test]
    fn a_renewal_sent_in_doubt_ends_it() {
        assert_eq!(story(8), Ok(()));
    }

    #[test]
    fn an_older_renewal_does_not() {
        assert!(story(7).is_err());
    }
}
