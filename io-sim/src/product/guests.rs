//! Clients that take an interest in somebody else's Flow: they read it, start it too, repeat its calls and
//! write its note, many of them at a process that does not serve (any more). They make the calls of one
//! Flow overlap, so that a check of their order has something to order.

use super::client::{Client, Look, Stage, TwinOf};
use crate::dice::{Dice, Stream};
use crate::swarm::rate;
use crate::watch::ProcessNumber;
use crate::{SECOND, TrueTime};

/// How curious people are in this run. The calm choice is not at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Habits {
    /// How many guests there are.
    pub guests: u32,
    /// Guests that always ask the same process, in parts of a million.
    pub loyal: u32,
    /// Looks and notes of a client between its own calls, in parts of a million calls.
    pub looks: u32,
}

/// Guests arrive within this time after their host's client.
const ARRIVES_WITHIN: TrueTime = 5 * SECOND;

impl Habits {
    /// Draws them.
    pub fn draw(dice: &mut Dice) -> Self {
        Self {
            guests: [0, 2, 5, 10][dice.weighted(Stream::Swarm, "guests", &[4, 3, 2, 1])],
            loyal: rate(dice, "loyal_guests"),
            looks: rate(dice, "looks"),
        }
    }

    /// A client's plan, with looks and notes of its own in between.
    pub(super) fn with_looks(&self, plan: Vec<Stage>, dice: &mut Dice) -> Vec<Stage> {
        let mut whole = Vec::new();
        for (next, stage) in (0..).zip(plan) {
            whole.push(stage);
            if dice.chance(Stream::Workload, "looks", self.looks) {
                whole.push(curiosity(next, dice));
            }
        }
        whole
    }

    /// The guests, and when they arrive: about half of them at the same Flow as the one before.
    pub(super) fn invite(
        &self,
        hosts: &[(TrueTime, Client)],
        processes: u8,
        dice: &mut Dice,
    ) -> Vec<(TrueTime, Client)> {
        let mut guests = Vec::new();
        let first = u32::try_from(hosts.len()).expect("few clients");
        let mut host = 0;
        for number in first..first + if hosts.is_empty() { 0 } else { self.guests } {
            if !dice.chance(Stream::Workload, "same_host", 500_000) {
                host = dice.below(Stream::Workload, "host", hosts.len() as u64);
            }
            let (starts, client) = &hosts[usize::try_from(host).expect("an index")];
            let at = starts + dice.between(Stream::Workload, "guest_arrives", 0, ARRIVES_WITHIN);
            let address = self.address(processes, dice);
            let calls = dice.between(Stream::Workload, "guest_calls", 2, 10);
            let calls = u32::try_from(calls).expect("few calls");
            let plan = (0..calls).map(|next| visit(client, next, dice)).collect();
            guests.push((at, Client::guest(number, client, address, plan)));
        }
        guests
    }

    fn address(&self, processes: u8, dice: &mut Dice) -> Option<ProcessNumber> {
        let loyal = dice.chance(Stream::Workload, "loyal", self.loyal);
        loyal.then(|| {
            let process = dice.below(Stream::Workload, "loyal_to", u64::from(processes));
            u8::try_from(process).expect("few processes")
        })
    }
}

fn visit(host: &Client, next: u32, dice: &mut Dice) -> Stage {
    match dice.weighted(Stream::Workload, "visit", &[12, 1, 1, 2]) {
        0 => curiosity(next, dice),
        1 => Stage::Rival { ignores: dice.chance(Stream::Workload, "ignores", 500_000) },
        2 => Stage::Twin(TwinOf::Start),
        _ => match host.shape.messages() {
            0 => Stage::Note { next },
            messages => {
                let next = dice.below(Stream::Workload, "twin_of", u64::from(messages));
                Stage::Twin(TwinOf::Publish { next: u32::try_from(next).expect("few messages") })
            }
        },
    }
}

fn curiosity(next: u32, dice: &mut Dice) -> Stage {
    let number = |dice: &mut Dice, kind, most| dice.between(Stream::Workload, kind, 1, most);
    match dice.weighted(Stream::Workload, "curiosity", &[5, 2, 2, 3, 1, 1, 2]) {
        0 => Stage::Look(Look::State),
        1 => Stage::Look(Look::Describe),
        2 => Stage::Look(Look::History),
        3 => Stage::Note { next },
        4 => Stage::Look(Look::Event { number: number(dice, "event", 8) }),
        5 => Stage::Look(Look::Closed),
        _ => Stage::Look(Look::Step {
            step_type: usize::from(dice.chance(Stream::Workload, "second_step", 500_000)),
            number: u32::try_from(number(dice, "step_number", 3)).expect("few Steps"),
        }),
    }
}
