//! How seeds, times and worlds are written on a command line.

use std::time::Duration;

use dexzd_sim_tests::worlds::{self, NamedWorld};

/// `1..20000` with both ends, or one number.
pub(crate) fn range(text: &str) -> Result<(u64, u64), String> {
    let number = |text: &str| {
        text.replace('_', "")
            .parse::<u64>()
            .map_err(|_| format!("{text:?} is no number; write 1..20000 or 7"))
    };
    let (first, last) = match text.split_once("..") {
        Some((first, last)) => (number(first)?, number(last.trim_start_matches('='))?),
        None => (number(text)?, number(text)?),
    };
    if first > last {
        return Err(format!("{text} begins behind its end"));
    }
    Ok((first, last))
}

/// `4m`, `90s`, `1h`, `250ms`, `10us`; microseconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|letter: char| letter.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let unit = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3_600.0,
        _ => return Err(format!("{text:?} is no duration; write 4m, 90s, 1h or 250ms")),
    };
    let number: f64 = number.parse().map_err(|_| format!("{text:?} is no duration; write 4m or 90s"))?;
    Duration::try_from_secs_f64(number * unit).map_err(|_| format!("{text:?} is no duration"))
}

/// The hash of a commit, or a part of it, as a seed.
pub(crate) fn seed_of_commit(text: &str) -> Result<u64, String> {
    if text.len() < 7 || text.len() > 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(format!("{text:?} is no commit hash: 7 to 64 hexadecimal digits"));
    }
    // FNV-1a. The seeds of two commits do not meet: the low bits are left for the numbers of a range.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in text.to_ascii_lowercase().bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    Ok(hash & !0xffff_ffff)
}

/// One world.
pub(crate) fn world(name: &str) -> Result<&'static NamedWorld, String> {
    worlds::named(name).ok_or_else(|| {
        let known: Vec<&str> = worlds::ALL.iter().map(|world| world.name).collect();
        format!("there is no world {name:?}, but: {}", known.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::{duration, range, seed_of_commit};
    use std::time::Duration;

    #[test]
    fn a_range_has_both_ends() {
        assert_eq!(range("1..20000"), Ok((1, 20_000)));
        assert_eq!(range("7"), Ok((7, 7)));
        assert_eq!(range("9..7"), Err("9..7 begins behind its end".to_owned()));
        assert!(range("a..7").is_err());
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("4m"), Ok(Duration::from_secs(240)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert!(duration("4").is_err());
        assert!(duration("-4s").is_err());
    }

    #[test]
    fn a_commit_is_a_seed_and_nothing_else_is() {
        let seed = seed_of_commit("ccdc871").expect("seven digits");
        assert_eq!(seed_of_commit("CCDC871"), Ok(seed));
        assert_ne!(seed_of_commit("ccdc872"), Ok(seed));
        assert_eq!(seed & 0xffff_ffff, 0);
        assert!(seed_of_commit("main").is_err());
    }
}
