//! Durations as people type them: a number and a unit, nothing else.

use std::time::Duration;

const UNITS: [(&str, u64); 5] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// The longest duration a flag takes: 100 years. It keeps every sum of a time and a duration in range.
const LONGEST_MS: u64 = 100 * 366 * 86_400_000;

/// Parses `250ms`, `10s`, `5m`, `2h` or `7d`; refuses a missing unit, zero, signs and fractions.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let rule = "a duration is a whole number and a unit: 250ms, 10s, 5m, 2h or 7d";
    if number.is_empty() {
        return Err(rule.to_owned());
    }
    if unit.is_empty() {
        return Err(format!("the unit is missing; {rule}"));
    }
    let Some((_, unit_ms)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err(format!("there is no unit {unit:?}; {rule}"));
    };
    let duration_ms = number
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(*unit_ms))
        .filter(|duration_ms| *duration_ms <= LONGEST_MS)
        .ok_or("the longest duration is 100 years (36600d)")?;
    if duration_ms == 0 {
        return Err("a duration of zero means nothing here; leave the flag out".to_owned());
    }
    Ok(Duration::from_millis(duration_ms))
}

/// The milliseconds of a duration that [`parse_duration`] made.
pub(crate) fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).expect("parse_duration keeps durations below 100 years")
}

#[cfg(test)]
#[path = "duration_tests.rs"]
mod tests;
