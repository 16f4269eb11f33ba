//! The page of scenarios against the tests: what it says is shown has a test, and no test is named after a row
//! that is not there.
//!
//! A row is `| review 4.2 | what happens | simulator |`; its tests are named `…review_4_2_…` (or `lesson_a1_…`).

use std::collections::{BTreeMap, BTreeSet};

use super::source::SourceFile;

/// Levels whose rows must have a test.
const TESTED: [&str; 5] = ["core", "simulator", "shell", "real processes", "deployment"];
/// Levels whose rows have none, or none yet.
const UNTESTED: [&str; 2] = ["later", "document"];

/// The rows of `docs/scenarios.md`: `review_4_2` and its level.
#[derive(Debug)]
pub(crate) struct Scenarios(BTreeMap<String, String>);

impl Scenarios {
    /// Reads the rows; other lines of the page are for people.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut rows = BTreeMap::new();
        for (index, line) in text.lines().enumerate() {
            let place = format!("docs/scenarios.md:{}", index + 1);
            let cells: Vec<&str> = line.trim().trim_matches('|').split('|').map(str::trim).collect();
            let Some(id) = cells.first().and_then(|cell| identifier(cell)) else {
                continue;
            };
            let [_, _, level] = cells[..] else {
                return Err(format!("{place}: a row has a number, what happens, and a level"));
            };
            if !TESTED.contains(&level) && !UNTESTED.contains(&level) {
                return Err(format!("{place}: `{level}` is no level: {TESTED:?} or {UNTESTED:?}"));
            }
            if rows.insert(id.clone(), level.to_owned()).is_some() {
                return Err(format!("{place}: {id} stands here twice"));
            }
        }
        Ok(Self(rows))
    }

    pub(crate) fn check(&self, files: &[SourceFile]) -> Vec<String> {
        let named: BTreeSet<String> = files
            .iter()
            .filter(|file| !file.name.starts_with("xtask/"))
            .flat_map(SourceFile::functions)
            .flat_map(|function| identifiers_in_name(&function.name))
            .collect();
        let lost =
            self.0.iter().filter(|(id, level)| TESTED.contains(&level.as_str()) && !named.contains(*id));
        let mut findings: Vec<String> = lost
            .map(|(id, level)| {
                format!("docs/scenarios.md: {id} is shown at level `{level}`, but no test names it")
            })
            .collect();
        let unknown = named.iter().filter(|id| !self.0.contains_key(*id));
        findings
            .extend(unknown.map(|id| format!("docs/scenarios.md: tests are named {id}, which is not there")));
        findings
    }
}

/// `review 4.2` as tests write it: `review_4_2`.
fn identifier(cell: &str) -> Option<String> {
    let (family, number) = cell.split_once(' ')?;
    let is_number = !number.is_empty() && number.chars().all(|c| c.is_ascii_alphanumeric() || c == '.');
    (matches!(family, "review" | "lesson") && is_number)
        .then(|| format!("{family}_{}", number.to_lowercase().replace('.', "_")))
}

/// Every `review_4_2` and `lesson_a1` in a function's name. An area without parts is `review_5`: the word that follows
/// is no number.
fn identifiers_in_name(name: &str) -> Vec<String> {
    let words: Vec<&str> = name.split('_').collect();
    let is_number = |word: &&str| word.len() <= 2 && word.bytes().all(|byte| byte.is_ascii_digit());
    let is_lesson = |word: &str| {
        let mut characters = word.chars();
        characters.next().is_some_and(|letter| matches!(letter, 'a'..='h'))
            && (2..=3).contains(&word.len())
            && characters.all(|digit| digit.is_ascii_digit())
    };
    let mut found = Vec::new();
    for (index, word) in words.iter().enumerate() {
        let next = words.get(index + 1).copied().unwrap_or_default();
        if *word == "lesson" && is_lesson(next) {
            found.push(format!("lesson_{next}"));
        }
        if *word == "review" && !next.is_empty() && is_number(&next) {
            match words.get(index + 2).filter(|part| !part.is_empty() && is_number(part)) {
                Some(part) => found.push(format!("review_{next}_{part}")),
                None => found.push(format!("review_{next}")),
            }
        }
    }
    found
}

#[cfg(test)]
#[path = "scenarios_tests.rs"]
mod tests;
