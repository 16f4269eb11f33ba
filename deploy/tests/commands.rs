//! What the documentation tells to type is what the programs take, and the configurations in it are ones that start.

use clap::CommandFactory as _;
use clap::error::ErrorKind;
use dexzd_deploy::pages;
use dexzd_server::cli::CommandLine;
use dexzd_server::config::{Config, Overrides, Profile};
use serde_json::Value;

/// One call of a program of ours within what is typed: from its name to what the shell takes for itself.
fn calls(typed: &str) -> Vec<Vec<String>> {
    let words = shlex::split(typed).unwrap_or_else(|| panic!("no shell reads this: {typed}"));
    let mut calls = Vec::new();
    for (begin, word) in words.iter().enumerate() {
        if program(word).is_none() || !is_begun_after(&words[..begin]) {
            continue;
        }
        let call = &words[begin..];
        let end = call.iter().position(|word| is_for_the_shell(word)).unwrap_or(call.len());
        calls.push(call[..end].to_vec());
    }
    calls
}

/// Whether a program's name is expected behind these words, rather than an argument.
fn is_begun_after(words: &[String]) -> bool {
    let before = words.iter().rev().find(|word| !word.contains('='));
    before.is_none_or(|word| {
        matches!(word.as_str(), "|" | "&" | "&&" | "||" | "--" | "do" | "then") || word.ends_with(';')
    })
}

fn is_for_the_shell(word: &str) -> bool {
    matches!(word, "|" | "&" | "&&" | "||" | ";" | "#") || word.contains(['>', '<'])
}

/// `dexcli`, `target/release/dexcli`; not the name of a pod, an image or a folder.
fn program(word: &str) -> Option<clap::Command> {
    let (folder, name) = word.rsplit_once('/').unwrap_or(("", word));
    let is_built = folder.is_empty() || folder.ends_with("debug") || folder.ends_with("release");
    match name {
        "dexcli" if is_built => Some(dexzd_cli::command()),
        "dex-server-zd" if is_built => Some(CommandLine::command()),
        _ => None,
    }
}

/// None where the program takes it, or shows its help.
fn complaint(call: &[String]) -> Option<(ErrorKind, String)> {
    let error = program(&call[0])?.try_get_matches_from(call).err()?;
    let is_shown = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    (!is_shown).then(|| (error.kind(), error.to_string()))
}

/// HA-130, HA-133: the commands that an operator types in a hurry, and all others.
#[test]
fn ha_134_every_command_of_the_documentation_parses() {
    let mut seen = 0;
    for page in pages::all() {
        for typed in page.commands() {
            for call in calls(&typed) {
                seen += 1;
                if let Some((_, text)) = complaint(&call) {
                    panic!("{}: `{}`\n{text}", page.path, call.join(" "));
                }
            }
        }
    }
    assert!(seen >= 15, "{seen}");
}

/// What stands in a sentence may stop in the middle, and is otherwise what can be typed.
#[test]
fn every_command_in_a_sentence_is_the_beginning_of_one() {
    let mut seen = 0;
    for page in pages::all() {
        let mentions = page.mentions();
        let commands =
            mentions.iter().filter(|text| text.starts_with("dexcli ") || text.starts_with("dex-server-zd "));
        for text in commands {
            // The last words of a process, and names of several commands at once.
            if text.contains("stopped:") || text.contains("refused to start:") {
                continue;
            }
            let call: Vec<String> = text
                .split_whitespace()
                .take_while(|word| !matches!(*word, "…" | "|"))
                .map(str::to_owned)
                .collect();
            seen += 1;
            let Some((kind, complaint)) = complaint(&call) else { continue };
            let is_unfinished = matches!(
                kind,
                ErrorKind::MissingRequiredArgument
                    | ErrorKind::MissingSubcommand
                    | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
            );
            assert!(is_unfinished, "{}: `{text}`\n{complaint}", page.path);
        }
    }
    assert!(seen > 10, "{seen}");
}

#[test]
fn a_command_that_nobody_could_type_is_found() {
    let found = |typed: &str| calls(typed).iter().filter_map(|call| complaint(call)).count();
    assert_eq!(
        found("kubectl -n NS exec dex-server-zd-0 -- dexcli --server dex-server-zd:8801 admin describe"),
        0
    );
    assert_eq!(found("sleep 1; target/debug/dexcli admin step-up --yes | jq ."), 1);
    assert_eq!(found("dex-server-zd serve --config a.yaml --durability strict 2>log"), 1);
    assert_eq!(found("dexcli health & dexcli healthy &"), 1);
}

/// Sections alone are put into a whole configuration; values of the chart are not the server's.
#[test]
fn ha_050_every_configuration_of_the_documentation_starts() {
    let mut seen = 0;
    for page in pages::all() {
        for block in page.blocks("yaml") {
            let document: Value = serde_saphyr::from_str(&block)
                .unwrap_or_else(|error| panic!("{}: {error}\n{block}", page.path));
            if document.get("image").is_some() || document.get("apiVersion").is_some() {
                continue;
            }
            let on_a_store = document.get("objectStorage").is_some();
            let profile = if on_a_store { Profile::Node } else { Profile::Local };
            if let Err(error) = Config::parse(profile, &block, Overrides::default()) {
                panic!("{}: {error}\n{block}", page.path);
            }
            seen += 1;
        }
    }
    assert!(seen >= 5, "{seen}");
}
