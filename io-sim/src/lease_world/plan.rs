//! Draws what happens to a lease world between its start and the end of its faults.

use super::config::LeaseConfig;
use super::{Event, Mishap, Order, Precondition};
use crate::dice::{Dice, Stream};
use crate::watch::ProcessNumber;
use crate::{MILLISECOND, SECOND, TrueTime};

const CRASH: Stream = Stream::Crash;
const PERCENT_PPB: u64 = 10_000_000;

/// Random moments before the end, so many per hour.
fn moments(dice: &mut Dice, end: TrueTime, per_hour: u64) -> Vec<TrueTime> {
    let mut moments = Vec::new();
    let Some(mean) = (3_600 * SECOND).checked_div(per_hour) else {
        return moments;
    };
    let mut at = 0;
    loop {
        at += dice.pause(CRASH, "pause", 2 * mean);
        if at >= end {
            return moments;
        }
        moments.push(at);
    }
}

/// Everything that the swarm wants to happen.
pub(super) fn plan(config: &LeaseConfig, dice: &mut Dice) -> Vec<(TrueTime, Event)> {
    let mut plan = Vec::new();
    for process in 0..config.processes {
        for (at, order) in orders(config, dice) {
            plan.push((at, Event::Order(process, order)));
        }
    }
    for (at, mishap) in mishaps(config, dice) {
        plan.push((at, Event::Mishap(mishap)));
    }
    plan.push((config.heal_at, Event::Heal));
    plan
}

fn orders(config: &LeaseConfig, dice: &mut Dice) -> Vec<(TrueTime, Order)> {
    let faults = config.process_faults;
    let end = config.heal_at;
    let longest = 3 * config.duration.as_millis() * MILLISECOND;
    let mut orders = Vec::new();
    for at in moments(dice, end, faults.kills_per_hour) {
        let order = if dice.chance(CRASH, "disk_lost", 300_000) { Order::KillAndWipe } else { Order::Kill };
        orders.push((at, order));
    }
    for at in moments(dice, end, faults.terminations_per_hour) {
        orders.push((at, Order::Terminate));
    }
    for at in moments(dice, end, faults.freezes_per_hour) {
        orders.push((at, Order::Freeze(dice.between(CRASH, "freeze", MILLISECOND, longest))));
    }
    for at in moments(dice, end, faults.suspensions_per_hour) {
        orders.push((at, Order::Suspend(dice.between(CRASH, "suspension", MILLISECOND, longest))));
    }
    for at in moments(dice, end, faults.starvations_per_hour) {
        orders.push((at, Order::Starve(dice.between(CRASH, "starvation", SECOND, longest))));
    }
    for at in moments(dice, end, faults.calls_per_hour) {
        orders.push((at, draw_call(dice)));
    }
    for at in moments(dice, end, faults.blackouts_per_hour) {
        orders.push((at, Order::BlackOut(dice.between(CRASH, "blackout", MILLISECOND, longest))));
    }
    for at in moments(dice, end, faults.brownouts_per_hour) {
        orders.push((at, Order::BrownOut(dice.between(CRASH, "brownout", 2 * SECOND, 30 * SECOND))));
    }
    for at in moments(dice, end, faults.wall_steps_per_hour) {
        orders.push((at, Order::StepWall(dice.around(CRASH, "wall_step", 3_600 * SECOND))));
    }
    for at in moments(dice, end, faults.slews_per_hour) {
        orders.push((at, Order::Slew(dice.around(CRASH, "slew", 8 * PERCENT_PPB))));
        let lasts = dice.between(CRASH, "slew_lasts", SECOND, longest);
        orders.push((at + lasts, Order::Slew(0)));
    }
    for at in moments(dice, end, faults.noticed_pauses_per_hour) {
        // A pause that the wall clock shows as a jump: longer than half a second.
        let lasts = dice.between(CRASH, "noticed", 600 * MILLISECOND, longest);
        orders.push((at, Order::UncountedPause(lasts, true)));
    }
    for at in moments(dice, end, faults.uncounted_pauses_per_hour) {
        let lasts = dice.between(CRASH, "uncounted", MILLISECOND, longest);
        orders.push((at, Order::UncountedPause(lasts, false)));
    }
    for at in moments(dice, end, faults.clones_per_hour) {
        let from = dice.below(CRASH, "clone_of", u64::from(config.processes));
        orders.push((at, Order::BecomeCopyOf(ProcessNumber::try_from(from).expect("few processes"))));
    }
    orders
}

/// Step downs with right, wrong, stale and repeated preconditions, on new and old connections.
fn draw_call(dice: &mut Dice) -> Order {
    let old_connection = dice.chance(CRASH, "old_connection", 100_000);
    let precondition = match dice.weighted(CRASH, "precondition", &[5, 1, 1, 1, 1, 1]) {
        0 => Precondition::Right,
        1 => Precondition::OtherNode,
        2 => Precondition::StaleEpoch,
        3 => Precondition::LaterEpoch,
        4 => Precondition::Repeated,
        _ => return Order::Describe { old_connection },
    };
    Order::StepDown { precondition, old_connection }
}

fn mishaps(config: &LeaseConfig, dice: &mut Dice) -> Vec<(TrueTime, Mishap)> {
    let end = config.heal_at;
    let mut plan = Vec::new();
    if config.mishaps.lease_is_lost {
        plan.push((dice.between(CRASH, "lease_lost", 0, end), Mishap::Delete));
    }
    if config.mishaps.lease_is_damaged {
        let at = dice.between(CRASH, "lease_damaged", 0, end);
        let kind = [Mishap::CutShort, Mishap::Flip, Mishap::NewerFormat];
        plan.push((at, kind[dice.weighted(CRASH, "damage", &[1, 1, 1])]));
        // An operator looks at the report and brings the last good state back.
        let mended = dice.between(CRASH, "lease_mended", at, end);
        plan.push((mended, Mishap::Mend));
    }
    if config.mishaps.lease_is_restored {
        let back = dice.between(CRASH, "states_back", 1, 20);
        plan.push((dice.between(CRASH, "lease_restored", 0, end), Mishap::Restore { back }));
    }
    if config.mishaps.clock_step_ms != 0 {
        let at = dice.between(CRASH, "store_step", 0, end);
        let server = usize::from(dice.chance(CRASH, "step_of_second", 500_000));
        plan.push((at, Mishap::StepStoreClock { server, by_ms: config.mishaps.clock_step_ms }));
    }
    plan
}
