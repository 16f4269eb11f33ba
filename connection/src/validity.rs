//! From when until when a certificate is valid: the one part of it that rustls does not show.
//!
//! ```text
//! Certificate ::= SEQUENCE { TBSCertificate ::= SEQUENCE {
//!     [0] version OPTIONAL, serial INTEGER, algorithm SEQUENCE, issuer SEQUENCE,
//!     validity SEQUENCE { notBefore Time, notAfter Time }, … }, … }          (RFC 5280, 4.1)
//! Time ::= UTCTime "YYMMDDHHMMSSZ" | GeneralizedTime "YYYYMMDDHHMMSSZ"
//! ```

const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// Seconds since the beginning of 1970, UTC, both inclusive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Validity {
    pub(crate) not_before: i64,
    pub(crate) not_after: i64,
}

/// Reads it from a certificate; None if this is no certificate.
pub(crate) fn validity_of(certificate: &[u8]) -> Option<Validity> {
    let mut signed = contents(contents(certificate, SEQUENCE)?, SEQUENCE)?;
    if signed.first() == Some(&VERSION) {
        signed = element(signed)?.2;
    }
    // Serial number, algorithm, issuer.
    for _ in 0..3 {
        signed = element(signed)?.2;
    }
    let (tag, first, rest) = element(contents(signed, SEQUENCE)?)?;
    let not_before = seconds(tag, first)?;
    let (tag, second, _) = element(rest)?;
    Some(Validity { not_before, not_after: seconds(tag, second)? })
}

fn contents(bytes: &[u8], wanted: u8) -> Option<&[u8]> {
    let (tag, contents, _) = element(bytes)?;
    (tag == wanted).then_some(contents)
}

/// Tag, contents, and what follows.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = if first < 0x80 {
        (usize::from(first), rest)
    } else {
        let count = usize::from(first & 0x7f);
        if count == 0 || count > 4 {
            return None;
        }
        let (digits, rest) = rest.split_at_checked(count)?;
        (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
    };
    let (contents, rest) = rest.split_at_checked(length)?;
    Some((tag, contents, rest))
}

fn seconds(tag: u8, text: &[u8]) -> Option<i64> {
    let digits = text.strip_suffix(b"Z")?;
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let (year, rest) = match (tag, digits.len()) {
        (UTC_TIME, 12) => {
            let year = number(&digits[..2]);
            (if year < 50 { 2_000 + year } else { 1_900 + year }, &digits[2..])
        }
        (GENERALIZED_TIME, 14) => (number(&digits[..4]), &digits[4..]),
        _ => return None,
    };
    let part = |index: usize| number(&rest[2 * index..2 * index + 2]);
    let days = days_since_1970(year, part(0), part(1));
    Some(days * 86_400 + part(2) * 3_600 + part(3) * 60 + part(4))
}

fn number(digits: &[u8]) -> i64 {
    digits.iter().fold(0, |number, digit| number * 10 + i64::from(digit - b'0'))
}

/// Counts years from March, so that the leap day is the last of its year.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let leap_days = year / 4 - year / 100 + year / 400;
    // 719,468 days lie between 1 March of the year 0 and 1 January 1970.
    year * 365 + leap_days + day_of_year - 719_468
}

/// As people write it: `2026-12-01 04:05:06 UTC`.
pub(crate) fn show(seconds: i64) -> String {
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

#[cfg(test)]
#[path = "validity_tests.rs"]
mod tests;
