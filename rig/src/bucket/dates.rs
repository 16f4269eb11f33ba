//! Dates as HTTP and as S3's listings write them.

use std::time::{SystemTime, UNIX_EPOCH};

const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// `Tue, 01 Dec 2026 05:12:52 GMT`
pub(super) fn http_date(time: SystemTime) -> String {
    let Civil { year, month, day, hour, minute, second, weekday } = civil(time);
    let month = MONTHS[month as usize - 1];
    format!("{}, {day:02} {month} {year} {hour:02}:{minute:02}:{second:02} GMT", DAYS[weekday as usize])
}

/// `2026-12-01T05:12:52.000Z`
pub(super) fn iso_date(time: SystemTime) -> String {
    let Civil { year, month, day, hour, minute, second, .. } = civil(time);
    format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.000Z")
}

struct Civil {
    year: u64,
    month: u64,
    day: u64,
    hour: u64,
    minute: u64,
    second: u64,
    /// Days since a Thursday.
    weekday: u64,
}

fn civil(time: SystemTime) -> Civil {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (days, second_of_day) = (seconds / 86_400, seconds % 86_400);
    // Counted from 1 March of the year 0, so that the day that only some years have is the last of its year.
    let days_since_march = days + 719_468;
    let (era, day_of_era) = (days_since_march / 146_097, days_since_march % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    Civil {
        year: era * 400 + year_of_era + u64::from(month <= 2),
        month,
        day: day_of_year - (153 * month_from_march + 2) / 5 + 1,
        hour: second_of_day / 3_600,
        minute: second_of_day / 60 % 60,
        second: second_of_day % 60,
        weekday: days % 7,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, http, iso) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT", "1970-01-01T00:00:00.000Z"),
            (951_782_399, "Mon, 28 Feb 2000 23:59:59 GMT", "2000-02-28T23:59:59.000Z"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT", "2000-02-29T00:00:00.000Z"),
            (1_796_101_972, "Tue, 01 Dec 2026 05:12:52 GMT", "2026-12-01T05:12:52.000Z"),
            (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT", "2100-03-01T00:00:00.000Z"),
        ] {
            let time = UNIX_EPOCH + Duration::from_secs(seconds);
            assert_eq!((http_date(time), iso_date(time)), (http.to_owned(), iso.to_owned()));
        }
    }
}
