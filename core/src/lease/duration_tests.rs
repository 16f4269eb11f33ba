use super::LeaseDuration;
use super::driver::{holder, seconds};
use core::time::Duration;
use proptest::prelude::*;

#[test]
fn ha_002_and_ha_004_defaults() {
    assert_eq!(LeaseDuration::DEFAULT.period(), Duration::from_secs(10));
    assert_eq!(LeaseDuration::DEFAULT_SINGLE.period(), Duration::from_secs(30));
}

#[test]
fn ha_037_above_120_s_the_server_warns() {
    assert_eq!(super::LONGEST_ADVISED, Duration::from_secs(120));
}

#[test]
fn d_007_three_seconds_is_the_shortest() {
    assert!(LeaseDuration::from_millis(2_999).is_none());
    assert_eq!(LeaseDuration::from_millis(3_000), Some(seconds(3)));
}

/// The table of derived numbers in requirements.md, section 1.
#[test]
fn ha_003_ha_023_ha_025_derived_numbers() {
    let rows = [
        // D s, renewal us, try cut-off us, renewal cut-off ms, outage window us, successor s
        (3, 1_000_000, 1_000_000, 2_900, 1_900_000, 4),
        (6, 2_000_000, 1_000_000, 5_900, 3_900_000, 7),
        (10, 3_333_333, 1_666_666, 9_900, 6_566_666, 11),
        (30, 10_000_000, 5_000_000, 29_900, 19_900_000, 31),
        (60, 20_000_000, 5_000_000, 59_900, 39_900_000, 61),
        (120, 40_000_000, 5_000_000, 119_900, 79_900_000, 121),
    ];
    for (duration, renewal, try_cut_off, renewal_cut_off, window, successor) in rows {
        let lease = seconds(duration);
        assert_eq!(lease.renewal().as_micros(), renewal, "renewal at D = {duration} s");
        assert_eq!(lease.try_cut_off().as_micros(), try_cut_off, "try cut-off at D = {duration} s");
        assert_eq!(lease.renewal_cut_off().as_millis(), renewal_cut_off, "cut-off at D = {duration} s");
        let rest = lease.renewal_cut_off() - lease.renewal();
        assert_eq!(rest.as_micros(), window, "outage window at D = {duration} s");
        assert_eq!(lease.takeover().as_secs(), successor, "successor at D = {duration} s");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Lesson A12: by arithmetic, no try is waited for beyond the cut-off, which lies before the end of the
    /// period, which lies a second before a successor may write.
    #[test]
    fn lesson_a12_no_try_is_trusted_beyond_the_period(millis in 3_000..=3_600_000_u64) {
        let lease = LeaseDuration::from_millis(millis).unwrap();
        prop_assert!(lease.renewal() + lease.try_cut_off() < lease.renewal_cut_off());
        prop_assert!(lease.renewal_cut_off() < lease.period());
        prop_assert!(lease.period() + Duration::from_secs(1) == lease.takeover());
    }

    /// The same of the machine itself, against a store that never answers.
    #[test]
    fn lesson_a12_a_holder_without_answers_stops_at_the_cut_off(millis in 3_000..=3_600_000_u64) {
        let lease = LeaseDuration::from_millis(millis).unwrap();
        let mut holder = holder(lease);
        let cut_off = u64::try_from(lease.renewal_cut_off().as_micros()).unwrap();
        holder.until_micros(cut_off - 1);
        prop_assert!(holder.decided().is_empty());
        let sent = holder.all_sent();
        prop_assert!(sent.iter().all(|sent| sent.at_micros < cut_off));
        prop_assert!(!sent.is_empty());
        holder.until_micros(cut_off);
        prop_assert_eq!(
            holder.decided(),
            [super::HolderOutput::Lost(crate::stop::StopReason::LeaseExpired)]
        );
    }
}
