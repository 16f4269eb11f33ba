use std::io::Write as _;

use super::*;

#[test]
fn json_is_checked_and_made_compact() {
    let value = read("flow start", "--input", r#" { "amount" : 42 } "#).expect("it is JSON");
    assert_eq!(value, Value { encoding: "json".to_owned(), data: br#"{"amount":42}"#.to_vec() });
}

#[test]
fn an_at_sign_reads_a_file() {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(b"[1, 2]\n").expect("it can be written");
    let argument = format!("@{}", file.path().display());
    let value = read("flow start", "--input", &argument).expect("the file holds JSON");
    assert_eq!(value.data, b"[1,2]");
}

#[test]
fn bad_input_names_the_flag_the_value_and_the_way_out() {
    let failure = read("flow start", "--input", "hello").expect_err("it is not JSON");
    assert_eq!(failure.exit_code(), 2);
    insta::assert_snapshot!(failure.sentence(), @r#"
    dexcli flow start: --input: hello is not JSON: expected value at line 1 column 1
      A JSON text needs its own quotes: '"hello"'. @file reads a file, - standard input.
    "#);
    let failure = read("flow start", "--input", "@/nowhere/at/all").expect_err("no such file");
    assert!(failure.sentence().contains("--input: cannot read /nowhere/at/all: No such file"));
}

#[test]
fn attributes_keep_the_type_of_their_json() {
    let kinds = ["a=\"x\"", "a=-3", "a=2.5", "a=true", "a=[1]"]
        .map(|text| attribute("flow start", text).expect(text).value.and_then(|value| value.kind));
    assert_eq!(
        kinds,
        [
            Some(AttributeKind::StringValue("x".to_owned())),
            Some(AttributeKind::IntValue(-3)),
            Some(AttributeKind::DoubleValue(2.5)),
            Some(AttributeKind::BoolValue(true)),
            Some(AttributeKind::ObjectValue(from_json(&serde_json::json!([1])))),
        ]
    );
    for text in ["a", "=1", "a=", "a=null", "a=x"] {
        assert_eq!(attribute("flow start", text).expect_err(text).exit_code(), 2, "{text}");
    }
}
