use std::path::PathBuf;

use dexzd_io_tokio::store::{AzureCredentials, CloudConfig, GcsCredentials, Provider, S3Credentials};

use super::*;

fn parse(yaml: &str) -> Result<ObjectStorage, String> {
    let yaml = format!("nodeId: n\nobjectStorage: {{{yaml}}}");
    match Config::parse(Profile::Node, &yaml, Overrides::default()) {
        Ok(Config { storage: Storage::Shared(shared), .. }) => Ok(shared),
        Ok(config) => panic!("a node on {:?}", config.storage),
        Err(error) => Err(error.to_string()),
    }
}

fn cloud(yaml: &str) -> CloudConfig {
    match parse(yaml) {
        Ok(ObjectStorage::Cloud(config)) => config,
        other => panic!("{yaml}: {other:?}"),
    }
}

fn s3(bucket: &str, region: Option<&str>, credentials: S3Credentials) -> Provider {
    Provider::S3 { bucket: bucket.to_owned(), region: region.map(str::to_owned), credentials }
}

#[test]
fn a_store_of_each_kind_with_no_more_than_it_needs() {
    assert_eq!(parse("kind: folder, path: /store"), Ok(ObjectStorage::Folder(PathBuf::from("/store"))));
    assert_eq!(
        cloud("kind: s3, bucket: b"),
        CloudConfig {
            provider: s3("b", None, S3Credentials::Chain),
            prefix: String::new(),
            endpoint: None,
            allow_http: false,
            ca_file: None,
        }
    );
    assert_eq!(
        cloud("kind: azure, container: c").provider,
        Provider::Azure { account: None, container: "c".to_owned(), credentials: AzureCredentials::Chain }
    );
    assert_eq!(
        cloud("kind: gcs, bucket: b").provider,
        Provider::Gcs { bucket: "b".to_owned(), credentials: GcsCredentials::Chain }
    );
}

#[test]
fn a_store_with_everything() {
    assert_eq!(
        cloud(
            "kind: s3, bucket: b, prefix: dex/production, region: eu-central-1, endpoint: 'http://127.0.0.1:9000', \
             allowHttp: true, caFile: /ca.pem, credentials: {file: /keys, profile: dex}"
        ),
        CloudConfig {
            provider: s3(
                "b",
                Some("eu-central-1"),
                S3Credentials::SharedFile { file: "/keys".into(), profile: "dex".to_owned() }
            ),
            prefix: "dex/production".to_owned(),
            endpoint: Some("http://127.0.0.1:9000".to_owned()),
            allow_http: true,
            ca_file: Some("/ca.pem".into()),
        }
    );
}

#[test]
fn credentials_come_from_the_chain_or_from_files_of_one_kind() {
    let of_s3 = |yaml: &str| {
        let config = cloud(&format!("kind: s3, bucket: b, credentials: {{{yaml}}}"));
        let Provider::S3 { credentials, .. } = config.provider else { panic!("{config:?}") };
        credentials
    };
    assert_eq!(of_s3(""), S3Credentials::Chain);
    assert_eq!(
        of_s3("file: /keys"),
        S3Credentials::SharedFile { file: "/keys".into(), profile: "default".to_owned() }
    );
    assert_eq!(
        of_s3("accessKeyIdFile: /id, secretAccessKeyFile: /key, sessionTokenFile: /token"),
        S3Credentials::Files {
            access_key_id: "/id".into(),
            secret_access_key: "/key".into(),
            session_token: Some("/token".into())
        }
    );
    let of_azure = |yaml: &str| {
        let config = cloud(&format!("kind: azure, container: c, credentials: {{{yaml}}}"));
        let Provider::Azure { credentials, .. } = config.provider else { panic!("{config:?}") };
        credentials
    };
    assert_eq!(of_azure("accountKeyFile: /key"), AzureCredentials::AccountKeyFile("/key".into()));
    assert_eq!(of_azure("sasTokenFile: /sas"), AzureCredentials::SasTokenFile("/sas".into()));
    let gcs = cloud("kind: gcs, bucket: b, credentials: {file: /account.json}").provider;
    let expected = GcsCredentials::File("/account.json".into());
    assert_eq!(gcs, Provider::Gcs { bucket: "b".to_owned(), credentials: expected });
}

/// Lesson F7: every refusal names the key, the value and the rule.
#[test]
fn lesson_f7_bad_object_storage_is_refused_by_key_value_and_rule() {
    let blanks = "it must be a name without blanks";
    let bucket = "it is a name alone; what comes after a / belongs to objectStorage.prefix, a host to objectStorage.endpoint";
    let prefix =
        "it is put before every key as it is: names with one / between two of them, as in dex/production";
    let mixture = "give `file` (and `profile`), or `accessKeyIdFile` and `secretAccessKeyFile` (and `sessionTokenFile`), or \
                   leave the section out for the usual chain: environment, web identity, ~/.aws/credentials, role";
    let host = "it must name a host and nothing secret, as in https://store.example:9000";
    for (yaml, key_and_value, rule) in [
        ("", "kind: nothing", "it must be s3, azure, gcs or folder"),
        ("kind: minio", "kind: `minio`", "it must be s3, azure, gcs or folder"),
        ("kind: folder", "path: nothing", "name the folder that the processes share"),
        (
            "kind: folder, path: store",
            "path: `store`",
            "it must begin with /, so that all processes mean the same folder wherever they are started",
        ),
        ("kind: s3", "bucket: nothing", "name the bucket"),
        ("kind: s3, bucket: ''", "bucket: ``", blanks),
        ("kind: s3, bucket: 'a b'", "bucket: `a b`", blanks),
        ("kind: s3, bucket: a/b", "bucket: `a/b`", bucket),
        ("kind: gcs, bucket: 'gs://b'", "bucket: `gs://b`", bucket),
        ("kind: azure", "container: nothing", "name the container"),
        ("kind: s3, bucket: b, prefix: /dex", "prefix: `/dex`", prefix),
        ("kind: s3, bucket: b, prefix: dex/", "prefix: `dex/`", prefix),
        ("kind: s3, bucket: b, prefix: a/../b", "prefix: `a/../b`", prefix),
        ("kind: s3, bucket: b, region: ''", "region: ``", blanks),
        (
            "kind: s3, bucket: b, endpoint: '127.0.0.1:9000'",
            "endpoint: `127.0.0.1:9000`",
            "it must be a URL, as in https://store.example:9000",
        ),
        (
            "kind: s3, bucket: b, endpoint: 'http://store:9000'",
            "endpoint: `http://store:9000`",
            "everybody in between can read and change what goes over http: use https://, or set objectStorage.allowHttp to \
             true where that is meant",
        ),
        ("kind: s3, bucket: b, endpoint: 'https://'", "endpoint: `https://`", host),
        ("kind: azure, container: c, endpoint: 'https://a?sig=s'", "endpoint: `https://a?sig=s`", host),
        ("kind: s3, bucket: b, allowHttp: 1", "allowHttp: `1`", "it must be true or false"),
        ("kind: s3, bucket: b, caFile: ''", "caFile: ``", "it must be a path"),
        ("kind: s3, bucket: b, credentials: {profile: p}", "credentials: this mixture", mixture),
        ("kind: s3, bucket: b, credentials: {accessKeyIdFile: /i}", "credentials: this mixture", mixture),
        (
            "kind: azure, container: c, credentials: {accountKeyFile: /k, sasTokenFile: /s}",
            "credentials: this mixture",
            "give `accountKeyFile` or `sasTokenFile`, or leave the section out for the usual chain: AZURE_* variables, \
             workload identity, managed identity",
        ),
    ] {
        assert_eq!(parse(yaml), Err(format!("objectStorage.{key_and_value} is refused: {rule}")), "{yaml}");
    }
    for (yaml, message) in [
        (
            "kind: folder, path: /s, bucket: b",
            "objectStorage.bucket: unknown key (value `b`); this release knows in `objectStorage`: kind, path",
        ),
        (
            "kind: s3, bucket: b, credentials: {accessKeyId: AKIA}",
            "objectStorage.credentials.accessKeyId: unknown key (value `AKIA`); this release knows in \
             `objectStorage.credentials`: file, profile, accessKeyIdFile, secretAccessKeyFile, sessionTokenFile",
        ),
    ] {
        assert_eq!(parse(yaml), Err(message.to_owned()), "{yaml}");
    }
}

#[test]
fn each_profile_refuses_the_place_of_the_other() {
    let message = |profile, yaml| match Config::parse(profile, yaml, Overrides::default()) {
        Ok(config) => panic!("accepted as {config:?}"),
        Err(error) => error.to_string(),
    };
    assert_eq!(
        message(Profile::Local, "objectStorage: {kind: s3, bucket: b}"),
        "objectStorage: a section is refused: `dex-server-zd local` keeps everything in its data directory; `dex-server-zd \
         serve` runs a node on an object store"
    );
    assert_eq!(
        message(
            Profile::Node,
            "nodeId: n\nobjectStorage: {kind: s3, bucket: b}\ndev: {durabilityMode: strict}"
        ),
        "dev: a section is refused: it is for `dex-server-zd dev` and `local`; what a node acknowledges is in its object store"
    );
    assert_eq!(
        message(Profile::Node, "nodeId: n"),
        "objectStorage: nothing is refused: a node needs the object store that its processes share; `dex-server-zd local` \
         runs one without"
    );
    assert_eq!(
        message(Profile::Node, "objectStorage: {kind: s3, bucket: b}"),
        "nodeId: nothing is refused: a node needs a nodeId"
    );
}

#[test]
fn ha_054_each_process_has_a_data_directory_of_its_own() {
    let yaml = "nodeId: n\nobjectStorage: {kind: s3, bucket: b}\n";
    let parse =
        |yaml: &str, overrides| Config::parse(Profile::Node, yaml, overrides).expect("legal").data_dir;
    assert_eq!(parse(yaml, Overrides::default()), PathBuf::from("/var/lib/dex-server-zd"));
    let named = format!("{yaml}dataDir: /volume");
    assert_eq!(parse(&named, Overrides::default()), PathBuf::from("/volume"));
    let flag = Overrides { data_dir: Some(PathBuf::from("/flag")), ..Overrides::default() };
    assert_eq!(parse(&named, flag), PathBuf::from("/flag"));
}
