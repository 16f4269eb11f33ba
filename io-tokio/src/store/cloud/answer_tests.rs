use http::HeaderValue;

use super::*;

fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    pairs
        .iter()
        .map(|(name, value)| (name.parse().expect("a name"), HeaderValue::from_static(value)))
        .collect()
}

#[test]
fn the_code_and_the_words_of_all_three_providers_are_found() {
    let s3 = br#"<?xml version="1.0"?><Error><Code>NoSuchBucket</Code><Message>It is not there.</Message></Error>"#;
    let answer =
        Answer::new("h".into(), StatusCode::NOT_FOUND, &headers(&[("content-type", "application/xml")]), s3);
    assert_eq!(
        answer,
        Answer {
            host: "h".to_owned(),
            status: 404,
            code: Some("NoSuchBucket".to_owned()),
            message: Some("It is not there.".to_owned()),
            content_type: Some("application/xml".to_owned()),
            ..Answer::default()
        }
    );
    let azure = "\u{feff}<?xml version=\"1.0\"?><Error><Code>BlobNotFound</Code><Message>No blob.\nRequestId:1\n\
                 Time:2</Message></Error>";
    let answer = Answer::new("h".into(), StatusCode::NOT_FOUND, &headers(&[]), azure.as_bytes());
    assert_eq!((answer.code.as_deref(), answer.message.as_deref()), (Some("BlobNotFound"), Some("No blob.")));
    let head = headers(&[("x-ms-error-code", "ContainerNotFound")]);
    let answer = Answer::new("h".into(), StatusCode::NOT_FOUND, &head, b"");
    assert_eq!((answer.code.as_deref(), answer.is_empty), (Some("ContainerNotFound"), true));
}

#[test]
fn what_is_no_error_document_has_no_code() {
    for body in [&b""[..], b"<html>Not found</html>", b"<Code></Code>", b"\xff\xfe", b"<Code>"] {
        let answer = Answer::new("h".into(), StatusCode::NOT_FOUND, &headers(&[]), body);
        assert_eq!((answer.code, answer.message), (None, None), "{body:?}");
    }
}

#[test]
fn retry_after_counts_in_seconds_and_has_a_bound() {
    for (text, expected) in [
        ("3", Some(3_000)),
        (" 0 ", Some(0)),
        ("99999999", Some(3_600_000)),
        ("Wed, 21 Oct 2015 07:28:00 GMT", None),
        ("-1", None),
    ] {
        assert_eq!(retry_after_ms(text), expected, "{text}");
    }
    let answer =
        Answer::new("h".into(), StatusCode::SERVICE_UNAVAILABLE, &headers(&[("retry-after", "2")]), b"");
    assert_eq!(answer.retry_after_ms, Some(2_000));
}
