use super::*;

#[test]
fn a_number_and_a_unit_are_kept_exactly() {
    let parsed = ["250ms", "10s", "5m", "2h", "7d"].map(|text| parse_duration(text).map(milliseconds));
    assert_eq!(parsed, [Ok(250), Ok(10_000), Ok(300_000), Ok(7_200_000), Ok(604_800_000)]);
}

#[test]
fn what_is_not_a_duration_is_refused_with_the_rule() {
    for text in ["10", "0s", "-1s", "4hrs", "1.5s", "", "s", "1 s", "99999999999d"] {
        let message = parse_duration(text).expect_err(text);
        assert!(message.contains("duration"), "{text}: {message}");
    }
}
