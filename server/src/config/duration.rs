//! Durations as people write them: `250ms`, `10s`, `1m30s`. A unit is mandatory.

use std::time::Duration;

/// The units, and how many microseconds each has. `ms` stands before `m` and `s`: the longest match wins.
const UNITS: [(&str, u64); 5] =
    [("ms", 1_000), ("us", 1), ("h", 3_600_000_000), ("m", 60_000_000), ("s", 1_000_000)];

/// What every duration must look like, for messages.
pub const RULE: &str = "a duration is a positive number with a unit (us, ms, s, m, h), \
    for example 250ms, 1.5s, 10s or 1m30s";

/// The longest duration that any key takes: a year. It keeps every sum far from an overflow.
const MAX: Duration = Duration::from_secs(366 * 24 * 3_600);

/// Parses a duration; the error is the rule that it breaks. Fractions are kept exactly, down to a microsecond.
///
/// # Errors
///
/// Anything that is not a positive number with a unit.
pub fn parse(text: &str) -> Result<Duration, String> {
    let mut rest = text;
    let mut total: u64 = 0;
    let mut previous_unit = u64::MAX;
    while !rest.is_empty() {
        let (micros, unit, after) = part(rest)?;
        if unit >= previous_unit {
            return Err(format!("{RULE}; units go from large to small, each once"));
        }
        total = total.checked_add(micros).ok_or_else(too_long)?;
        previous_unit = unit;
        rest = after;
    }
    let duration = Duration::from_micros(total);
    if total == 0 {
        return Err(RULE.to_owned());
    }
    if duration > MAX {
        return Err(too_long());
    }
    Ok(duration)
}

/// One number with its unit: microseconds, microseconds per unit, and what follows.
fn part(text: &str) -> Result<(u64, u64, &str), String> {
    let number_length = text
        .find(|character: char| !character.is_ascii_digit() && character != '.')
        .ok_or_else(|| format!("it has no unit; {RULE}"))?;
    let (number, after) = text.split_at(number_length);
    let unit_length = after.find(|character: char| !character.is_ascii_alphabetic()).unwrap_or(after.len());
    let (unit_name, rest) = after.split_at(unit_length);
    let unit = UNITS
        .iter()
        .find(|(name, _)| *name == unit_name)
        .map(|(_, micros)| *micros)
        .ok_or_else(|| RULE.to_owned())?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let whole: u64 = digits(whole)?;
    let mut micros = whole.checked_mul(unit).ok_or_else(too_long)?;
    micros = micros.checked_add(fraction_of(fraction, unit)?).ok_or_else(too_long)?;
    Ok((micros, unit, rest))
}

fn digits(text: &str) -> Result<u64, String> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(RULE.to_owned());
    }
    text.parse().map_err(|_| too_long())
}

/// The part behind the point, in microseconds; refused where a microsecond would have to be split.
fn fraction_of(text: &str, unit: u64) -> Result<u64, String> {
    let trimmed = text.trim_end_matches('0');
    if trimmed.is_empty() {
        return digits(text);
    }
    let numerator = digits(trimmed)?;
    let too_fine = || format!("it is finer than a microsecond; {RULE}");
    let denominator = u32::try_from(trimmed.len())
        .ok()
        .and_then(|length| 10_u128.checked_pow(length))
        .ok_or_else(too_fine)?;
    let product = u128::from(numerator) * u128::from(unit);
    if !product.is_multiple_of(denominator) {
        return Err(too_fine());
    }
    u64::try_from(product / denominator).map_err(|_| too_long())
}

fn too_long() -> String {
    "it is longer than a year".to_owned()
}

/// A duration as it is shown: the shortest exact form with one unit.
#[must_use]
pub fn show(duration: Duration) -> String {
    let micros = duration.as_micros();
    let (unit, size) = match micros {
        micros if micros % 1_000_000 == 0 => ("s", 1_000_000),
        micros if micros % 1_000 == 0 => ("ms", 1_000),
        _ => ("us", 1),
    };
    format!("{}{unit}", micros / size)
}
