use std::vec::Vec;

use super::{Connection, Period, RolePeriod};
use crate::rng::Rng;
use crate::time::Instant;

const fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

const fn standby(number: u64, since_ms: u64) -> RolePeriod {
    RolePeriod { number: Period(number), is_standby: true, standby_since: at(since_ms) }
}

const fn active(number: u64, standby_since_ms: u64) -> RolePeriod {
    RolePeriod { number: Period(number), is_standby: false, standby_since: at(standby_since_ms) }
}

fn opened(ms: u64, period: RolePeriod, seed: u64) -> Connection {
    Connection::opened(at(ms), period.number, &mut Rng::new(seed))
}

fn closed_after(connection: &Connection, period: &RolePeriod, from_ms: u64) -> u64 {
    connection.close_at(period).expect("it is closed").saturating_since(at(from_ms)).as_micros() as u64
}

#[test]
fn ha_068_a_standby_closes_a_connection_between_2_5_and_3_4_s_after_its_opening() {
    let period = standby(1, 0);
    let draws: Vec<u64> =
        (0..200).map(|seed| closed_after(&opened(60_000, period, seed), &period, 60_000)).collect();
    assert!(draws.iter().all(|micros| (2_500_000..=3_400_000).contains(micros)), "{draws:?}");
    assert!(draws.iter().any(|micros| *micros < 2_600_000) && draws.iter().any(|micros| *micros > 3_300_000));
}

/// Review 7.1: the caller's connection was opened minutes ago.
#[test]
fn review_7_1_ha_068_one_opened_long_before_the_standby_period_is_closed_after_its_begin() {
    let connection = opened(0, active(2, 0), 7);
    assert_eq!(connection.close_at(&active(2, 0)), None);
    let stay = closed_after(&connection, &standby(3, 60_000), 60_000);
    assert!((2_500_000..=3_400_000).contains(&stay), "{stay}");
}

#[test]
fn review_7_1_the_connection_of_a_running_step_down_is_closed_after_its_answer() {
    let mut connection = opened(0, active(2, 0), 7);
    connection.set_carries_step_down(true);
    assert_eq!(connection.close_at(&active(2, 0)), None);
    assert_eq!(connection.close_at(&standby(3, 60_000)), None);
    // Taken back at 65 s: still none.
    assert_eq!(connection.close_at(&active(4, 60_000)), None);
    connection.set_carries_step_down(false);
    let due = connection.close_at(&active(4, 60_000)).expect("now it is closed");
    assert!(due < at(65_000), "at once");
}

/// Review 7.2: else admin calls on it would be refused for ever.
#[test]
fn review_7_2_the_close_goes_on_after_a_promotion() {
    let connection = opened(1_000, standby(1, 0), 7);
    let planned = connection.close_at(&standby(1, 0));
    assert!(planned.is_some());
    assert_eq!(connection.close_at(&active(2, 0)), planned);
    assert!(!connection.belongs_to(&active(2, 0)));
}

#[test]
fn d_016_a_connection_of_the_active_period_stays() {
    let connection = opened(5_000, active(2, 0), 7);
    assert_eq!(connection.close_at(&active(2, 0)), None);
    assert!(connection.belongs_to(&active(2, 0)));
    assert_eq!(connection.opened_in(), Period(2));
}

#[test]
fn d_016_a_short_hold_off_takes_nothing_from_the_stay() {
    // Standby from 60 s, promoted again at 61 s, before the connection was closed.
    let connection = opened(0, active(2, 0), 7);
    let as_standby = connection.close_at(&standby(3, 60_000));
    assert_eq!(connection.close_at(&active(4, 60_000)), as_standby);
}
