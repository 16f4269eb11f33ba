use super::{Gate, GateOrder, GateView, WallOffset};
use crate::time::{Instant, Now, SlowInstant, Timestamp};

fn at(instant_ms: u64, wall_ms: u64) -> Now {
    Now {
        instant: Instant::from_millis(instant_ms),
        slow: SlowInstant::from_millis(instant_ms),
        wall: Timestamp::from_millis(1_700_000_000_000 + wall_ms),
    }
}

fn open(until_ms: u64) -> GateOrder {
    GateOrder::Open {
        until: Instant::from_millis(until_ms),
        offset: WallOffset::at(at(0, 0)),
        since: Instant::ZERO,
    }
}

#[test]
fn d_047_a_gate_begins_shut_and_opens_until_its_deadline() {
    let mut gate = Gate::default();
    assert_eq!(gate.look(at(0, 0)), GateView::Shut);
    gate.order(open(10_000));
    assert_eq!(gate.look(at(9_999, 9_999)), GateView::Open);
    assert_eq!(gate.look(at(10_000, 10_000)), GateView::Shut);
}

#[test]
fn d_047_its_deadline_only_moves_forward() {
    let mut gate = Gate::default();
    gate.order(open(10_000));
    gate.order(open(8_000));
    assert_eq!(gate.look(at(9_000, 9_000)), GateView::Open);
}

#[test]
fn review_6_3_d_047_closing_is_final() {
    let mut gate = Gate::default();
    gate.order(open(10_000));
    gate.order(GateOrder::Close);
    gate.order(open(20_000));
    gate.order(GateOrder::Doubt);
    assert_eq!(gate.look(at(1_000, 1_000)), GateView::Shut);
}

#[test]
fn d_001_every_look_notices_a_forward_jump() {
    for (jump_ms, view) in [(500, GateView::Open), (501, GateView::Doubt)] {
        let mut gate = Gate::default();
        gate.order(open(10_000));
        assert_eq!(gate.look(at(1_000, 1_000)), GateView::Open);
        assert_eq!(gate.look(at(1_100, 1_100 + jump_ms)), view);
    }
}

#[test]
fn d_001_a_jump_is_measured_from_the_lowest_offset_seen() {
    let mut gate = Gate::default();
    gate.order(open(10_000));
    assert_eq!(gate.look(at(1_000, 1_000)), GateView::Open);
    assert_eq!(gate.look(at(5_000, 2_000)), GateView::Open, "a backward jump means nothing");
    assert_eq!(gate.look(at(5_001, 2_502)), GateView::Doubt);
}

#[test]
fn d_001_only_an_order_with_the_new_offset_ends_the_doubt() {
    let mut gate = Gate::default();
    gate.order(open(10_000));
    assert_eq!(gate.look(at(1_000, 31_000)), GateView::Doubt);
    // A renewal that was proven before the jump.
    gate.order(open(13_000));
    assert_eq!(gate.look(at(1_001, 31_001)), GateView::Doubt);
    gate.order(GateOrder::Open {
        until: Instant::from_millis(14_000),
        offset: WallOffset::at(at(1_002, 31_002)),
        since: Instant::from_millis(1_000),
    });
    assert_eq!(gate.look(at(1_003, 31_003)), GateView::Open);
}

/// The wall clock steps back and a pause brings it forward again, both between two looks of `node`: the renewal that
/// was on its way comes with an offset that looks like none.
#[test]
fn d_001_review_9_3_a_renewal_sent_before_the_gate_saw_the_jump_does_not_end_its_doubt() {
    let renewed = |since_ms, at_ms, wall_ms| GateOrder::Open {
        until: Instant::from_millis(20_000),
        offset: WallOffset::at(at(at_ms, wall_ms)),
        since: Instant::from_millis(since_ms),
    };
    let mut gate = Gate::default();
    gate.order(open(10_000));
    assert_eq!(gate.look(at(3_000, 1_000)), GateView::Open, "two seconds back");
    assert_eq!(gate.look(at(4_000, 4_000)), GateView::Doubt, "two seconds forward");
    assert_eq!(gate.jumped_at(), Some(Instant::from_millis(4_000)));
    gate.order(renewed(3_500, 4_100, 4_100));
    assert_eq!(gate.look(at(4_200, 4_200)), GateView::Doubt);
    gate.order(renewed(4_300, 4_400, 4_400));
    assert_eq!(gate.look(at(4_500, 4_500)), GateView::Open);
    assert_eq!(gate.jumped_at(), None);
}

#[test]
fn d_001_an_order_does_not_hide_a_jump_that_no_look_has_found_yet() {
    let mut gate = Gate::default();
    gate.order(open(10_000));
    assert_eq!(gate.look(at(3_000, 1_000)), GateView::Open, "two seconds back");
    // Two seconds forward; then the answer to a renewal from before is handled.
    gate.order(GateOrder::Open {
        until: Instant::from_millis(13_000),
        offset: WallOffset::at(at(4_000, 4_000)),
        since: Instant::from_millis(3_500),
    });
    assert_eq!(gate.look(at(4_100, 4_100)), GateView::Doubt);
}

#[test]
fn d_001_nodes_doubt_holds_back_too() {
    let mut gate = Gate::default();
    gate.order(open(10_000));
    gate.order(GateOrder::Doubt);
    assert_eq!(gate.look(at(1_000, 1_000)), GateView::Doubt);
    assert_eq!(gate.look(at(10_000, 10_000)), GateView::Shut, "the end of the lease comes first");
}
