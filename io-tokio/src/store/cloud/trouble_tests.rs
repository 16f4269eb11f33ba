use super::super::config::S3Credentials;
use super::*;

fn config() -> CloudConfig {
    CloudConfig {
        provider: Provider::S3 {
            bucket: "orders".to_owned(),
            region: Some("eu-west-1".to_owned()),
            credentials: S3Credentials::Chain,
        },
        prefix: String::new(),
        endpoint: Some("http://store.local:9000".to_owned()),
        allow_http: true,
        ca_file: None,
    }
}

fn told(answer: Answer) -> (TroubleKind, String) {
    let answer = Answer { host: "store.local:9000".to_owned(), ..answer };
    let trouble = explain(&config(), "the test", Operation::Read, &Exchange::Answered(answer));
    (trouble.kind, trouble.text)
}

fn coded(status: u16, code: &str) -> Answer {
    Answer { status, code: Some(code.to_owned()), ..Answer::default() }
}

/// Bad input of issue 4: each names the thing and says what to do.
#[test]
fn every_trouble_names_the_thing_and_the_deed() {
    let page = Answer { status: 404, content_type: Some("text/html".to_owned()), ..Answer::default() };
    let table = [
        (
            coded(404, "NoSuchBucket"),
            TroubleKind::NoSuchBucket,
            "there is no bucket orders (404 NoSuchBucket): create it, or correct objectStorage.bucket",
        ),
        (
            Answer { region: Some("us-east-2".to_owned()), ..coded(301, "PermanentRedirect") },
            TroubleKind::WrongRegion,
            "the bucket orders is not in region eu-west-1 (301 PermanentRedirect): set objectStorage.region to us-east-2",
        ),
        (
            coded(400, "AuthorizationHeaderMalformed"),
            TroubleKind::WrongRegion,
            "the bucket orders is not in region eu-west-1 (400 AuthorizationHeaderMalformed): correct \
             objectStorage.region or objectStorage.endpoint",
        ),
        (
            coded(403, "AccessDenied"),
            TroubleKind::Denied,
            "access is denied (403 AccessDenied): the credentials, which come from the test, need the permissions of \
             docs/operator-guide.md on the bucket orders",
        ),
        (
            coded(403, "SignatureDoesNotMatch"),
            TroubleKind::Credentials,
            "the credentials are not accepted (403 SignatureDoesNotMatch); they come from the test",
        ),
        (
            coded(400, "ExpiredToken"),
            TroubleKind::Credentials,
            "the credentials have expired (400 ExpiredToken): renew them; they come from the test",
        ),
        (
            coded(403, "RequestTimeTooSkewed"),
            TroubleKind::Credentials,
            "the clock of this machine is wrong (403 RequestTimeTooSkewed): set it",
        ),
        (
            page,
            TroubleKind::NotAStore,
            "what answers at store.local:9000 is not an object store of kind s3 (404 with text/html): correct \
             objectStorage.endpoint or objectStorage.kind",
        ),
        (
            coded(501, "NotImplemented"),
            TroubleKind::NotSupported,
            "it does not support this request (501 NotImplemented): use another store",
        ),
        (coded(503, "SlowDown"), TroubleKind::Busy, "it answered 503 SlowDown"),
    ];
    for (answer, kind, text) in table {
        assert_eq!(told(answer), (kind, text.to_owned()));
    }
}

#[test]
fn a_service_that_gives_credentials_is_told_apart_from_the_store() {
    let answer = Answer { host: "169.254.169.254".to_owned(), status: 404, ..Answer::default() };
    let trouble = explain(&config(), "the machine's role", Operation::Read, &Exchange::Answered(answer));
    assert_eq!(trouble.kind, TroubleKind::Credentials);
    assert_eq!(trouble.text, "169.254.169.254 gave no credentials (404); they come from the machine's role");
    let silent = |host: &str| Exchange::Silent { host: host.to_owned(), text: "refused".to_owned() };
    let of = |host: &str| explain(&config(), "the test", Operation::Read, &silent(host));
    assert_eq!(of("169.254.169.254").kind, TroubleKind::Credentials);
    assert_eq!(of("store.local:9000").kind, TroubleKind::Unreachable);
    assert_eq!(
        of("store.local:9000").text,
        "store.local:9000 does not answer (refused): check objectStorage.endpoint and the network"
    );
    let own = CloudConfig { endpoint: None, ..config() };
    for (host, expected) in [
        ("s3.eu-west-1.amazonaws.com", false),
        ("sts.eu-west-1.amazonaws.com", true),
        ("acc.blob.core.windows.net", false),
        ("login.microsoftonline.com", true),
        ("storage.googleapis.com", false),
        ("oauth2.googleapis.com", true),
    ] {
        assert_eq!(is_for_credentials(&own, host), expected, "{host}");
    }
}
