use super::*;

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
                  core/src/a.rs: d_002_and_ha_001_two\ncovered 2 of 4\n";
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
        list().check(&files),
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
    assert_eq!(refused("HA-1 done X"), "docs/requirements.txt:1: after HA-1 stands `tested` or `open`");
    assert_eq!(refused("HA-1 open "), "docs/requirements.txt:1: HA-1 has no title");
    assert_eq!(refused("\nHA-1 open X\nHA-1 open Y"), "docs/requirements.txt:3: HA-1 stands here twice");
}
