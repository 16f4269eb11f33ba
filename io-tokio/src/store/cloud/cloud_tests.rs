use super::*;

fn config(provider: Provider) -> CloudConfig {
    CloudConfig { provider, prefix: "a/b".to_owned(), endpoint: None, allow_http: false, ca_file: None }
}

fn s3() -> Provider {
    Provider::S3 { bucket: "orders".to_owned(), region: None, credentials: S3Credentials::Chain }
}

fn open(config: CloudConfig) -> CloudStore {
    let environment = Environment::of(&[
        ("AWS_ACCESS_KEY_ID", "AKIA1"),
        ("AWS_SECRET_ACCESS_KEY", "topsecret"),
        ("AWS_SESSION_TOKEN", "tokensecret"),
    ]);
    CloudStore::open_in(config, environment).expect("opened")
}

#[test]
fn keys_lie_below_the_prefix_and_a_prefix_may_end_within_a_part() {
    let store = open(config(s3()));
    assert_eq!(store.full("n/log/00"), "a/b/n/log/00");
    assert_eq!(store.full("x//y"), "a/b/x/%/y");
    assert_eq!(store.full_prefix(""), "a/b/");
    assert_eq!(store.full_prefix("n/log/"), "a/b/n/log/");
    assert_eq!(store.full_prefix("n/lo"), "a/b/n/lo");
    let bare = open(CloudConfig { prefix: String::new(), ..config(s3()) });
    assert_eq!(
        (bare.full("n"), bare.full_prefix(""), bare.full_prefix("n/")),
        ("n".into(), "".into(), "n/".into())
    );
}

#[test]
fn a_version_that_is_no_text_was_never_this_stores() {
    let store = open(config(s3()));
    assert_eq!(store.replace("a", b"x", &Version(Blob::from(vec![0xff]))), WriteOutcome::Refused);
}

#[test]
fn nothing_that_is_printed_of_a_store_holds_a_secret() {
    let store = open(config(s3()));
    let printed = format!("{store:?} {} {}", store.name(), store.credentials_from());
    assert!(!printed.contains("secret"), "{printed}");
    assert_eq!(store.name(), "s3 bucket orders/a/b");
}

#[test]
fn a_file_that_gives_no_credentials_is_refused_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("key");
    std::fs::write(&file, "").expect("written");
    let provider = Provider::Azure {
        account: Some("acc".to_owned()),
        container: "c".to_owned(),
        credentials: AzureCredentials::AccountKeyFile(file.clone()),
    };
    let error = CloudStore::open(config(provider)).expect_err("refused").to_string();
    assert_eq!(
        error,
        format!(
            "the object store azure container c/a/b of account acc cannot be used: the credential file {} is empty",
            file.display()
        )
    );
}

#[test]
fn a_file_of_certificates_without_one_is_refused_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("ca.pem");
    std::fs::write(&file, "no certificate").expect("written");
    let error = CloudStore::open(CloudConfig { ca_file: Some(file.clone()), ..config(s3()) })
        .expect_err("refused")
        .to_string();
    assert!(error.contains(&format!("objectStorage.caFile: {}: ", file.display())), "{error}");
}
