//! Real requests to real servers of both protocols, with something between that loses and forges answers (lesson C5): what
//! class each becomes, and what an operator is told.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use dexzd_core::ids::ProcessId;
use dexzd_core::store::{ReadOutcome, Version, WriteOutcome};
use dexzd_rig::proxy::{Fate, Rule};
use dexzd_rig::servers::{AZURITE_ACCOUNT, AZURITE_SAS};
use dexzd_rig::{Proxy, Server};

use super::*;
use crate::store::{ProbeError, probe};

const BUCKET: &str = "lesson-c5";

/// A store behind a proxy of its own.
struct Rig {
    store: CloudStore,
    proxy: Proxy,
    is_s3: bool,
    /// With the files of the credentials.
    _folder: tempfile::TempDir,
}

impl Rig {
    fn s3() -> Self {
        static MOTO: LazyLock<Server> = LazyLock::new(|| Server::moto(&[BUCKET]));
        Self::open(true, MOTO.address(), BUCKET)
    }

    fn azure() -> Self {
        static AZURITE: LazyLock<Server> = LazyLock::new(|| Server::azurite(&[BUCKET]));
        Self::open(false, AZURITE.address(), BUCKET)
    }

    fn both() -> [Self; 2] {
        [Self::s3(), Self::azure()]
    }

    fn open(is_s3: bool, server: SocketAddr, bucket: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let proxy = Proxy::open(server).expect("a port is free");
        let store = CloudStore::open(config(is_s3, proxy.address(), bucket, folder.path())).expect("opened");
        Self { store, proxy, is_s3, _folder: folder }
    }

    /// An answer in this store's words.
    fn error(&self, status: u16, s3: &str, azure: &str) -> Fate {
        if self.is_s3 { Fate::s3_error(status, s3) } else { Fate::azure_error(status, azure) }
    }

    /// A lease that is there, in this version.
    fn created(&self, key: &str) -> Version {
        match self.store.create(key, b"one") {
            WriteOutcome::Done { version } => version,
            other => panic!("{other:?}"),
        }
    }

    fn trouble(&self) -> String {
        self.store.trouble().expect("there was some").text
    }

    fn name(&self) -> &'static str {
        if self.is_s3 { "s3" } else { "azure" }
    }
}

fn config(is_s3: bool, address: SocketAddr, bucket: &str, folder: &Path) -> CloudConfig {
    let file = |name: &str, content: &str| -> PathBuf {
        let path = folder.join(name);
        std::fs::write(&path, content).expect("written");
        path
    };
    let (provider, endpoint) = if is_s3 {
        let credentials = S3Credentials::Files {
            access_key_id: file("id", "rig"),
            secret_access_key: file("secret", "rig"),
            session_token: None,
        };
        (
            Provider::S3 { bucket: bucket.to_owned(), region: Some("us-east-1".to_owned()), credentials },
            format!("http://{address}"),
        )
    } else {
        let credentials = AzureCredentials::SasTokenFile(file("sas", AZURITE_SAS));
        let account = Some(AZURITE_ACCOUNT.to_owned());
        (
            Provider::Azure { account, container: bucket.to_owned(), credentials },
            format!("http://{address}/{AZURITE_ACCOUNT}"),
        )
    };
    CloudConfig { provider, prefix: String::new(), endpoint: Some(endpoint), allow_http: true, ca_file: None }
}

fn is_transient(outcome: &WriteOutcome) -> bool {
    matches!(outcome, WriteOutcome::Transient { .. })
}

/// The worst of all: the write is done, and nobody says so. It is no refusal, and it is sent once.
#[test]
fn lesson_c5_an_answer_that_is_lost_leaves_the_outcome_open_and_nothing_is_repeated() {
    for (number, fate) in [Fate::AnswerLost, Fate::AnswerCutShort, Fate::Lost].into_iter().enumerate() {
        for rig in Rig::both() {
            let key = format!("{}/lost/{number}", rig.name());
            let version = rig.created(&key);
            rig.proxy.passed();
            rig.proxy.add(Rule::always(fate.clone()).of("PUT").times(1));
            let outcome = rig.store.replace(&key, b"two", &version);
            let is_open = is_transient(&outcome);
            // An answer whose head came whole says enough.
            let is_told = matches!(outcome, WriteOutcome::Done { .. }) && fate == Fate::AnswerCutShort;
            assert!(is_open || is_told, "{} {fate:?}: {outcome:?}", rig.name());
            assert_eq!(rig.proxy.passed().len(), 1, "{} {fate:?}", rig.name());
            let is_done = matches!(rig.store.read(&key), ReadOutcome::Found { body, .. } if *body == *b"two");
            assert_eq!(is_done, fate != Fate::Lost, "{} {fate:?}", rig.name());
        }
    }
}

/// D-9: what each kind of answer means for a write that is conditional on a version.
#[test]
fn lesson_c5_d_009_every_kind_of_answer_to_a_renewal_has_its_class() {
    for rig in Rig::both() {
        let key = format!("{}/renewed", rig.name());
        let version = rig.created(&key);
        let transient = [
            rig.error(500, "InternalError", "InternalError"),
            rig.error(503, "SlowDown", "ServerBusy"),
            rig.error(408, "RequestTimeout", "OperationTimedOut"),
        ];
        let page = Fate::Answered {
            status: 200,
            headers: vec![("content-type", "text/html".to_owned())],
            body: "<html>Please log in to this network</html>".to_owned(),
        };
        for fate in transient.into_iter().chain([page]) {
            rig.proxy.add(Rule::always(fate.clone()).of("PUT").times(1));
            let outcome = rig.store.replace(&key, b"two", &version);
            assert!(is_transient(&outcome), "{} {fate:?}: {outcome:?}", rig.name());
        }
        // Another write won, or was under way: whoever reads again knows which.
        let refused = [
            rig.error(412, "PreconditionFailed", "ConditionNotMet"),
            rig.error(409, "ConditionalRequestConflict", "BlobAlreadyExists"),
        ];
        for fate in refused {
            rig.proxy.add(Rule::always(fate.clone()).of("PUT").times(1));
            let outcome = rig.store.replace(&key, b"two", &version);
            assert_eq!(outcome, WriteOutcome::Refused, "{} {fate:?}", rig.name());
        }
        rig.proxy
            .add(Rule::always(rig.error(403, "AccessDenied", "AuthorizationPermissionMismatch")).times(1));
        assert_eq!(rig.store.replace(&key, b"two", &version), WriteOutcome::Permanent, "{}", rig.name());
        assert!(
            matches!(rig.store.replace(&key, b"two", &version), WriteOutcome::Done { .. }),
            "{}",
            rig.name()
        );
    }
}

#[test]
fn lesson_c5_a_store_that_asks_for_patience_is_given_as_much() {
    for rig in Rig::both() {
        let busy = Fate::Answered {
            status: 429,
            headers: vec![("retry-after", "7".to_owned())],
            body: String::new(),
        };
        rig.proxy.add(Rule::always(busy).times(1));
        let expected = WriteOutcome::Transient { retry_after_ms: Some(7_000) };
        assert_eq!(rig.store.create("busy", b"x"), expected, "{}", rig.name());
    }
}

/// They end without anybody's help: a clock that is set, a token that is renewed.
#[test]
fn review_12_7_errors_that_heal_are_no_reason_to_stop() {
    for rig in Rig::both() {
        let fates = [
            rig.error(403, "RequestTimeTooSkewed", "AuthenticationFailed"),
            rig.error(400, "ExpiredToken", "ExpiredAuthenticationToken"),
        ];
        // Azure says both with one code for whatever is wrong with a signature, which is permanent (403).
        for fate in fates.into_iter().filter(|_| rig.is_s3) {
            rig.proxy.add(Rule::always(fate.clone()).times(1));
            let outcome = rig.store.create("healed", b"x");
            assert!(is_transient(&outcome), "{} {fate:?}: {outcome:?}", rig.name());
        }
        assert!(matches!(
            rig.store.create(&format!("{}/healed", rig.name()), b"x"),
            WriteOutcome::Done { .. }
        ));
    }
}

/// Half a body is no object.
#[test]
fn lesson_c5_a_read_that_breaks_off_is_repeated_and_never_believed() {
    for rig in Rig::both() {
        let key = format!("{}/half", rig.name());
        let body = "0123456789".repeat(20_000);
        assert!(matches!(rig.store.create(&key, body.as_bytes()), WriteOutcome::Done { .. }));
        rig.proxy.add(Rule::always(Fate::AnswerCutShort).of("GET").times(1));
        let outcome = rig.store.read(&key);
        assert!(matches!(outcome, ReadOutcome::Transient { .. }), "{}", rig.name());
        match rig.store.read(&key) {
            ReadOutcome::Found { body: found, .. } => assert_eq!(*found, *body.as_bytes()),
            other => panic!("{}: {other:?}", rig.name()),
        }
    }
}

/// D-31: a gateway that drops conditions makes an honest store useless.
#[test]
fn lesson_c4_d_031_conditions_that_are_lost_on_the_way_are_found_out_at_the_start() {
    for rig in Rig::both() {
        assert!(probe(&rig.store, "node", ProcessId(1)).is_ok(), "{}", rig.name());
        rig.proxy.add(Rule::always(Fate::Stripped(&["if-none-match", "if-match"])).of("PUT"));
        let error = probe(&rig.store, "node", ProcessId(2)).expect_err("refused");
        assert!(matches!(error, ProbeError::Unfit { .. }), "{}: {error}", rig.name());
        assert!(error.to_string().contains("does not refuse to create an object that exists"), "{error}");
    }
}

/// What somebody reads who has just written a configuration.
#[test]
fn d_031_a_store_that_turns_the_probe_away_is_quoted_with_the_key_to_look_at() {
    let told = |rig: &Rig| probe(&rig.store, "node", ProcessId(3)).expect_err("refused").to_string();
    let missing = |is_s3| {
        let server = if is_s3 { Server::moto(&[]) } else { Server::azurite(&[]) };
        let rig = Rig::open(is_s3, server.address(), "not-there");
        told(&rig)
    };
    let text = missing(true);
    assert!(text.contains("there is no bucket not-there (404 NoSuchBucket"), "{text}");
    assert!(text.contains("objectStorage.bucket"), "{text}");
    let text = missing(false);
    assert!(text.contains("there is no container not-there (404 ContainerNotFound"), "{text}");
    assert!(text.contains("objectStorage.container"), "{text}");

    let rig = Rig::s3();
    let with = |fate: Fate| {
        rig.proxy.clear();
        rig.proxy.add(Rule::always(fate));
        told(&rig)
    };
    let region = Fate::Answered {
        status: 301,
        headers: vec![
            ("content-type", "application/xml".to_owned()),
            ("x-amz-bucket-region", "eu-west-3".to_owned()),
        ],
        body: "<Error><Code>PermanentRedirect</Code></Error>".to_owned(),
    };
    let text = with(region);
    assert!(text.contains("set objectStorage.region to eu-west-3"), "{text}");
    let text = with(Fate::s3_error(403, "AccessDenied"));
    assert!(text.contains("403 AccessDenied"), "{text}");
    let text = with(Fate::s3_error(403, "InvalidAccessKeyId"));
    assert!(text.contains("credentials"), "{text}");
    let text = with(Fate::Answered { status: 404, headers: Vec::new(), body: "nginx".to_owned() });
    assert!(text.contains("is not an object store of kind s3"), "{text}");
    assert!(text.contains("objectStorage.endpoint or objectStorage.kind"), "{text}");
    let text = with(Fate::Lost);
    assert!(text.contains("does not answer") && text.contains("objectStorage.endpoint"), "{text}");
    // No secret is ever part of it.
    assert_eq!(rig.trouble().matches("Credential=").count(), 0);
}
