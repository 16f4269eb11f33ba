//! Pages of documentation: their headings and commands. Their links are checked by `cargo xtask tidy`.

use std::collections::BTreeSet;

use crate::repository;

/// Every page: those at the top of the repository, and all below `docs`.
///
/// # Panics
///
/// If a folder cannot be read.
#[must_use]
pub fn all() -> Vec<Page> {
    let mut pages: Vec<Page> =
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "fuzz/README.md"].map(Page::read).into();
    for folder in ["docs", "docs/errors"] {
        let entries = std::fs::read_dir(repository().join(folder)).expect("the folder of the pages");
        for entry in entries {
            let name = entry.expect("readable").file_name().to_string_lossy().into_owned();
            if name.ends_with(".md") {
                pages.push(Page::read(&format!("{folder}/{name}")));
            }
        }
    }
    pages
}

/// One page in Markdown.
pub struct Page {
    /// Its path in the repository.
    pub path: String,
    text: String,
}

impl Page {
    /// Reads it.
    #[must_use]
    pub fn read(path: &str) -> Self {
        Self { path: path.to_owned(), text: crate::read(path) }
    }

    /// The anchors of its headings, as web hosts of repositories make them.
    #[must_use]
    pub fn anchors(&self) -> BTreeSet<String> {
        self.prose().filter_map(|line| line.strip_prefix('#')).map(anchor_of).collect()
    }

    /// What is typed in its blocks of console text, each command with its continued lines.
    #[must_use]
    pub fn commands(&self) -> Vec<String> {
        let mut commands: Vec<String> = Vec::new();
        let mut in_console = false;
        let mut continued = false;
        for line in self.text.lines() {
            if let Some(language) = line.strip_prefix("```") {
                in_console = language == "console";
            } else if in_console {
                let typed = line.strip_prefix("$ ");
                let (more, part) = match (typed, line.strip_prefix("> ")) {
                    (Some(command), _) => (false, command),
                    (None, Some(part)) if continued => (true, part),
                    (None, _) => continue,
                };
                continued = part.ends_with('\\');
                let part = part.trim_end_matches('\\').trim();
                match commands.last_mut().filter(|_| more) {
                    Some(last) => *last = format!("{last} {part}"),
                    None => commands.push(part.to_owned()),
                }
            }
        }
        commands
    }

    /// Commands in the middle of a sentence: `` `dexcli health` ``. They may leave out what does not matter there.
    #[must_use]
    pub fn mentions(&self) -> Vec<String> {
        let parts = self.prose().flat_map(|line| line.split('`').skip(1).step_by(2));
        parts.map(str::to_owned).collect()
    }

    /// Its blocks in a language, as in "yaml".
    #[must_use]
    pub fn blocks(&self, wanted: &str) -> Vec<String> {
        let mut blocks: Vec<String> = Vec::new();
        let mut is_wanted = false;
        for line in self.text.lines() {
            if let Some(language) = line.strip_prefix("```") {
                is_wanted = language == wanted;
                if is_wanted {
                    blocks.push(String::new());
                }
            } else if is_wanted && let Some(block) = blocks.last_mut() {
                block.push_str(line);
                block.push('\n');
            }
        }
        blocks
    }

    /// Lines outside of blocks of code.
    fn prose(&self) -> impl Iterator<Item = &str> {
        let mut in_code = false;
        self.text.lines().filter(move |line| {
            if line.starts_with("```") {
                in_code = !in_code;
            }
            !in_code
        })
    }
}

/// `## The lease, and D-1` becomes `the-lease-and-d-1`.
fn anchor_of(heading: &str) -> String {
    let words = heading.trim_start_matches('#').trim().to_lowercase();
    words
        .chars()
        .filter(|character| character.is_alphanumeric() || matches!(character, ' ' | '-' | '_'))
        .map(|character| if character == ' ' { '-' } else { character })
        .collect()
}
