//! The numbered requirements, and which tests name them.
//!
//! A test names a requirement by its number with three digits: `ha_023_…`, `fd_011_…`, `d_042_…`, at the
//! start of its name or within it. Comments cite one as `HA-23`.

use std::collections::BTreeMap;
use std::fmt;
use std::fmt::Write as _;

use super::pages::Pages;
use super::source::SourceFile;

/// The families of numbers, in the order of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Family {
    Ha,
    Fd,
    D,
}

const FAMILIES: [(Family, &str, &str); 3] =
    [(Family::Ha, "HA", "ha"), (Family::Fd, "FD", "fd"), (Family::D, "D", "d")];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Number {
    family: Family,
    number: u32,
}

impl fmt::Display for Number {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (_, name, _) =
            FAMILIES.iter().find(|(family, ..)| *family == self.family).expect("every family is listed");
        write!(formatter, "{name}-{}", self.number)
    }
}

#[derive(Debug)]
struct Requirement {
    state: State,
    title: String,
}

/// What shows that a requirement is met.
#[derive(Debug, PartialEq, Eq)]
enum State {
    /// Nothing yet.
    Open,
    /// Some test names it, and must go on to: what was once proved stays proved.
    Tested,
    /// Only an operator can check it. This paragraph tells them, and names the number: `docs/page.md#paragraph`.
    Document(String),
}

/// The list in `docs/requirements.txt`.
#[derive(Debug)]
pub(crate) struct Requirements(BTreeMap<Number, Requirement>);

impl Requirements {
    /// Reads lines of `HA-1 tested One process holds the lease`: `open` instead of `tested` where no test names the
    /// number yet, `document docs/page.md#paragraph` where only an operator can check it and that paragraph says so.
    /// Empty lines and lines that start with `#` are skipped.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut requirements = BTreeMap::new();
        for (index, line) in text.lines().enumerate() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let place = format!("docs/requirements.txt:{}", index + 1);
            let mut words = line.splitn(3, ' ');
            let number = words.next().and_then(parse_citation);
            let number = number.ok_or(format!("{place}: a line starts with HA-, FD- or D- and a number"))?;
            let (state, rest) = (words.next(), words.next().unwrap_or_default());
            let (state, title) = match state {
                Some("tested") => (State::Tested, rest),
                Some("open") => (State::Open, rest),
                Some("document") => {
                    let (page, title) = rest.split_once(' ').unwrap_or((rest, ""));
                    if !page.starts_with("docs/") || !page.contains(".md#") {
                        return Err(format!(
                            "{place}: after {number} document stands `docs/page.md#paragraph`"
                        ));
                    }
                    (State::Document(page.to_owned()), title)
                }
                Some(_) | None => {
                    return Err(format!(
                        "{place}: after {number} stands `tested`, `open` or `document docs/page.md#paragraph`"
                    ));
                }
            };
            let title = title.trim().to_owned();
            if title.is_empty() {
                return Err(format!("{place}: {number} has no title"));
            }
            if requirements.insert(number, Requirement { state, title }).is_some() {
                return Err(format!("{place}: {number} stands here twice"));
            }
        }
        Ok(Self(requirements))
    }

    /// Every requirement with the tests that name it, or the document that tells an operator what to check. The last
    /// line is `covered N of M`, in tests; documents are counted apart, since they prove nothing.
    pub(crate) fn report(&self, files: &[SourceFile]) -> String {
        let tests = tests_by_number(files);
        let mut report = String::new();
        let (mut covered, mut documented) = (0, 0);
        for (number, requirement) in &self.0 {
            let _ = writeln!(report, "{number}  {}", requirement.title);
            let naming = tests.get(number).map_or(&[][..], Vec::as_slice);
            for test in naming {
                let _ = writeln!(report, "    {test}");
            }
            if !naming.is_empty() {
                covered += 1;
            } else if let State::Document(paragraph) = &requirement.state {
                documented += 1;
                let _ = writeln!(report, "    for an operator to check: {paragraph}");
            }
        }
        let open = self.0.len() - covered - documented;
        let _ = writeln!(
            report,
            "covered {covered} of {} by tests, {documented} by documents only, {open} open",
            self.0.len()
        );
        report
    }

    /// Numbers that do not exist, and requirements that have lost their tests or their paragraph.
    pub(crate) fn check(&self, files: &[SourceFile], pages: &Pages) -> Vec<String> {
        let mut findings = Vec::new();
        let tests = tests_by_number(files);
        for (number, naming) in &tests {
            if !self.0.contains_key(number) {
                findings
                    .push(format!("{}: there is no {number}; docs/requirements.txt lists them", naming[0]));
            }
        }
        for file in files {
            for (index, line) in file.text.lines().enumerate() {
                for number in citations(line).filter(|number| !self.0.contains_key(number)) {
                    let place = format!("{}:{}", file.name, index + 1);
                    findings.push(format!("{place}: there is no {number}; docs/requirements.txt lists them"));
                }
            }
        }
        for (number, Requirement { state, title }) in &self.0 {
            let problem = match state {
                State::Open => None,
                State::Tested => (!tests.contains_key(number))
                    .then(|| "is listed as tested, but no test names it any more".to_owned()),
                State::Document(paragraph) => match pages.paragraph(paragraph) {
                    None => Some(format!("is listed with {paragraph}, but there is no such paragraph")),
                    Some(text) => (!text.lines().flat_map(citations).any(|cited| cited == *number))
                        .then(|| format!("is listed with {paragraph}, which does not name it")),
                },
            };
            if let Some(problem) = problem {
                findings.push(format!("docs/requirements.txt: {number} ({title}) {problem}"));
            }
        }
        findings
    }
}

/// `file: function` of every function that is named after a requirement.
fn tests_by_number(files: &[SourceFile]) -> BTreeMap<Number, Vec<String>> {
    let mut tests: BTreeMap<Number, Vec<String>> = BTreeMap::new();
    for file in files {
        // This tool's own tests are about made-up numbers.
        for function in file.functions().iter().filter(|_| !file.name.starts_with("xtask/")) {
            for number in numbers_in_name(&function.name) {
                tests.entry(number).or_default().push(format!("{}: {}", file.name, function.name));
            }
        }
    }
    tests
}

/// The requirements in a test's name: `ha` or `fd` or `d`, then exactly three digits.
fn numbers_in_name(name: &str) -> Vec<Number> {
    let words: Vec<&str> = name.split('_').collect();
    words
        .windows(2)
        .filter_map(|pair| {
            let (family, ..) = FAMILIES.iter().find(|(_, _, prefix)| *prefix == pair[0])?;
            let is_number = pair[1].len() == 3 && pair[1].bytes().all(|byte| byte.is_ascii_digit());
            let number = pair[1].parse().ok().filter(|_| is_number)?;
            Some(Number { family: *family, number })
        })
        .collect()
}

/// The requirements that a line cites: `HA-23`, but not `SHA-256`.
fn citations(line: &str) -> impl Iterator<Item = Number> {
    let is_part = |character: char| character.is_ascii_alphanumeric() || character == '-' || character == '_';
    line.split(move |character: char| !is_part(character)).filter_map(parse_citation)
}

/// Exactly `HA-23`.
fn parse_citation(word: &str) -> Option<Number> {
    let (prefix, digits) = word.split_once('-')?;
    let (family, ..) = FAMILIES.iter().find(|(_, name, _)| *name == prefix)?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.parse().ok().filter(|_| is_number)?;
    Some(Number { family: *family, number })
}

#[cfg(test)]
#[path = "requirements_tests.rs"]
mod tests;
