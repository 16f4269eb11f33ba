use super::*;

#[test]
fn d_001_the_holders_clock_follows_whichever_clock_went_further() {
    let mut clock = Composite::new(5_000, 9_000);
    assert_eq!(clock.advance(5_000, 9_000, u64::max), ORIGIN_MICROS);
    // The second is ahead by 10 ms, then the first by an hour: a suspend that only BOOTTIME counts.
    assert_eq!(clock.advance(65_000, 79_000, u64::max), ORIGIN_MICROS + 70_000);
    let hour = 3_600_000_000;
    assert_eq!(clock.advance(65_000 + hour, 79_000 + 60_000, u64::max), ORIGIN_MICROS + 70_000 + hour);
    // After the suspend the steps are compared afresh: the second counts again at once.
    assert_eq!(
        clock.advance(65_000 + hour + 50_000, 79_000 + 60_000 + 55_000, u64::max),
        ORIGIN_MICROS + 70_000 + hour + 55_000
    );
}

#[test]
fn d_002_the_candidates_clock_follows_whichever_clock_went_less_far() {
    let mut clock = Composite::new(0, 0);
    assert_eq!(clock.advance(60_000, 70_000, u64::min), ORIGIN_MICROS + 60_000);
    assert_eq!(clock.advance(160_000, 130_000, u64::min), ORIGIN_MICROS + 120_000);
}

#[test]
fn d_001_a_composite_never_goes_back() {
    let mut clock = Composite::new(1_000_000, 1_000_000);
    let mut last = 0;
    let mut rng = dexzd_core::rng::Rng::new(3);
    let (mut first, mut second) = (1_000_000, 1_000_000);
    for _ in 0..10_000 {
        first += rng.up_to(200);
        second += rng.up_to(200);
        let reading = clock.advance(first, second, u64::min);
        assert!(reading >= last);
        last = reading;
    }
}

#[test]
fn looks_of_the_real_clocks_do_not_go_back() {
    let clock = Clock::new();
    let mut last = clock.now();
    for _ in 0..1_000 {
        let now = clock.now();
        assert!(now.instant >= last.instant);
        assert!(now.slow >= last.slow);
        last = now;
    }
    assert!(last.wall > Timestamp::from_millis(1_577_836_800_000), "after 2020");
}
