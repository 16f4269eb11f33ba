use super::*;

fn header(credential: &Credential) -> Result<String, String> {
    match credential.current() {
        Ok(current) => Ok(current.header.expect("a credential").to_str().expect("ASCII").to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

#[tokio::test(start_paused = true)]
async fn a_file_is_looked_at_once_a_second_and_its_first_token_sent() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("token");
    std::fs::write(&path, "  first-token-0123\nsecond-token-4567\n").expect("writable");
    let credential = Credential::File(CredentialFile::new(path.clone()));
    assert_eq!(header(&credential).unwrap(), "Bearer first-token-0123");

    // Replaced as Kubernetes does it: by another file under the same name.
    std::fs::write(folder.path().join("new"), "third-token-89ab\n").expect("writable");
    std::fs::rename(folder.path().join("new"), &path).expect("renamed");
    tokio::time::advance(Duration::from_millis(999)).await;
    assert_eq!(header(&credential).unwrap(), "Bearer first-token-0123");
    tokio::time::advance(Duration::from_millis(1)).await;
    assert_eq!(header(&credential).unwrap(), "Bearer third-token-89ab");
}

#[tokio::test(start_paused = true)]
async fn an_empty_or_missing_file_fails_calls_until_it_is_mended() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("token");
    let credential = Credential::File(CredentialFile::new(path.clone()));
    let refused = |why: &str| {
        Err(format!("the credential file cannot be used: {}: {why}; nothing was sent", path.display()))
    };
    assert_eq!(header(&credential), refused("No such file or directory (os error 2)"));
    std::fs::write(&path, "\n").expect("writable");
    tokio::time::advance(LOOK_INTERVAL).await;
    assert_eq!(header(&credential), refused("it has no token: write one on a line of its own"));
    std::fs::write(&path, "first-token-0123").expect("writable");
    tokio::time::advance(LOOK_INTERVAL).await;
    assert_eq!(header(&credential).unwrap(), "Bearer first-token-0123");
}

#[tokio::test(start_paused = true)]
async fn a_refused_credential_is_looked_at_again_at_once() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("token");
    std::fs::write(&path, "first-token-0123").expect("writable");
    let credential = Credential::File(CredentialFile::new(path.clone()));
    let sent = credential.current().expect("readable").version;
    assert_eq!(credential.version_after_look(), sent);
    std::fs::write(&path, "second-token-4567").expect("writable");
    assert_ne!(credential.version_after_look(), sent);
    assert_eq!(header(&credential).unwrap(), "Bearer second-token-4567");
}
