//! Tokens, from the outside: one real process, with clients and a Worker of the SDK.

use std::path::{Path, PathBuf};
use std::time::Duration;

use dexzd_sdk::prelude::*;
use tonic::Code;

use crate::harness::Start;

const CLIENT: &str = "client-token-0123";
const ADMIN: &str = "admin-token-89abc";

struct Greet;

impl Step for Greet {
    const TYPE: &'static str = "Greet";
    type Input = String;

    async fn execute(&self, _: &Context, name: String) -> StepResult {
        Ok(Decision::complete(&format!("Hello, {name}!")))
    }
}

struct Greeting;

impl Flow for Greeting {
    const TYPE: &'static str = "Greeting";
    type Start = Greet;
    type Output = String;

    fn define(&self) -> Definition<Self> {
        Definition::starting_with(Greet)
    }
}

fn file(folder: &Path, name: &str, contents: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, contents).expect("writable");
    path
}

fn yaml(client: &Path, admin: &Path) -> String {
    format!(
        "authentication:\n  clientTokenFile: {}\n  adminTokenFile: {}\n",
        client.display(),
        admin.display()
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn ha_087_flows_run_with_a_token_and_without_one_nothing_is_answered() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let client_file = file(folder.path(), "client-tokens", CLIENT);
    let admin_file = file(folder.path(), "admin-tokens", ADMIN);
    let start = Start::dev(&folder.path().join("data")).config(&yaml(&client_file, &admin_file));
    let server = tokio::task::spawn_blocking(|| start.ready()).await.expect("no panic");

    let own_file = file(folder.path(), "own-token", CLIENT);
    let worker =
        Worker::builder(&server.api).credential_file(&own_file).flow(Greeting).build().expect("sound");
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let worker = tokio::spawn(worker.run_until(async {
        let _ = stopped.await;
    }));
    let client =
        Client::builder(&server.api).credential_file(&own_file).connect().await.expect("a valid token");
    client.start::<Greeting>("greeting-1", &"Ada".to_owned()).await.expect("started");
    assert_eq!(client.result::<Greeting>("greeting-1").await.expect("completed"), "Hello, Ada!");

    let code = |result: Result<Client, ClientError>| match result {
        Ok(_) => Code::Ok,
        Err(ClientError::NotPermitted { code, .. }) => code,
        Err(error) => panic!("{error}"),
    };
    assert_eq!(code(Client::connect(&server.api).await), Code::Unauthenticated);
    let unknown = Client::builder(&server.api).token("unknown-token-0123");
    assert_eq!(code(unknown.connect().await), Code::Unauthenticated);
    let admin =
        Client::builder(&server.api).token(ADMIN).connect().await.expect("it may ask for the version");
    let error = admin.describe("greeting-1").await.expect_err("it opens no Flow");
    assert!(matches!(error, ClientError::NotPermitted { code: Code::PermissionDenied, .. }), "{error}");

    // Taken away, the token opens nothing within a second or two; the Worker's stream stays open.
    std::fs::write(&client_file, "another-token-0123").expect("writable");
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    while client.describe("greeting-1").await.is_ok() {
        assert!(tokio::time::Instant::now() < deadline, "the old token still opens Flows");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let _ = stop.send(());
    worker.await.expect("no panic").expect("stopped in order");
    let ended = tokio::task::spawn_blocking(|| server.terminate()).await.expect("no panic");
    for secret in [CLIENT, ADMIN, "another-token-0123"] {
        assert!(!ended.stderr.contains(secret), "a token stands in the log");
    }
}

#[test]
fn a_token_file_that_cannot_be_used_is_refused_at_the_start() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let client_file = file(folder.path(), "client-tokens", CLIENT);
    for (contents, why) in [
        ("\n", "it has no token: write one on a line of its own"),
        ("short\n", "line 1: a token has 16 to 4096 characters, and this one 5"),
    ] {
        let admin_file = file(folder.path(), "admin-tokens", contents);
        let data_dir = folder.path().join("data");
        let ended = Start::dev(&data_dir).config(&yaml(&client_file, &admin_file)).refused();
        assert_eq!(ended.code, Some(2));
        assert_eq!(
            ended.last_line(),
            format!(
                "dex-server-zd refused to start: token_file_unusable: authentication.adminTokenFile: {}: {why}; see \
                 docs/errors/token_file_unusable.md",
                admin_file.display()
            )
        );
        assert!(!data_dir.exists(), "nothing was written");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn flows_run_over_tls_and_a_plain_client_is_told_why_not() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let pair = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).expect("a certificate");
    let certificate = file(folder.path(), "tls.crt", &pair.cert.pem());
    let key = file(folder.path(), "tls.key", &pair.signing_key.serialize_pem());
    let yaml = format!("tls:\n  certificateFile: {}\n  keyFile: {}\n", certificate.display(), key.display());
    let start = Start::dev(&folder.path().join("data")).config(&yaml);
    let server = tokio::task::spawn_blocking(|| start.ready()).await.expect("no panic");

    let trusting = || TlsOptions::new().ca_file(&certificate);
    let worker = Worker::builder(&server.api).tls(trusting()).flow(Greeting).build().expect("sound");
    let worker = tokio::spawn(worker.run());
    let address = format!("https://{}", server.api);
    let client = Client::builder(address).tls(trusting()).connect().await.expect("it trusts the certificate");
    client.start::<Greeting>("greeting-1", &"Ada".to_owned()).await.expect("started");
    assert_eq!(client.result::<Greeting>("greeting-1").await.expect("completed"), "Hello, Ada!");
    worker.abort();

    let plain = Client::connect(&server.api).await.expect_err("it speaks no TLS").to_string();
    assert!(
        plain.contains("use https:// or the TLS options") || plain.contains("use https://, or the TLS"),
        "{plain}"
    );
    tokio::task::spawn_blocking(|| server.terminate()).await.expect("no panic");
}

#[test]
fn tls_files_that_do_not_fit_are_refused_at_the_start() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let pair = || rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).expect("a certificate");
    let certificate = file(folder.path(), "tls.crt", &pair().cert.pem());
    let key = file(folder.path(), "tls.key", &pair().signing_key.serialize_pem());
    let yaml = format!("tls:\n  certificateFile: {}\n  keyFile: {}\n", certificate.display(), key.display());
    let ended = Start::dev(&folder.path().join("data")).config(&yaml).refused();
    assert_eq!(ended.code, Some(2));
    assert_eq!(
        ended.last_line(),
        format!(
            "dex-server-zd refused to start: tls_files_unusable: tls.keyFile: {}: the key does not belong to the \
             certificate in {}: the first certificate of that file must be the one that was issued for this key; see \
             docs/errors/tls_files_unusable.md",
            key.display(),
            certificate.display()
        )
    );
}
