//! Reads the times that people write.

use core::time::Duration;

use crate::time::Timestamp;

const DAY_SECONDS: u64 = 24 * 3_600;

/// RFC 3339, a day in UTC, or milliseconds since 1970. None: it is no time, or before 1970.
pub(super) fn parse_time(text: &str) -> Option<Timestamp> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok().map(Timestamp::from_millis);
    }
    let date = text.get(..10)?;
    let days = days_since_1970(date)?;
    let midnight = Timestamp::from_millis(days.checked_mul(DAY_SECONDS * 1_000)?);
    match text.get(10..)?.strip_prefix(['T', 't', ' ']) {
        Some(clock) => parse_clock(midnight, clock),
        None if text.len() == 10 => Some(midnight),
        None => None,
    }
}

/// `12:34:56`, an optional fraction, and `Z` or an offset.
fn parse_clock(midnight: Timestamp, clock: &str) -> Option<Timestamp> {
    let [hours, minutes, seconds] = fields(clock.get(..8)?, ':')?;
    if hours > 23 || minutes > 59 || seconds > 60 {
        return None;
    }
    let rest = clock.get(8..)?;
    let (fraction_micros, zone) = match rest.strip_prefix('.') {
        Some(rest) => {
            let end = rest.find(|character: char| !character.is_ascii_digit())?;
            (micros(&rest[..end])?, &rest[end..])
        }
        None => (0, rest),
    };
    let local = midnight
        .saturating_add(Duration::from_secs(hours * 3_600 + minutes * 60 + seconds))
        .saturating_add(Duration::from_micros(fraction_micros));
    if zone.eq_ignore_ascii_case("z") {
        return Some(local);
    }
    let (sign, offset) = (zone.get(..1)?, zone.get(1..)?);
    let [hours, minutes] = fields(offset, ':')?;
    if hours > 23 || minutes > 59 {
        return None;
    }
    let offset_micros = (hours * 3_600 + minutes * 60) * 1_000_000;
    let micros = match sign {
        "+" => local.as_micros().checked_sub(offset_micros)?,
        "-" => local.as_micros().checked_add(offset_micros)?,
        _ => return None,
    };
    Some(Timestamp::from_micros(micros))
}

/// The digits behind a decimal point, cut to microseconds.
fn micros(digits: &str) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    let cut = &digits[..digits.len().min(6)];
    let missing = 6 - u32::try_from(cut.len()).ok()?;
    Some(cut.parse::<u64>().ok()? * 10_u64.pow(missing))
}

/// Exactly `N` numbers of at least two digits, separated.
fn fields<const N: usize>(text: &str, separator: char) -> Option<[u64; N]> {
    let mut numbers = [0; N];
    let mut parts = text.split(separator);
    for number in &mut numbers {
        let part = parts.next()?;
        if part.len() < 2 || part.bytes().any(|byte| !byte.is_ascii_digit()) {
            return None;
        }
        *number = part.parse().ok()?;
    }
    parts.next().is_none().then_some(numbers)
}

fn days_since_1970(date: &str) -> Option<u64> {
    let [year, month, day] = fields(date, '-')?;
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) {
        return None;
    }
    let is_leap =
        |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let month_days = |month: u64| match month {
        2 => 28 + u64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    if day == 0 || day > month_days(month) {
        return None;
    }
    let before_year: u64 = (1970..year).map(|year| 365 + u64::from(is_leap(year))).sum();
    let before_month: u64 = (1..month).map(month_days).sum();
    Some(before_year + before_month + day - 1)
}
