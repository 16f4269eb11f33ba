//! Stores that a production node refuses, each by name and with what to do.

use dexzd_rig::bucket::Latency;
use dexzd_rig::proxy::{Fate, Rule};
use dexzd_rig::{Bucket, Proxy};

use crate::cloud::s3;
use crate::harness::{Home, Start};

/// What a start says on this bucket behind this rule.
fn refused(bucket: &str, rule: Option<Rule>, code: &str, says: &str) {
    let home = Home::new();
    let store = Bucket::open("orders", Latency::NONE).expect("a free port");
    let proxy = Proxy::open(store.address()).expect("a free port");
    if let Some(rule) = rule {
        proxy.add(rule);
    }
    let ended = Start::serve_on(&home.data(), &s3(&home, proxy.address(), bucket)).refused();
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let line = ended.last_line();
    assert!(line.starts_with(&format!("dex-server-zd refused to start: {code}: ")), "{line}");
    assert!(line.contains(says), "{says:?} is not in {line}");
    assert!(line.ends_with(&format!("; see docs/errors/{code}.md")), "{line}");
    assert!(!line.contains("testing"), "a credential: {line}");
    assert_eq!(store.size().0, 0, "something was left in the store");
}

#[test]
fn d_031_a_bucket_that_does_not_exist() {
    refused("nowhere", None, "store_unavailable", "there is no bucket nowhere");
}

#[test]
fn d_031_no_permission() {
    let denied = Rule::always(Fate::s3_error(403, "AccessDenied"));
    refused("orders", Some(denied), "store_unavailable", "access is denied (403 AccessDenied: made up)");
}

#[test]
fn d_031_credentials_that_have_expired() {
    let expired = Rule::always(Fate::s3_error(400, "ExpiredToken"));
    refused(
        "orders",
        Some(expired),
        "store_unavailable",
        "the credentials have expired (400 ExpiredToken: made up)",
    );
}

#[test]
fn d_031_a_wrong_region_is_told_with_the_right_one() {
    let moved = Fate::Answered {
        status: 301,
        headers: vec![
            ("content-type", "application/xml".to_owned()),
            ("x-amz-bucket-region", "eu-central-1".to_owned()),
        ],
        body: "<?xml version=\"1.0\"?><Error><Code>PermanentRedirect</Code></Error>".to_owned(),
    };
    refused(
        "orders",
        Some(Rule::always(moved)),
        "store_unavailable",
        "set objectStorage.region to eu-central-1",
    );
}

#[test]
fn d_031_an_endpoint_that_is_no_store() {
    let page = Fate::Answered {
        status: 404,
        headers: vec![("content-type", "text/html".to_owned())],
        body: "<html>not here</html>".to_owned(),
    };
    refused("orders", Some(Rule::always(page)), "store_unavailable", "is not an object store of kind s3");
}

/// Lesson C4: found out before any role.
#[test]
fn d_031_lesson_c4_a_store_that_ignores_conditions() {
    let deaf = Rule::always(Fate::Stripped(&["if-match", "if-none-match"]));
    refused("orders", Some(deaf), "store_unfit", "it cannot keep two servers apart and is not used");
}
