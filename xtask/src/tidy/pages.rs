//! Pages in Markdown: their paragraphs, and links that lead nowhere.

use std::collections::BTreeSet;

/// One page.
#[derive(Debug)]
pub(crate) struct Page {
    /// Its path in the repository.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// Every page of the repository.
#[derive(Debug, Default)]
pub(crate) struct Pages(pub(crate) Vec<Page>);

impl Pages {
    /// The paragraph that `docs/page.md#paragraph` names: from its heading to the next one that is not below it.
    pub(crate) fn paragraph(&self, reference: &str) -> Option<String> {
        let (path, anchor) = reference.split_once('#')?;
        let page = self.page(path)?;
        let mut lines = page.prose();
        let level = lines.by_ref().find_map(|line| heading(line).filter(|(_, own)| own == anchor))?.0;
        let body = lines.take_while(|line| heading(line).is_none_or(|(own, _)| own > level));
        Some(body.collect::<Vec<_>>().join("\n"))
    }

    /// One finding for each link into the repository whose file or paragraph does not exist.
    pub(crate) fn broken_links(&self, exists: impl Fn(&str) -> bool) -> Vec<String> {
        let mut findings = Vec::new();
        for page in &self.0 {
            for (number, target) in page.links() {
                let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
                let path = if file.is_empty() { page.path.clone() } else { resolve(&page.path, file) };
                let place = format!("{}:{number}", page.path);
                if !exists(&path) {
                    findings.push(format!("{place}: the link leads to {path}, which does not exist"));
                } else if !anchor.is_empty()
                    && self.page(&path).is_none_or(|page| !page.anchors().contains(anchor))
                {
                    findings.push(format!("{place}: {path} has no paragraph #{anchor}"));
                }
            }
        }
        findings
    }

    fn page(&self, path: &str) -> Option<&Page> {
        self.0.iter().find(|page| page.path == path)
    }
}

impl Page {
    fn anchors(&self) -> BTreeSet<String> {
        self.prose().filter_map(heading).map(|(_, anchor)| anchor).collect()
    }

    /// Line number and target of every link that does not lead to another host.
    fn links(&self) -> Vec<(usize, &str)> {
        let mut in_code = false;
        let mut links = Vec::new();
        for (index, line) in self.text.lines().enumerate() {
            in_code ^= line.trim_start().starts_with("```");
            if in_code {
                continue;
            }
            let targets = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
            links.extend(targets.filter(|target| !target.contains("://")).map(|target| (index + 1, target)));
        }
        links
    }

    /// Lines outside of blocks of code.
    fn prose(&self) -> impl Iterator<Item = &str> {
        let mut in_code = false;
        self.text.lines().filter(move |line| {
            in_code ^= line.trim_start().starts_with("```");
            !in_code
        })
    }
}

/// Level and anchor of a heading, the anchor as web hosts of repositories make it: `## The lease, and D-1` is
/// `the-lease-and-d-1`.
fn heading(line: &str) -> Option<(usize, String)> {
    let level = line.bytes().take_while(|byte| *byte == b'#').count();
    let words = line[level..].strip_prefix(' ').filter(|_| level > 0)?;
    let kept = |character: &char| character.is_alphanumeric() || matches!(character, ' ' | '-' | '_');
    let words = words.trim().to_lowercase();
    Some((level, words.chars().filter(kept).map(|it| if it == ' ' { '-' } else { it }).collect()))
}

/// `../a.md` beside `docs/errors/b.md` is `docs/a.md`.
fn resolve(from: &str, target: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop();
            }
            name => parts.push(name),
        }
    }
    parts.join("/")
}

#[cfg(test)]
#[path = "pages_tests.rs"]
mod tests;
