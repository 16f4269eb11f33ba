use super::*;
use crate::tidy::pages::Page;

const LIST: &str = "# a comment\n\nHA-1 tested One holder\nHA-23 open Attempts are cut off\nFD-11 open Late results\nD-2 tested Expiry\n";

fn list() -> Requirements {
    Requirements::parse(LIST).expect("the list is well formed")
}

fn file(text: &str) -> SourceFile {
    SourceFile::new("core/src/a.rs".to_owned(), text.to_owned())
}

#[test]
fn the_report_names_every_requirement_its_tests_and_the_count() {
    let files = [file("fn ha_001_one() {}\nfn d_002_and_ha_001_two() {}\n// fn ha_023_no() {}\n")];
    let report = "HA-1  One holder\n    core/src/a.rs: ha_001_one\n    core/src/a.rs: d_002_and_ha_001_two\n\
                  HA-23  Attempts are cut off\nFD-11  Late results\nD-2  Expiry\n    \
                  core/src/a.rs: d_002_and_ha_001_two\ncovered 2 of 4 by tests, 0 by documents only, 2 open\n";
    assert_eq!(list().report(&files), report);
}

#[test]
fn only_a_family_and_three_digits_name_a_requirement() {
    let names = |name: &str| numbers_in_name(name).iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(names("ha_023_x"), ["HA-23"]);
    assert_eq!(names("x_fd_011_d_042"), ["FD-11", "D-42"]);
    assert_eq!(names("id_042_sha_256_d_42_ha_1000"), Vec::<String>::new());
}

#[test]
fn a_lost_test_and_an_unknown_number_are_findings() {
    let files = [file("// HA-1, HA-24 and SHA-256\nfn ha_001_one() {}\nfn fd_012_x() {}\n")];
    assert_eq!(
        list().check(&files, &Pages::default()),
        [
            "core/src/a.rs: fd_012_x: there is no FD-12; docs/requirements.txt lists them",
            "core/src/a.rs:1: there is no HA-24; docs/requirements.txt lists them",
            "docs/requirements.txt: D-2 (Expiry) is listed as tested, but no test names it any more",
        ]
    );
}

#[test]
fn a_malformed_list_is_refused_with_its_line() {
    let refused = |text: &str| Requirements::parse(text).expect_err("malformed");
    assert_eq!(
        refused("HA1 open X"),
        "docs/requirements.txt:1: a line starts with HA-, FD- or D- and a number"
    );
    assert_eq!(
        refused("HA-1 done X"),
        "docs/requirements.txt:1: after HA-1 stands `tested`, `open` or `document docs/page.md#paragraph`"
    );
    assert_eq!(
        refused("HA-1 document X"),
        "docs/requirements.txt:1: after HA-1 document stands `docs/page.md#paragraph`"
    );
    assert_eq!(refused("HA-1 document docs/a.md#b"), "docs/requirements.txt:1: HA-1 has no title");
    assert_eq!(refused("HA-1 open "), "docs/requirements.txt:1: HA-1 has no title");
    assert_eq!(refused("\nHA-1 open X\nHA-1 open Y"), "docs/requirements.txt:3: HA-1 stands here twice");
}

const WITH_DOCUMENT: &str = "HA-1 tested One holder\nHA-54 document docs/guide.md#sizes Sizes\n";

fn with_document() -> Requirements {
    Requirements::parse(WITH_DOCUMENT).expect("the list is well formed")
}

#[test]
fn a_document_is_counted_apart_from_tests() {
    let files = [file("fn ha_001_one() {}\n")];
    assert_eq!(
        with_document().report(&files),
        "HA-1  One holder\n    core/src/a.rs: ha_001_one\nHA-54  Sizes\n    \
         for an operator to check: docs/guide.md#sizes\ncovered 1 of 2 by tests, 1 by documents only, 0 open\n"
    );
    // A test is better than a document.
    let files = [file("fn ha_001_one() {}\nfn ha_054_sizes() {}\n")];
    assert!(
        with_document().report(&files).ends_with("covered 2 of 2 by tests, 0 by documents only, 0 open\n")
    );
}

#[test]
fn the_paragraph_of_a_document_names_the_number() {
    let files = [file("fn ha_001_one() {}\n")];
    let check = |text: &str| {
        let page = Page { path: "docs/guide.md".to_owned(), text: text.to_owned() };
        with_document().check(&files, &Pages(vec![page]))
    };
    assert_eq!(check("# G\n## Sizes\nAs large as the active's (HA-54).\n## Other\n"), Vec::<String>::new());
    // A deeper heading is part of it.
    assert_eq!(check("# G\n## Sizes\n### More\nHA-54\n"), Vec::<String>::new());
    assert_eq!(
        check("# G\n## Sizes\nLarge.\n## Other\nHA-54\n"),
        ["docs/requirements.txt: HA-54 (Sizes) is listed with docs/guide.md#sizes, which does not name it"]
    );
    assert_eq!(
        check("# G\n## Size\nHA-54\n"),
        [
            "docs/requirements.txt: HA-54 (Sizes) is listed with docs/guide.md#sizes, but there is no such paragraph"
        ]
    );
}
