use super::super::answer::Answer;
use super::Class::{Missing, Permanent, Refused, Transient};
use super::*;

const OPERATIONS: [Operation; 4] = [Operation::Read, Operation::Write, Operation::Delete, Operation::List];

fn answer(status: u16, code: Option<&str>) -> Answer {
    Answer { status, code: code.map(str::to_owned), is_empty: code.is_none(), ..Answer::default() }
}

fn classes(status: u16, code: Option<&str>) -> [Class; 4] {
    OPERATIONS.map(|operation| class_of(operation, &answer(status, code)))
}

/// D-9 as a table: read, write, delete, list.
#[test]
fn d_009_every_status_has_one_class_per_operation() {
    let table = [
        (301, [Permanent; 4]),
        (304, [Transient, Refused, Transient, Transient]),
        (307, [Transient; 4]),
        (308, [Permanent; 4]),
        (400, [Permanent; 4]),
        (401, [Permanent; 4]),
        (403, [Permanent; 4]),
        (404, [Missing, Refused, Missing, Transient]),
        (405, [Permanent; 4]),
        (408, [Transient; 4]),
        (409, [Transient, Refused, Transient, Transient]),
        (412, [Transient, Refused, Transient, Transient]),
        (413, [Permanent; 4]),
        (418, [Transient; 4]),
        (429, [Transient; 4]),
        (500, [Transient; 4]),
        (501, [Permanent; 4]),
        (502, [Transient; 4]),
        (503, [Transient; 4]),
        (504, [Transient; 4]),
        (599, [Transient; 4]),
    ];
    for (status, expected) in table {
        assert_eq!(classes(status, None), expected, "{status}");
    }
}

#[test]
fn d_009_review_12_7_what_heals_with_time_or_fresh_credentials_is_transient_whatever_its_status() {
    for (status, code) in [
        (400, "RequestTimeout"),
        (400, "ExpiredToken"),
        (400, "TokenRefreshRequired"),
        (400, "IncompleteBody"),
        (403, "RequestTimeTooSkewed"),
        (403, "ExpiredTokenException"),
        (403, "RequestExpired"),
        (503, "SlowDown"),
        (503, "ServerBusy"),
    ] {
        assert_eq!(classes(status, Some(code)), [Transient; 4], "{status} {code}");
    }
    let expired = Answer {
        message: Some("Lifetime validation failed. The token is expired.".to_owned()),
        ..answer(401, Some("InvalidAuthenticationInfo"))
    };
    assert!(is_expired(&expired));
    assert_eq!(class_of(Operation::Write, &expired), Transient);
    assert!(!is_expired(&answer(403, Some("RequestTimeTooSkewed"))));
}

#[test]
fn d_009_a_place_that_is_not_there_is_permanent_and_no_refused_condition() {
    for code in ["NoSuchBucket", "ContainerNotFound"] {
        assert_eq!(classes(404, Some(code)), [Permanent; 4], "{code}");
    }
    assert_eq!(classes(403, Some("AllAccessDisabled")), [Permanent; 4]);
    assert_eq!(classes(404, Some("NoSuchKey")), [Missing, Refused, Missing, Transient]);
    assert_eq!(classes(404, Some("BlobNotFound")), [Missing, Refused, Missing, Transient]);
}

/// A page of an ingress that lost its backend must not look like a lease that is gone.
#[test]
fn a_404_with_a_page_in_it_says_nothing_about_the_object() {
    let page = Answer { status: 404, is_empty: false, ..Answer::default() };
    assert_eq!(class_of(Operation::Read, &page), Transient);
    assert_eq!(class_of(Operation::Write, &page), Refused);
}
