use super::Backoff;
use crate::rng::Rng;
use core::time::Duration;
use proptest::prelude::*;
use std::vec::Vec;

proptest! {
    #[test]
    fn d_004_each_wait_is_in_the_upper_half_of_a_doubling_value(seed: u64) {
        let mut rng = Rng::new(seed);
        let mut backoff = Backoff::lease();
        for nominal_ms in [100, 200, 400, 800, 1_000, 1_000, 1_000] {
            let nominal = Duration::from_millis(nominal_ms);
            let wait = backoff.draw(&mut rng);
            prop_assert!(wait >= nominal / 2 && wait <= nominal, "{wait:?} of {nominal:?}");
        }
        backoff.reset();
        prop_assert!(backoff.draw(&mut rng) <= Duration::from_millis(100));
    }
}

#[test]
fn d_004_waits_differ() {
    let mut rng = Rng::new(1);
    let waits: Vec<Duration> = (0..8).map(|_| Backoff::lease().draw(&mut rng)).collect();
    assert!(waits.windows(2).any(|pair| pair[0] != pair[1]));
}
