use std::time::Duration;

use super::*;

fn gate() -> (Gate, Instant) {
    let clock = Arc::new(Clock::new());
    let now = clock.now().instant;
    (Gate::new(clock), now)
}

const HOUR: Duration = Duration::from_secs(3_600);

#[test]
fn d_047_a_gate_is_shut_until_it_is_opened() {
    let (gate, now) = gate();
    assert!(!gate.is_open());
    gate.open_until(now.saturating_add(HOUR));
    assert!(gate.is_open());
}

#[test]
fn d_047_a_passed_deadline_shuts_the_gate() {
    let (gate, now) = gate();
    gate.open_until(now);
    assert!(!gate.is_open());
    assert!(!gate.is_closed());
}

#[test]
fn d_047_the_deadline_only_moves_forward() {
    let (gate, now) = gate();
    gate.open_until(now.saturating_add(HOUR));
    gate.open_until(now);
    assert!(gate.is_open());
}

#[test]
fn d_047_closing_is_final() {
    let (gate, now) = gate();
    gate.open_until(now.saturating_add(HOUR));
    gate.clone().close();
    gate.open_until(now.saturating_add(HOUR * 2));
    gate.open_until(Instant::MAX);
    assert!(!gate.is_open());
    assert!(gate.is_closed());
}

#[test]
fn d_001_a_lease_in_doubt_shuts_the_gate_for_as_long_as_the_doubt_lasts() {
    let (gate, now) = gate();
    gate.open_until(now.saturating_add(HOUR));
    gate.set_doubt(true);
    assert!(!gate.is_open());
    gate.set_doubt(false);
    assert!(gate.is_open());
}
