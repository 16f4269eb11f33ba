//! Rules about single files and about the files together.

use super::source::SourceFile;

/// Nobody reads a longer file from top to bottom. The aim is 250; this is where it has failed.
const FILE_LINES: usize = 700;

/// Tests are read one at a time, so a file of them may be longer.
const TEST_FILE_LINES: usize = 800;

/// A longer function is several functions. Only wiring that happens once comes near it.
const FUNCTION_LINES: usize = 150;

/// What is left over from trying something out, as (code, what to do instead). Written in two halves, so that this
/// file passes its own check.
const LEFT_OVERS: [(&str, &str); 4] = [
    (concat!("dbg", "!("), "remove it"),
    (concat!("todo", "!("), "write it, or return an error that says it is not built yet"),
    (concat!("unimplemented", "!("), "write it, or return an error that says it is not built yet"),
    (concat!("#[ig", "nore]"), "a test that does not run proves nothing: mend it, or say why it waits"),
];

/// Words in comments that promise work which nobody will find there.
const PROMISES: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

/// Paths of one machine.
const MACHINE_PATHS: [&str; 2] = [concat!("/ho", "me/"), concat!("/Us", "ers/")];

/// One line per broken rule: `file:line: what is wrong; what to do`.
pub(crate) fn check_file(file: &SourceFile) -> Vec<String> {
    let mut findings = Vec::new();
    let lines = file.text.lines().count();
    let limit = if file.name.contains("tests") { TEST_FILE_LINES } else { FILE_LINES };
    if lines > limit {
        findings.push(format!("{}:1: {lines} lines, at most {limit}: split it by topic", file.name));
    }
    for function in file.functions() {
        if function.line_count > FUNCTION_LINES {
            findings.push(format!(
                "{}:{}: fn {} has {} lines, at most {FUNCTION_LINES}: split it",
                file.name, function.line, function.name, function.line_count
            ));
        }
    }
    for (number, (line, code)) in file.text.lines().zip(file.code.lines()).enumerate() {
        let place = format!("{}:{}", file.name, number + 1);
        for (left_over, instead) in LEFT_OVERS {
            if code.contains(left_over) {
                findings.push(format!("{place}: {left_over}…: {instead}"));
            }
        }
        for promise in PROMISES {
            if names_word(line, promise) {
                findings.push(format!("{place}: {promise}: do it now or file an issue"));
            }
        }
        for path in MACHINE_PATHS {
            if line.contains(path) {
                findings.push(format!("{place}: {path}… is a path of one machine"));
            }
        }
    }
    findings
}

/// Files that no `mod` and no `#[path]` of their package leads to: cargo ignores them without a word.
pub(crate) fn dead_files(files: &[SourceFile]) -> Vec<String> {
    let mut findings = Vec::new();
    for file in files {
        let Some((package, path)) = file.name.split_once("/src/") else {
            continue;
        };
        let stem = path.trim_end_matches(".rs");
        let is_root = matches!(path, "lib.rs" | "main.rs") || path.starts_with("bin/");
        let module = stem.strip_suffix("/mod").unwrap_or(stem).rsplit('/').next().unwrap_or(stem);
        let file_name = path.rsplit('/').next().unwrap_or(path);
        let is_named =
            files.iter().filter(|other| other.name.starts_with(&format!("{package}/"))).any(|other| {
                let declares = other.code.contains(&format!("mod {module};"));
                declares || other.text.contains(&format!("{file_name}\"]"))
            });
        if !is_root && !is_named {
            findings.push(format!(
                "{}:1: no `mod {module};` leads here: remove the file or declare it",
                file.name
            ));
        }
    }
    findings
}

fn names_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(start, _)| {
        let is_letter = |character: char| character.is_alphanumeric() || character == '_';
        let before = line[..start].chars().next_back();
        let after = line[start + word.len()..].chars().next();
        !before.is_some_and(is_letter) && !after.is_some_and(is_letter)
    })
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;
