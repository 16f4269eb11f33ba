//! `cargo xtask tidy`: rules of this repository that no compiler checks.

mod pages;
mod requirements;
mod rules;
mod scenarios;
mod source;

use std::path::{Path, PathBuf};

use self::pages::{Page, Pages};
use self::requirements::Requirements;
use self::scenarios::Scenarios;
use self::source::SourceFile;
use crate::shell::{Failure, repository};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Print every requirement with the tests that name it, and how many are covered
    #[arg(long)]
    requirements: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if !arguments.requirements {
        return check();
    }
    let requirements = read_requirements()?;
    print!("{}", requirements.report(&read_sources()?));
    Ok(())
}

/// Prints every broken rule; fails if there is one.
pub(crate) fn check() -> Result<(), Failure> {
    let sources = read_sources()?;
    let requirements = read_requirements()?;
    let mut findings: Vec<String> = sources.iter().flat_map(rules::check_file).collect();
    findings.extend(rules::dead_files(&sources));
    let pages = read_pages()?;
    findings.extend(requirements.check(&sources, &pages));
    findings.extend(pages.broken_links(|path| repository().join(path).exists()));
    findings.extend(read_scenarios()?.check(&sources));
    for finding in &findings {
        println!("{finding}");
    }
    if findings.is_empty() {
        println!("tidy: {} files, nothing found", sources.len());
        return Ok(());
    }
    Err(Failure::new(format!("tidy found {} things to mend", findings.len())))
}

fn read_requirements() -> Result<Requirements, Failure> {
    Requirements::parse(&read_page("requirements.txt")?).map_err(Failure::new)
}

fn read_scenarios() -> Result<Scenarios, Failure> {
    Scenarios::parse(&read_page("scenarios.md")?).map_err(Failure::new)
}

fn read_page(name: &str) -> Result<String, Failure> {
    let path = repository().join("docs").join(name);
    std::fs::read_to_string(&path)
        .map_err(|error| Failure::new(format!("cannot read {}: {error}", path.display())))
}

/// Every Rust file of the repository, in the order of their names.
fn read_sources() -> Result<Vec<SourceFile>, Failure> {
    let files = read_files(".rs")?;
    Ok(files.into_iter().map(|(name, text)| SourceFile::new(name, text)).collect())
}

/// Every page in Markdown.
fn read_pages() -> Result<Pages, Failure> {
    let files = read_files(".md")?;
    Ok(Pages(files.into_iter().map(|(path, text)| Page { path, text }).collect()))
}

/// Name and text of every file with that ending, in the order of their names.
fn read_files(ending: &str) -> Result<Vec<(String, String)>, Failure> {
    let root = repository();
    let mut paths = Vec::new();
    collect_files(&root, ending, &mut paths)
        .map_err(|error| Failure::new(format!("cannot look through {}: {error}", root.display())))?;
    paths.sort();
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path)
            .map_err(|error| Failure::new(format!("cannot read {}: {error}", path.display())))?;
        Ok((path.strip_prefix(&root).unwrap_or(&path).to_string_lossy().into_owned(), text))
    };
    paths.into_iter().map(read).collect()
}

fn collect_files(folder: &Path, ending: &str, paths: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if entry.file_type()?.is_dir() {
            if name != "target" && !name.starts_with('.') {
                collect_files(&path, ending, paths)?;
            }
        } else if name.ends_with(ending) {
            paths.push(path);
        }
    }
    Ok(())
}
