//! The credential of a client.

use std::path::Path;
use std::time::Duration;

use tonic::{Code, Status};

use super::{Greeting, ada, started};
use crate::testing::FakeServer;
use crate::{Client, ClientError, TlsOptions};

fn client_with(server: &FakeServer, path: &Path) -> Client {
    let builder = Client::builder("server-0:1").credential_file(path);
    builder.connect_with(FakeServer::network(&[server])).build().expect("an address")
}

fn credentials(server: &FakeServer) -> Vec<String> {
    server
        .state
        .starts
        .credentials
        .lock()
        .unwrap()
        .iter()
        .map(|sent| sent.clone().unwrap_or_default())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn the_token_goes_with_every_call_and_a_rotated_one_is_taken_up_within_a_second() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    std::fs::write(&path, "first-token-0123\n").unwrap();
    let server = FakeServer::start();
    for _ in 0..3 {
        server.state.starts.answer(started("run"));
    }
    let client = client_with(&server, &path);
    client.start::<Greeting>("greeting-1", &ada()).await.unwrap();
    std::fs::write(&path, "second-token-4567\n").unwrap();
    client.start::<Greeting>("greeting-2", &ada()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    client.start::<Greeting>("greeting-3", &ada()).await.unwrap();
    assert_eq!(
        credentials(&server),
        ["Bearer first-token-0123", "Bearer first-token-0123", "Bearer second-token-4567"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_refused_credential_that_was_replaced_meanwhile_is_no_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    std::fs::write(&path, "first-token-0123\n").unwrap();
    let server = FakeServer::start();
    server.state.starts.answer(started("run-1"));
    server.state.starts.answer(Err(Status::unauthenticated("not valid here")));
    server.state.starts.answer(started("run-2"));
    let client = client_with(&server, &path);
    client.start::<Greeting>("greeting-1", &ada()).await.unwrap();
    std::fs::write(&path, "second-token-4567\n").unwrap();
    assert_eq!(client.start::<Greeting>("greeting-2", &ada()).await.unwrap(), "run-2");
    assert_eq!(
        credentials(&server),
        ["Bearer first-token-0123", "Bearer first-token-0123", "Bearer second-token-4567"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_wrong_credential_is_an_error_at_once() {
    let server = FakeServer::start();
    server.state.starts.answer(Err(Status::unauthenticated("not valid here")));
    server.state.starts.answer(Err(Status::permission_denied("this needs a client credential")));
    let client = Client::of(server.link.clone());
    let error = client.start::<Greeting>("greeting-1", &ada()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "start a Flow: the server at fake:1 refuses the credential, or wants one (Unauthenticated): not valid here"
    );
    let error = client.start::<Greeting>("greeting-1", &ada()).await.unwrap_err();
    assert!(matches!(error, ClientError::NotPermitted { code: Code::PermissionDenied, .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn without_a_readable_credential_nothing_is_sent() {
    let server = FakeServer::start();
    let client = client_with(&server, Path::new("/nothing/here"));
    let error = client.start::<Greeting>("greeting-1", &ada()).await.unwrap_err();
    assert!(matches!(error, ClientError::Credential(_)), "{error}");
    assert_eq!(
        error.to_string(),
        "the credential file cannot be used: /nothing/here: No such file or directory (os error 2); nothing was sent"
    );
    assert_eq!(credentials(&server), Vec::<String>::new());
}

#[test]
fn what_cannot_be_used_is_refused_before_anything_is_sent() {
    let refused = |builder: crate::ClientBuilder| builder.build().expect_err("refused").to_string();
    assert_eq!(
        refused(Client::builder("a:1").token("short")),
        "the token cannot be used: a token has 16 to 4096 characters, and this one 5"
    );
    assert_eq!(
        refused(Client::builder("http://a:1").tls(TlsOptions::new())),
        "\"http://a:1\" says http://, and TLS was asked for too: write https://, or leave one of both out"
    );
    assert_eq!(
        refused(Client::builder("a:1").tls(TlsOptions::new().ca_file("/nothing/here"))),
        "TLS: /nothing/here: it cannot be read: No such file or directory (os error 2)"
    );
    assert_eq!(
        refused(Client::builder("a:1").tls(TlsOptions::new().server_name("no name"))),
        "TLS: \"no name\" is no name that a certificate can be for: write a host name or an IP address"
    );
}
