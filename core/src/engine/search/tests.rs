use std::format;
use std::string::{String, ToString};
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::engine::FlowStatus;
use crate::ids::RunId;
use crate::time::Timestamp;

fn names(texts: &[&str]) -> Vec<Name> {
    texts.iter().map(|text| Name::new(text)).collect()
}

fn parsed(query: &str) -> SearchFilter {
    parse_query(query).unwrap_or_else(|error| panic!("{query}: {error}"))
}

fn fault(query: &str) -> String {
    parse_query(query).expect_err("this query is wrong").to_string()
}

#[test]
fn concepts_1_16_the_empty_query_matches_everything() {
    assert_eq!(parsed(""), SearchFilter::default());
    assert_eq!(parsed("  \t"), SearchFilter::default());
}

#[test]
fn concepts_1_16_all_fields_of_a_query() {
    let query = r#"flowType = "Order" AND status IN (running, 'FAILED') and flowId LIKE "eu-%"
        AND flowId in (eu-1, "eu 2") AND activeStepType = Pay AND startTime >= 1000 AND startTime < 2000"#;
    assert_eq!(
        parsed(query),
        SearchFilter {
            flow_types: names(&["Order"]),
            statuses: vec![FlowStatus::Running, FlowStatus::Failed],
            flow_ids: names(&["eu-1", "eu 2"]),
            flow_id_prefix: Some(Name::new("eu-")),
            started_from: Some(Timestamp::from_millis(1_000)),
            started_before: Some(Timestamp::from_millis(2_000)),
            active_step_types: names(&["Pay"]),
        }
    );
    assert_eq!(parsed("flowId startsWith \"eu-\"").flow_id_prefix, Some(Name::new("eu-")));
}

#[test]
fn concepts_1_16_quotes_and_escapes() {
    let flow_id = |query: &str| parsed(query).flow_ids;
    assert_eq!(flow_id(r#"flowId = "a \"b\" \\ 'c'""#), names(&[r#"a "b" \ 'c'"#]));
    assert_eq!(flow_id("flowId='a \"b\"'"), names(&["a \"b\""]));
    assert_eq!(flow_id("flowId = 'ü/AND (x)'"), names(&["ü/AND (x)"]));
}

#[test]
fn concepts_1_16_times_are_compared_in_whole_milliseconds() {
    let bounds = |query: &str| {
        let filter = parsed(query);
        (filter.started_from.map(Timestamp::as_micros), filter.started_before.map(Timestamp::as_micros))
    };
    assert_eq!(bounds("startTime >= 5"), (Some(5_000), None));
    assert_eq!(bounds("startTime > 5"), (Some(6_000), None));
    assert_eq!(bounds("startTime < 5"), (None, Some(5_000)));
    assert_eq!(bounds("startTime <= 5"), (None, Some(6_000)));
    assert_eq!(
        bounds("startTime >= 5 AND startTime > 9 AND startTime < 30 AND startTime <= 20"),
        (Some(10_000), Some(21_000))
    );
}

#[test]
fn concepts_1_16_times_as_people_write_them() {
    let table = [
        ("0", Some(0)),
        ("1769860800000", Some(1_769_860_800_000)),
        ("1970-01-01", Some(0)),
        ("2026-01-31", Some(1_769_817_600_000)),
        ("2026-01-31T12:00:00Z", Some(1_769_860_800_000)),
        ("2026-01-31t12:00:00z", Some(1_769_860_800_000)),
        ("2026-01-31 12:00:00Z", Some(1_769_860_800_000)),
        ("2026-01-31T12:00:00.25Z", Some(1_769_860_800_250)),
        ("2026-01-31T13:30:00+01:30", Some(1_769_860_800_000)),
        ("2026-01-31T07:00:00-05:00", Some(1_769_860_800_000)),
        ("2024-02-29", Some(1_709_164_800_000)),
        ("2000-03-01", Some(951_868_800_000)),
        ("2026-02-29", None),
        ("2100-02-29", None),
        ("2026-13-01", None),
        ("2026-04-31", None),
        ("2026-01-31T24:00:00Z", None),
        ("2026-01-31T12:00:00", None),
        ("2026-01-31T12:00:00.Z", None),
        ("2026-01-31X", None),
        ("1969-12-31", None),
        ("1970-01-01T00:00:00+00:01", None),
        ("99999999999999999999999", None),
        ("yesterday", None),
    ];
    for (text, expected) in table {
        assert_eq!(super::time::parse_time(text).map(Timestamp::as_millis), expected, "{text}");
    }
}

#[test]
fn concepts_1_16_a_wrong_query_says_where_and_what_to_write_instead() {
    let table = [
        ("flow_type = 'x'", "column 1: flow_type is not a field: write flowType"),
        (
            "owner = 'x'",
            "column 1: owner is not a field: use flowType, status, flowId, startTime or activeStepType",
        ),
        (
            "'Order' = flowType",
            "column 1: found \"Order\", expected flowType, status, flowId, startTime or activeStepType",
        ),
        (
            "status = cancelled",
            "column 10: \"cancelled\" is not a status: use running, completed, failed, canceled or terminated",
        ),
        ("flowType", "column 9: found the end, expected = or IN (…)"),
        ("flowType =", "column 11: found the end, expected a text, as in \"Order\""),
        ("flowType = ''", "column 12: this text is empty: it would match nothing"),
        ("flowType != 'a'", "column 10: exclusion is not supported: name what is wanted with = or IN (…)"),
        ("flowType >= 'a'", "column 10: flowType cannot be compared by >=: use = or IN (…)"),
        (
            "flowType LIKE 'a%'",
            "column 10: LIKE is not supported for flowType: name what is wanted with = or IN (…)",
        ),
        ("flowId IN 'a'", "column 11: found \"a\", expected ( and the values, as in IN (\"a\", \"b\")"),
        ("flowId IN ('a' 'b')", "column 16: found \"b\", expected , and another value, or )"),
        ("flowId IN ('a',", "column 16: found the end, expected a text, as in \"Order\""),
        ("flowId = 'a", "column 10: this text does not end: close it with '"),
        (
            "flowId LIKE '%a'",
            "column 13: a pattern has one % and ends with it, as in flowId LIKE \"order-%\"",
        ),
        (
            "flowId LIKE 'a%' AND flowId LIKE 'b%'",
            "column 29: flowId has two beginnings: keep the longer one",
        ),
        (
            "status = running AND status = failed",
            "column 22: status is given twice: use status IN (…) for several values",
        ),
        (
            "status = running OR status = failed",
            "column 18: OR is not supported: use IN (…) for several values of one field, or search twice",
        ),
        ("status = running failed", "column 18: found failed, expected AND or the end of the query"),
        (
            "status = running AND",
            "column 21: found the end, expected flowType, status, flowId, startTime or activeStepType",
        ),
        (
            "startTime = 5",
            "column 11: startTime cannot be compared by =: use >= and <, as in startTime >= \"2026-01-31\" AND \
             startTime < \"2026-02-01\"",
        ),
        (
            "startTime >= soon",
            "column 14: \"soon\" is not a time: write 2026-01-31T12:00:00Z, a day such as 2026-01-31, or \
             milliseconds since 1970",
        ),
        (
            "flowId = 'ü' ;",
            "column 14: ';' cannot stand here: put texts in quotes, as in flowId = \"order ;\"",
        ),
    ];
    for (query, expected) in table {
        assert_eq!(fault(query), expected, "{query}");
    }
}

#[test]
fn bad_input_a_wrong_query_names_its_field() {
    let error = parse_query("status = what").expect_err("this query is wrong");
    assert_eq!(
        CallError::from(error),
        CallError::InvalidArgument {
            field: Name::new("query"),
            rule: Name::new(
                "column 10: \"what\" is not a status: use running, completed, failed, canceled or terminated"
            ),
        }
    );
}

fn run() -> Summary {
    Summary {
        flow_id: Name::new("eu-7"),
        run_id: RunId(1),
        first_run_id: RunId(1),
        request_id: Name::new("r"),
        flow_type: Name::new("Order"),
        status: FlowStatus::Running,
        start_time: Timestamp::from_micros(5_500),
        close_time: None,
        error: None,
        closing: false,
        active_step_types: names(&["Pay", "Remind"]),
        event_count: 1,
    }
}

#[test]
fn concepts_1_16_a_run_matches_when_every_given_part_does() {
    let table = [
        ("", true),
        ("flowType = Order", true),
        ("flowType IN (Refund, Order)", true),
        ("flowType = Refund", false),
        ("status = running", true),
        ("status IN (failed, completed)", false),
        ("flowId = eu-7", true),
        ("flowId = eu-70", false),
        ("flowId startsWith eu-", true),
        ("flowId LIKE 'us-%'", false),
        ("activeStepType = Remind", true),
        ("activeStepType IN (Ship, Pay)", true),
        ("activeStepType = Ship", false),
        ("startTime >= 5", true),
        ("startTime > 5", false),
        ("startTime >= 6", false),
        ("startTime <= 5", true),
        ("startTime < 5", false),
        ("startTime < 6", true),
        ("flowType = Order AND status = running AND flowId LIKE 'eu%' AND startTime < 6", true),
        ("flowType = Order AND status = failed", false),
    ];
    for (query, expected) in table {
        assert_eq!(matches(&parsed(query), &run()), expected, "{query}");
    }
}

proptest! {
    #[test]
    fn concepts_1_16_no_text_breaks_the_parser(query in "\\PC{0,40}") {
        if let Err(error) = parse_query(&query) {
            prop_assert!(error.column >= 1 && error.column <= query.chars().count() + 1);
        }
    }

    #[test]
    fn concepts_1_16_no_words_of_the_language_break_the_parser(
        words in proptest::collection::vec(
            proptest::sample::select(vec![
                "flowType", "status", "flowId", "startTime", "activeStepType", "=", ">=", "<", "IN", "(", ")", ",",
                "AND", "LIKE", "startsWith", "running", "'a%'", "\"b\"", "5", "2026-01-31",
            ]),
            0..12,
        ),
    ) {
        let query = words.join(" ");
        if let Err(error) = parse_query(&query) {
            prop_assert!(error.column <= query.chars().count() + 1);
        }
    }

    #[test]
    fn concepts_1_16_every_flow_id_can_be_asked_for(flow_id in "\\PC{1,20}") {
        let escaped = flow_id.replace('\\', "\\\\").replace('"', "\\\"");
        let filter = parsed(&format!("flowId = \"{escaped}\""));
        prop_assert_eq!(filter.flow_ids, [Name::from(flow_id)]);
    }
}
