//! `sim advise`: what a lease duration means with a given store.

use std::time::Duration;

use dexzd_sim_tests::advise::{Conditions, Outlook, outlook};

use crate::end::End;
use crate::seeds;

/// Durations that are looked at beside the one asked for.
const OTHERS: [u64; 6] = [3, 6, 10, 20, 30, 60];
/// This many false takeovers a year nobody minds.
const FEW_A_YEAR: f64 = 12.0;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The lease duration: whole seconds, at least 3s
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = seeds::duration)]
    lease: Duration,

    /// Half of the store's requests take less
    #[arg(long, value_name = "TIME", default_value = "20ms", value_parser = seeds::duration)]
    store_p50: Duration,

    /// One of a thousand requests takes more
    #[arg(long, value_name = "TIME", value_parser = seeds::duration)]
    store_p999: Duration,

    /// Clock rates differ from true time by at most this
    #[arg(long, value_name = "PPM", default_value = "200ppm", value_parser = ppm)]
    drift: u64,

    /// Simulate for so long
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = seeds::duration)]
    budget: Duration,
}

fn ppm(text: &str) -> Result<u64, String> {
    let number = text.strip_suffix("ppm").unwrap_or(text);
    number.parse().map_err(|_| format!("{text:?} is no drift; write 200ppm"))
}

pub(crate) fn run(arguments: &Arguments) -> Result<End, End> {
    let seconds = arguments.lease.as_secs();
    if !(3..=3_600).contains(&seconds) || arguments.lease.subsec_nanos() != 0 {
        return Err(End::Usage("--lease must be whole seconds, from 3s to 3600s".to_owned()));
    }
    if arguments.store_p999 < arguments.store_p50 {
        return Err(End::Usage("--store-p999 is below --store-p50".to_owned()));
    }
    let limit = 1_000_000 / (2 * seconds + 1);
    if arguments.drift >= limit {
        return Err(End::Usage(format!(
            "with a lease of {seconds} s clocks may drift by less than {limit} ppm, and {} ppm is more: nothing \
             can be promised",
            arguments.drift
        )));
    }
    let conditions =
        Conditions { p50: arguments.store_p50, p999: arguments.store_p999, drift_ppm: arguments.drift };
    let mut durations: Vec<u64> = OTHERS.into_iter().chain([seconds]).collect();
    durations.sort_unstable();
    durations.dedup();
    durations.retain(|duration| arguments.drift < 1_000_000 / (2 * duration + 1));
    let budget = arguments.budget / u32::try_from(durations.len()).expect("a few");
    println!(
        "store: p50 {:?}, p99.9 {:?}; clocks within {} ppm; two processes, nothing else wrong",
        arguments.store_p50, arguments.store_p999, arguments.drift
    );
    println!(
        "{:>7} {:>10} {:>24} {:>9} {:>9}   gap after a kill: p50, p90, p99",
        "lease", "simulated", "false takeovers a day", "in a day", "in a year"
    );
    let mut outlooks = Vec::new();
    for duration in durations {
        let outlook = outlook(duration, conditions, budget).map_err(|sentence| {
            eprintln!("{sentence}");
            End::RuleBroken
        })?;
        println!("{}", line(duration, duration == seconds, &outlook));
        outlooks.push((duration, outlook));
    }
    println!("\n{}", advice(seconds, &outlooks));
    Ok(End::Well)
}

fn line(duration: u64, asked: bool, outlook: &Outlook) -> String {
    let (per_day, seen) = outlook.per_day();
    let per_day = if seen {
        format!("{per_day:.3} ({})", outlook.false_takeovers)
    } else {
        format!("below {per_day:.2} (0)")
    };
    let chance = |days| format!("{}{:.1} %", if seen { "" } else { "<" }, outlook.chance_in(days) * 100.0);
    let gap = |share| outlook.gap(share).map_or("-".to_owned(), |gap| format!("{:.1} s", gap.as_secs_f64()));
    format!(
        "{:>7} {:>8.1} d {per_day:>24} {:>9} {:>9}   {}, {}, {}{}",
        format!("{duration} s"),
        outlook.simulated as f64 / 86_400e6,
        chance(1.0),
        chance(365.0),
        gap(0.5),
        gap(0.9),
        gap(0.99),
        if asked { "   <- asked" } else { "" }
    )
}

/// What to change.
fn advice(seconds: u64, outlooks: &[(u64, Outlook)]) -> String {
    let is_calm = |outlook: &Outlook| {
        let (per_day, seen) = outlook.per_day();
        !seen || per_day * 365.0 <= FEW_A_YEAR
    };
    let asked = outlooks.iter().find(|(duration, _)| *duration == seconds);
    let shortest = outlooks.iter().find(|(_, outlook)| is_calm(outlook));
    match (asked, shortest) {
        (Some((_, outlook)), _) if is_calm(outlook) => {
            let shorter = shortest.filter(|(duration, _)| *duration < seconds);
            let shorter = shorter.map_or(String::new(), |(duration, outlook)| {
                let gap = outlook.gap(0.5).unwrap_or_default().as_secs_f64();
                format!(" So is one of {duration} s, and a failover takes {gap:.1} s with it.")
            });
            format!("A lease of {seconds} s is calm with this store.{shorter}")
        }
        (_, Some((duration, _))) => format!(
            "A lease of {seconds} s is too short for this store. {duration} s is calm; or make the store's slow \
             requests faster: every renewal has two thirds of the lease for all its tries."
        ),
        (_, None) => {
            "No duration up to a minute is calm with this store: its slow requests are the problem, not \
                      the lease."
                .to_owned()
        }
    }
}
