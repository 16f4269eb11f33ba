use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dexzd_core::gate::WallOffset;
use dexzd_core::time::Now;

use super::*;

const HOUR: Duration = Duration::from_secs(3_600);

struct Bench {
    gate: Gate,
    now: Now,
    doubts: Arc<AtomicU64>,
}

fn bench() -> Bench {
    let clock = Arc::new(Clock::new());
    let doubts = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&doubts);
    Bench {
        now: clock.now(),
        gate: Gate::new(clock, move |_| {
            counter.fetch_add(1, Ordering::Relaxed);
        }),
        doubts,
    }
}

fn open(now: Now, until: Duration) -> GateOrder {
    GateOrder::Open {
        until: now.instant.saturating_add(until),
        offset: WallOffset::at(now),
        since: now.instant,
    }
}

#[test]
fn d_047_a_gate_is_shut_until_it_is_opened_and_again_when_the_deadline_is_over() {
    let Bench { gate, now, .. } = bench();
    assert_eq!(gate.look(), GateView::Shut);
    gate.order(open(now, Duration::ZERO));
    assert_eq!(gate.look(), GateView::Shut);
    gate.order(open(now, HOUR));
    assert_eq!(gate.look(), GateView::Open);
}

#[test]
fn d_047_closing_is_final_for_every_clone() {
    let Bench { gate, now, .. } = bench();
    gate.order(open(now, HOUR));
    gate.clone().order(GateOrder::Close);
    gate.order(open(now, HOUR * 2));
    assert_eq!(gate.look(), GateView::Shut);
}

#[test]
fn d_001_a_look_that_finds_doubt_tells_the_control_plane() {
    let Bench { gate, now, doubts } = bench();
    let earlier = Now { wall: now.wall.saturating_sub(Duration::from_secs(2)), ..now };
    let until = now.instant.saturating_add(HOUR);
    gate.order(GateOrder::Open { until, offset: WallOffset::at(earlier), since: now.instant });
    assert_eq!(gate.look(), GateView::Doubt);
    assert_eq!(doubts.load(Ordering::Relaxed), 1);
    gate.order(open(now, HOUR));
    assert_eq!(gate.look(), GateView::Doubt, "that renewal was sent before the look");
    let since = now.instant.saturating_add(HOUR);
    gate.order(GateOrder::Open { until, offset: WallOffset::at(now), since });
    assert_eq!(gate.look(), GateView::Open);
}

#[test]
fn d_001_an_answer_waits_while_the_lease_is_in_doubt() {
    let Bench { gate, now, .. } = bench();
    gate.order(open(now, HOUR));
    gate.order(GateOrder::Doubt);
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let waiting = tokio::spawn({
            let gate = gate.clone();
            async move { gate.pass().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        gate.order(open(now, HOUR));
        assert!(waiting.await.expect("no panic"));
        gate.order(GateOrder::Doubt);
        let waiting = tokio::spawn({
            let gate = gate.clone();
            async move { gate.pass().await }
        });
        tokio::task::yield_now().await;
        gate.order(GateOrder::Close);
        assert!(!waiting.await.expect("no panic"));
    });
}
