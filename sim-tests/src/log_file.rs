//! Decision logs as files, which are also scenarios: a header, notes for people, and the decisions.
//!
//! ```text
//! # dexzd decisions 1 world=lease
//! # invariant 3 (gates) was broken at 12.400000 s: …
//! swarm duration 5 0*1
//! store latency 19001 0*12
//! store latency 19001 4711    # 3.200000 s
//! ```

use std::fmt::Write as _;
use std::path::Path;

use dexzd_io_sim::dice::{Decision, Script};

use crate::worlds::{self, NamedWorld};

/// Raised when old files would be read wrongly.
pub const FORMAT: u32 = 1;

const MAGIC: &str = "# dexzd decisions ";

/// A file that was read.
#[derive(Clone, Debug)]
pub struct LogFile {
    /// The world it belongs to.
    pub world: &'static NamedWorld,
    /// The notes on top, without their `#`.
    pub notes: Vec<String>,
    /// The decisions.
    pub script: Script,
}

/// Why a file was refused: each has an exit code of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// It cannot be read, or is no decision log.
    Unreadable(String),
    /// It is one of another format version.
    OtherVersion(String),
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unreadable(text) | Self::OtherVersion(text) => formatter.write_str(text),
        }
    }
}

/// Reads a file.
///
/// # Errors
/// One line that names the file and what is wrong with it.
pub fn read(path: &Path) -> Result<LogFile, Refusal> {
    let named = |text: String| format!("{}: {text}", path.display());
    let text =
        std::fs::read_to_string(path).map_err(|error| Refusal::Unreadable(named(error.to_string())))?;
    parse(&text).map_err(|refusal| match refusal {
        Refusal::Unreadable(text) => Refusal::Unreadable(named(text)),
        Refusal::OtherVersion(text) => Refusal::OtherVersion(named(text)),
    })
}

/// Reads a text.
///
/// # Errors
/// One line that says what is wrong.
pub fn parse(text: &str) -> Result<LogFile, Refusal> {
    let header = text.lines().next().unwrap_or_default();
    let facts = header.strip_prefix(MAGIC).ok_or_else(|| {
        Refusal::Unreadable(format!("no decision log: the first line must be `{MAGIC}{FORMAT} world=…`"))
    })?;
    let mut facts = facts.split_whitespace();
    let version = facts.next().unwrap_or_default();
    if version != FORMAT.to_string() {
        return Err(Refusal::OtherVersion(format!(
            "a decision log of format {version:?}, and this simulator reads format {FORMAT}"
        )));
    }
    let name = facts.find_map(|fact| fact.strip_prefix("world=")).unwrap_or_default();
    let world = worlds::named(name).ok_or_else(|| {
        let known: Vec<&str> = worlds::ALL.iter().map(|world| world.name).collect();
        Refusal::Unreadable(format!(
            "a decision log of the world {name:?}, and there are only: {}",
            known.join(", ")
        ))
    })?;
    let notes = text.lines().skip(1).map_while(|line| line.strip_prefix('#'));
    let notes = notes.map(|note| note.trim().to_owned()).collect();
    let script = Script::parse(text).map_err(Refusal::Unreadable)?;
    Ok(LogFile { world, notes, script })
}

/// A file, with notes on top. Choices that repeat are written once; calm ones at the end of a kind not at all.
#[must_use]
pub fn written(world: &NamedWorld, notes: &[String], decisions: &[Decision]) -> String {
    let mut text = format!("{MAGIC}{FORMAT} world={}\n", world.name);
    let mut add = |line: String| writeln!(text, "{line}").expect("writing to a string cannot fail");
    for note in notes {
        add(format!("# {note}"));
    }
    add(String::new());
    for kind in kinds(decisions) {
        let last = kind.iter().rposition(|decision| decision.chosen != 0);
        let kept = &kind[..last.map_or(0, |last| last + 1)];
        for equal in
            kept.chunk_by(|one, two| (one.chosen, one.alternatives) == (two.chosen, two.alternatives))
        {
            let Decision { stream, kind, alternatives, chosen, at } = equal[0];
            let times = if equal.len() == 1 { String::new() } else { format!("*{}", equal.len()) };
            let line = format!("{stream} {kind} {alternatives} {chosen}{times}");
            let note = if chosen == 0 { String::new() } else { format!("    # {}", seconds(at)) };
            add(format!("{line}{note}"));
        }
    }
    text
}

/// The decisions of each stream and kind, in the order of their first draws.
fn kinds(decisions: &[Decision]) -> Vec<Vec<Decision>> {
    let mut order = std::collections::HashMap::new();
    let mut kinds: Vec<Vec<Decision>> = Vec::new();
    for decision in decisions {
        let index = *order.entry((decision.stream, decision.kind)).or_insert(kinds.len());
        if index == kinds.len() {
            kinds.push(Vec::new());
        }
        kinds[index].push(*decision);
    }
    kinds
}

/// A time for people.
#[must_use]
pub fn seconds(at: dexzd_io_sim::TrueTime) -> String {
    format!("{}.{:06} s", at / 1_000_000, at % 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::{Refusal, parse, written};
    use crate::worlds::LEASE;
    use dexzd_io_sim::dice::{Dice, Script, Stream};

    #[test]
    fn a_written_file_means_what_was_drawn() {
        let mut dice = Dice::from_seed(5);
        for round in 0..50 {
            dice.set_now(round * 1_000);
            dice.below(Stream::Store, "latency", 3);
            dice.chance(Stream::Crash, "now", 100_000);
        }
        let text = written(&LEASE, &["why".to_owned()], dice.decisions());
        let file = parse(&text).expect("our own file");
        assert_eq!((file.world.name, file.notes), ("lease", vec!["why".to_owned()]));
        let mut again = Dice::from_script(file.script);
        for _ in 0..50 {
            again.below(Stream::Store, "latency", 3);
            again.chance(Stream::Crash, "now", 100_000);
        }
        assert_eq!(again.written(), dice.written());
    }

    #[test]
    fn calm_choices_cost_no_lines() {
        let script = Script::parse("store latency 9 0*40\nstore latency 9 7").expect("log");
        let mut dice = Dice::from_script(script);
        for _ in 0..90 {
            dice.below(Stream::Store, "latency", 9);
        }
        let text = written(&LEASE, &[], dice.decisions());
        assert_eq!(
            text,
            "# dexzd decisions 1 world=lease\n\nstore latency 9 0*40\nstore latency 9 7    # 0.000000 s\n"
        );
    }

    #[test]
    fn files_are_refused_with_a_reason() {
        let refusal = |text| parse(text).expect_err(text);
        assert_eq!(
            refusal("store latency 9 0\n"),
            Refusal::Unreadable(
                "no decision log: the first line must be `# dexzd decisions 1 world=…`".to_owned()
            )
        );
        assert_eq!(
            refusal("# dexzd decisions 2 world=lease\n"),
            Refusal::OtherVersion(
                "a decision log of format \"2\", and this simulator reads format 1".to_owned()
            )
        );
        let Refusal::Unreadable(unknown) = refusal("# dexzd decisions 1 world=moon\n") else {
            panic!("the version is right")
        };
        assert!(unknown.starts_with("a decision log of the world \"moon\", and there are only: lease"));
        let Refusal::Unreadable(line) = refusal("# dexzd decisions 1 world=lease\nstore latency\n") else {
            panic!("the version is right")
        };
        assert!(line.starts_with("line 2 of the decision log is"));
    }
}
