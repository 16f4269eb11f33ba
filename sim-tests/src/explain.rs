//! What a person gets to see of a failure, in this order: the sentence, the command, the time line, the rule,
//! the configuration, the reasons.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use dexzd_io_sim::dice::{Decision, Dice};
use dexzd_io_sim::trace::Trace;

use crate::attempt::{Attempt, Fault, NO_PANIC, attempt};
use crate::log_file::{self, seconds};
use crate::report;
use crate::runner::World;
use crate::shrink::{script, shrink};
use crate::timeline::timeline;
use crate::worlds::NamedWorld;

/// Shrinking takes at most so long.
pub const SHRINK_BUDGET: Duration = Duration::from_secs(10);
/// Not more reasons than this are tried one by one.
const MOST_REASONS: usize = 40;

static COMMAND_END: OnceLock<String> = OnceLock::new();

/// Every command that is told from now on ends with this: what was switched on.
pub fn end_commands_with(text: String) {
    COMMAND_END.get_or_init(|| text);
}

/// A command of `sim` as a person types it.
#[must_use]
pub fn command(arguments: &str) -> String {
    format!("cargo xtask sim {arguments}{}", COMMAND_END.get().map_or("", String::as_str))
}

/// Where a rule is explained: the file of its check, and the table in the docs.
#[must_use]
pub fn place_of(fault: &Fault) -> String {
    match fault {
        Fault::Rule(violation) => {
            let rule = &violation.rule;
            let number = rule.strip_prefix("invariant ").and_then(|rest| rest.split(' ').next());
            let file = match number.and_then(|number| number.parse::<u32>().ok()) {
                Some(number) => format!("invariant_{number:02}_*.rs"),
                None if rule.starts_with("HA-13") => "epochs_rise.rs".to_owned(),
                None if rule.starts_with("concepts.md") => "reference_flow.rs".to_owned(),
                None => String::new(),
            };
            format!("{rule}: sim-tests/src/invariants/{file}, docs/simulator.md#what-is-checked")
        }
        Fault::CorePanic(panic) => format!("{NO_PANIC}: {}", panic.place),
        Fault::SimulatorPanic(_) | Fault::Divergence(_) | Fault::MarkMissed(_) => {
            "no rule of the product: docs/simulator.md#faults-of-the-simulator".to_owned()
        }
    }
}

/// The facts of a configuration that are not the calm ones, in lines.
#[must_use]
pub fn config_lines(config: &str) -> Vec<String> {
    const CALM: [&str; 5] = ["0", "false", "None", "[]", "0.0"];
    let mut lines = Vec::new();
    let mut line = String::new();
    for fact in config.replace("{ ", "{, ").replace(" }", ", }").split(", ") {
        let is_calm = fact.split_once(": ").is_some_and(|(_, value)| CALM.contains(&value));
        if is_calm || fact.is_empty() {
            continue;
        }
        let glue = if line.is_empty() || line.ends_with('{') || fact == "}" { " " } else { ", " };
        if line.chars().count() + fact.chars().count() > 110 && glue == ", " {
            lines.push(std::mem::take(&mut line) + ",");
            line.push_str("  ");
        } else {
            line.push_str(glue);
        }
        line.push_str(fact);
    }
    lines.push(line);
    let lines = lines.into_iter().map(|line| line.trim_end().trim_start_matches(' ').replace("{ }", "calm"));
    lines.filter(|line| !line.is_empty()).collect()
}

/// The decisions that are not calm, and whether the failure needs each.
#[must_use]
pub fn reasons(world: World, decisions: &[Decision], fault: &Fault) -> Vec<String> {
    let places: Vec<usize> = (0..decisions.len()).filter(|place| decisions[*place].chosen != 0).collect();
    let describe = |decision: &Decision| {
        let Decision { stream, kind, alternatives, chosen, at } = decision;
        format!("{:>14}  {stream} {kind}: {chosen} of 0..{alternatives}", seconds(*at))
    };
    if places.len() > MOST_REASONS {
        let last = places.iter().rev().take(MOST_REASONS).rev();
        let mut lines =
            vec![format!("{} decisions are not calm; the last {MOST_REASONS} are:", places.len())];
        lines.extend(last.map(|place| describe(&decisions[*place])));
        return lines;
    }
    let mut lines = Vec::new();
    for place in places {
        let mut without = decisions.to_vec();
        without[place].chosen = 0;
        let attempt = attempt(world, Dice::from_script(script(&without)), Trace::quiet());
        let still = attempt.fault.is_some_and(|other| other.key() == fault.key());
        let verdict = if still { "it fails without this, too" } else { "without this it does not fail" };
        lines.push(format!("{:<62} {verdict}", describe(&decisions[place])));
    }
    lines
}

/// A failure, told.
#[derive(Debug)]
pub struct Told {
    /// For a terminal.
    pub text: String,
    /// For a browser.
    pub page: String,
}

/// Tells what these decisions lead to. `command` is how it is replayed. None: nothing is wrong.
#[must_use]
pub fn tell(world: &NamedWorld, decisions: &[Decision], command: &str) -> Option<Told> {
    let Attempt { fault, run, .. } =
        attempt(world.make, Dice::from_script(script(decisions)), Trace::watched());
    let fault = fault?;
    let mut text = String::new();
    let mut add = |line: &str| writeln!(text, "{line}").expect("writing to a string cannot fail");
    let mut page = report::Page {
        sentence: fault.to_string(),
        command: command.to_owned(),
        rule: place_of(&fault),
        ..report::Page::default()
    };
    add(&page.sentence);
    add(&format!("again: {command}\n"));
    if let Some(run) = run {
        page.story = run.trace.story();
        page.ends = run.simulated;
        page.config = config_lines(&run.config);
        for row in timeline(&page.story) {
            add(&row);
        }
        add("");
    }
    add(&format!("rule: {}", page.rule));
    for line in &page.config {
        add(line);
    }
    page.reasons = reasons(world.make, decisions, &fault);
    add("\ndecisions that are not calm:");
    for reason in &page.reasons {
        add(reason);
    }
    Some(Told { text, page: page.html() })
}

/// A failing seed, written down and told.
#[derive(Debug)]
pub struct Failure {
    /// What went wrong.
    pub fault: Fault,
    /// The text for a terminal, which names the files.
    pub text: String,
    /// The shrunk decision log.
    pub log: Option<PathBuf>,
    /// The page.
    pub page: Option<PathBuf>,
}

/// Shrinks a failing seed, writes the decision log and the page, and tells it all.
#[must_use]
pub fn failing_seed(world: &NamedWorld, seed: u64, fault: &Fault) -> Failure {
    let by_seed = command(&format!("replay --world {} --seed {seed}", world.name));
    let first = attempt(world.make, Dice::from_seed(seed), Trace::quiet());
    let small = shrink(world.make, &first.decisions, SHRINK_BUDGET);
    let Some(small) = small else {
        let text = format!("{fault}\nagain: {by_seed}\nrule: {}\n", place_of(fault));
        return Failure { fault: fault.clone(), text, log: None, page: None };
    };
    let path = |end| std::env::temp_dir().join(format!("dexzd-{}-{seed}.{end}", world.name));
    let (log, page) = (path("decisions"), path("report.html"));
    let again = command(&format!("replay {}", log.display()));
    let told = tell(world, &small.decisions, &again);
    let Told { mut text, page: html } =
        told.unwrap_or_else(|| Told { text: format!("{fault}\nagain: {by_seed}\n"), page: String::new() });
    let notes = [small.fault.to_string(), format!("shrunk from seed {seed}")];
    let written = log_file::written(world, &notes, &small.decisions);
    let minimal = if small.is_minimal { "" } else { ", and the time for shrinking was over" };
    writeln!(
        text,
        "\nseed: {seed} ({by_seed})\nshrunk: {} decisions that are not calm, of {} drawn, in {} runs{minimal}",
        small.size(),
        crate::shrink::size(&first.decisions),
        small.runs
    )
    .expect("writing to a string cannot fail");
    let mut keep = |path: PathBuf, name: &str, content: &str| match std::fs::write(&path, content) {
        Ok(()) => {
            text.push_str(&format!("{name}: {}\n", path.display()));
            Some(path)
        }
        Err(error) => {
            text.push_str(&format!("{name}: {} cannot be written: {error}\n", path.display()));
            None
        }
    };
    let log = keep(log, "decision log", &written);
    let page = keep(page, "page", &html);
    Failure { fault: small.fault, text, log, page }
}

#[cfg(test)]
mod tests {
    use super::{config_lines, place_of};
    use crate::attempt::Fault;
    use dexzd_io_sim::watch::Violation;

    #[test]
    fn a_configuration_shows_what_is_not_calm() {
        assert_eq!(
            config_lines(
                "C { processes: 2, store: S { slow: 0, late: 7 }, people: P { a: 0 }, lost: false }"
            ),
            ["C { processes: 2, store: S { late: 7 }, people: P calm }"]
        );
    }

    #[test]
    fn a_rule_leads_to_its_file() {
        let violation =
            Violation { at: 1, rule: "invariant 10 (traffic)".to_owned(), sentence: String::new() };
        assert_eq!(
            place_of(&Fault::Rule(violation)),
            "invariant 10 (traffic): sim-tests/src/invariants/invariant_10_*.rs, docs/simulator.md#what-is-checked"
        );
    }
}
