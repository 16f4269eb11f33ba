//! What a server's log tells about how it came to serve.

use std::time::Duration;

use serde_json::Value;

/// Roles of a process that has the lease and does not serve yet, as log lines name them.
const BEFORE_SERVING: [&str; 5] = ["opening", "outwaiting", "raising", "confirming", "recovering"];

/// One way from winning the lease to serving.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Takeover {
    /// From the first role that has the lease to the one that serves.
    pub(crate) recovery: Duration,
}

impl Takeover {
    /// The last one in a log of JSON lines; none if it never served, or the log begins later.
    pub(crate) fn last_in(log: &str) -> Option<Self> {
        let mut won = None;
        let mut last = None;
        for line in log.lines() {
            let Some((role, at)) = role_change(line) else { continue };
            if BEFORE_SERVING.contains(&role.as_str()) {
                won = won.or(Some(at));
            } else if role == "active" {
                last = won.take().map(|won| Self { recovery: at.saturating_sub(won) });
            } else {
                won = None;
            }
        }
        last
    }
}

/// `{"timestamp":…,"role":"recovering"}` as the role, and when.
fn role_change(line: &str) -> Option<(String, Duration)> {
    // Most lines are about something else.
    if !line.contains("\"role\":") {
        return None;
    }
    let json: Value = serde_json::from_str(line).ok()?;
    Some((json["role"].as_str()?.to_owned(), since_1970(json["timestamp"].as_str()?)?))
}

/// `2026-12-01T05:12:52.123456Z`
fn since_1970(text: &str) -> Option<Duration> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let numbers =
        |text: &str, separator| text.split(separator).map(str::parse).collect::<Result<Vec<u64>, _>>().ok();
    let (seconds, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let ([year, month, day], [hour, minute, second]) =
        (numbers(date, '-')?.try_into().ok()?, numbers(seconds, ':')?.try_into().ok()?);
    let micros: u64 = format!("{fraction:0<6}").get(..6)?.parse().ok()?;
    let days = days_since_1970(year, month, day);
    Some(
        Duration::from_secs(days * 86_400 + hour * 3_600 + minute * 60 + second)
            + Duration::from_micros(micros),
    )
}

fn days_since_1970(year: u64, month: u64, day: u64) -> u64 {
    // Years begin in March, so that the day that only some of them have is their last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    days.saturating_sub(719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(time: &str, role: &str) -> String {
        format!(r#"{{"timestamp":"2026-12-{time}Z","level":"INFO","message":"in words","role":"{role}"}}"#)
    }

    #[test]
    fn recovery_is_from_the_lease_to_serving() {
        let log = [
            line("01T05:00:00.000000", "waiting"),
            line("01T05:00:01.000000", "opening"),
            line("01T05:00:09.000000", "active"),
            line("01T06:00:00.000000", "draining"),
            line("01T23:59:59.950000", "recovering"),
            "something else".to_owned(),
            line("01T23:59:59.990000", "confirming"),
            line("02T00:00:00.075001", "active"),
            line("02T00:00:07.000000", "draining"),
        ];
        let expected = Takeover { recovery: Duration::from_micros(125_001) };
        assert_eq!(Takeover::last_in(&log.join("\n")), Some(expected));
        assert_eq!(Takeover::last_in(&log[..1].join("\n")), None);
        assert_eq!(Takeover::last_in(&log[2]), None, "the begin is missing");
    }

    #[test]
    fn a_time_is_counted_from_1970() {
        assert_eq!(since_1970("1970-01-02T00:00:01.5Z"), Some(Duration::from_millis(86_401_500)));
        assert_eq!(since_1970("2026-12-01T05:12:52Z"), Some(Duration::from_secs(1_796_101_972)));
        assert_eq!(since_1970("yesterday"), None);
    }
}
