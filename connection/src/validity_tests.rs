use super::*;

fn certificate(not_before: (i32, u8, u8), not_after: (i32, u8, u8)) -> Vec<u8> {
    let mut params = rcgen::CertificateParams::new(vec!["dex.test".to_owned()]).expect("a name");
    params.not_before = rcgen::date_time_ymd(not_before.0, not_before.1, not_before.2);
    params.not_after = rcgen::date_time_ymd(not_after.0, not_after.1, not_after.2);
    let key = rcgen::KeyPair::generate().expect("a key");
    params.self_signed(&key).expect("a certificate").der().to_vec()
}

/// Before 2050 the times are UTCTime, from then on GeneralizedTime.
#[test]
fn both_kinds_of_time_are_read() {
    let validity = validity_of(&certificate((1970, 1, 1), (2049, 12, 31))).expect("a certificate");
    assert_eq!(validity, Validity { not_before: 0, not_after: 2_524_521_600 });
    let validity = validity_of(&certificate((2024, 2, 29), (2400, 2, 29))).expect("a certificate");
    assert_eq!(validity, Validity { not_before: 1_709_164_800, not_after: 13_574_563_200 });
    assert_eq!(show(validity.not_before), "2024-02-29 00:00:00 UTC");
    assert_eq!(show(validity.not_after), "2400-02-29 00:00:00 UTC");
    assert_eq!(show(1_796_097_906), "2026-12-01 04:05:06 UTC");
}

#[test]
fn a_damaged_certificate_never_panics() {
    let whole = certificate((2020, 1, 1), (2030, 1, 1));
    for length in 0..whole.len() {
        assert_eq!(validity_of(&whole[..length]), None, "{length}");
    }
    // The first 200 bytes hold everything that is looked at.
    for index in 0..200 {
        for bit in 0..8 {
            let mut damaged = whole.clone();
            damaged[index] ^= 1 << bit;
            let _ = validity_of(&damaged);
        }
    }
}
