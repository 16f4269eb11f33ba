use std::collections::BTreeSet;
use std::path::Path;

use dexzd_core::stop::StopReason;

use super::*;

/// Codes that only log lines name.
const WARNINGS: [&str; 2] = ["lock_not_supported", "damaged_record"];

/// House style 15: what an operator can see has a page, and no page is about nothing.
#[test]
fn d_032_every_code_has_a_page_and_every_page_a_code() {
    let folder =
        Path::new(&std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../docs/errors");
    let pages: BTreeSet<String> = std::fs::read_dir(&folder)
        .expect("the folder of the pages")
        .map(|entry| entry.expect("readable").file_name().into_string().expect("plain names"))
        .filter(|name| name != "README.md")
        .collect();
    let codes: BTreeSet<String> = StopReason::ALL
        .iter()
        .map(|reason| reason.label())
        .chain(CODES)
        .chain(WARNINGS)
        .map(|code| format!("{code}.md"))
        .collect();
    assert_eq!(pages, codes);
    let index = std::fs::read_to_string(folder.join("README.md")).expect("the index");
    for name in &pages {
        assert!(index.contains(&format!("({name})")), "the index lacks {name}");
        let text = std::fs::read_to_string(folder.join(name)).expect("readable");
        for heading in ["## What happened", "## Is data safe?", "## What to do"] {
            assert!(text.contains(heading), "{name} lacks {heading}");
        }
    }
}

#[test]
fn a_refusal_names_code_message_and_page() {
    let refusal = Refusal::usage("say what to run");
    assert_eq!(refusal.to_string(), "usage: say what to run; see docs/errors/usage.md");
    assert_eq!(refusal.exit, 2);
    assert_eq!(StopReason::Shutdown.exit_code(), 0);
}
