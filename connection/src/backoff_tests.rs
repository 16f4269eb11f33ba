use super::*;

#[test]
fn d_021_delays_double_up_to_a_second_and_are_spread() {
    let mut backoff = Backoff::default();
    for full_ms in [50, 100, 200, 400, 800, 1_000, 1_000, 1_000] {
        let full = Duration::from_millis(full_ms);
        let delay = backoff.next_delay();
        assert!(delay >= full / 2 && delay <= full, "{delay:?} is outside {full:?}");
    }
    backoff.reset();
    assert!(backoff.next_delay() <= Duration::from_millis(50));
}
