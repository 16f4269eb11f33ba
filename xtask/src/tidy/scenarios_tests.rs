use super::*;

const PAGE: &str = "# Scenarios\n\n| number | what happens | level |\n| --- | --- | --- |\n\
                    | review 4.2 | frozen | simulator |\n| review 5 | ASYNC | core |\n| lesson A1 | lost | later |\n";

fn file(text: &str) -> SourceFile {
    SourceFile::new("sim-tests/tests/a.rs".to_owned(), text.to_owned())
}

#[test]
fn a_row_without_its_test_and_a_test_without_its_row_are_findings() {
    let page = Scenarios::parse(PAGE).expect("well formed");
    assert_eq!(page.check(&[file("fn review_4_2_frozen() {}\nfn d_044_review_5_async_2() {}\n")]), [""; 0]);
    assert_eq!(
        page.check(&[file("fn review_4_2_frozen() {}\nfn lesson_b4_twice() {}\n")]),
        [
            "docs/scenarios.md: review_5 is shown at level `core`, but no test names it",
            "docs/scenarios.md: tests are named lesson_b4, which is not there",
        ]
    );
}

#[test]
fn names_are_taken_apart_at_numbers_and_letters() {
    assert_eq!(identifiers_in_name("review_2_13_and_lesson_a10_x"), ["review_2_13", "lesson_a10"]);
    assert_eq!(identifiers_in_name("review_of_lesson_plans_preview_4_2"), [""; 0]);
}

#[test]
fn a_malformed_row_is_refused_with_its_line() {
    let refused = |text: &str| Scenarios::parse(text).expect_err("malformed");
    assert_eq!(
        refused("| review 1.1 | x |"),
        "docs/scenarios.md:1: a row has a number, what happens, and a level"
    );
    assert!(
        refused("| review 1.1 | x | somewhere |").starts_with("docs/scenarios.md:1: `somewhere` is no level")
    );
    let twice = "| lesson A1 | x | core |\n| lesson A1 | x | core |";
    assert_eq!(refused(twice), "docs/scenarios.md:2: lesson_a1 stands here twice");
}
