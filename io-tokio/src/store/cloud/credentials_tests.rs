use std::path::PathBuf;

use tempfile::TempDir;

use super::*;

const SECRET: &str = "wJalrXUtnFEMI/K7MDENG";

struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(&path, content).expect("written");
        path
    }
}

fn keys(found: &S3Found) -> (&str, &str, Option<&str>) {
    let keys = found.keys.as_ref().expect("keys from a file");
    (&keys.access_key_id, keys.secret_access_key.reveal(), keys.session_token.as_ref().map(Secret::reveal))
}

#[test]
fn one_value_per_file_is_read_without_its_line_break() {
    let files = Files::new();
    let (id, secret, token) =
        (files.write("id", "AKIA1\n"), files.write("secret", SECRET), files.write("token", "t\r\n"));
    let configured = S3Credentials::Files {
        access_key_id: id.clone(),
        secret_access_key: secret.clone(),
        session_token: Some(token.clone()),
    };
    let found = s3(&configured, &Environment::default()).expect("keys");
    assert_eq!(keys(&found), ("AKIA1", SECRET, Some("t")));
    assert_eq!(found.watched, [id, secret, token]);
}

#[test]
fn the_shared_file_gives_the_keys_of_its_profile_only() {
    let files = Files::new();
    let text = format!(
        "# keys\n[other]\naws_access_key_id = no\naws_secret_access_key = no\n\n[default]\n; mine\n\
         aws_access_key_id=AKIA1\naws_secret_access_key = {SECRET}\nregion = x\n\
         [profile half]\naws_access_key_id = only\n"
    );
    let file = files.write("credentials", text);
    let of = |profile: &str| {
        s3(
            &S3Credentials::SharedFile { file: file.clone(), profile: profile.to_owned() },
            &Environment::default(),
        )
    };
    assert_eq!(keys(&of("default").expect("keys")), ("AKIA1", SECRET, None));
    for profile in ["half", "absent"] {
        let error = of(profile).expect_err("no keys").to_string();
        assert_eq!(
            error,
            format!("the credential file {} has no profile [{profile}] with keys", file.display())
        );
    }
}

#[test]
fn the_usual_chain_has_the_order_of_the_providers_tools() {
    let files = Files::new();
    let file =
        files.write("home/.aws/credentials", "[default]\naws_access_key_id=a\naws_secret_access_key=b\n");
    let home = files.0.path().join("home").display().to_string();
    let empty_home = files.0.path().display().to_string();
    let from = |variables: &[(&str, &str)]| {
        s3(&S3Credentials::Chain, &Environment::of(variables)).expect("a source").from
    };
    let environment = ("AWS_ACCESS_KEY_ID", "x");
    let identity = [("AWS_WEB_IDENTITY_TOKEN_FILE", "/t"), ("AWS_ROLE_ARN", "r")];
    assert_eq!(from(&[environment, identity[0], identity[1]]), "the environment (AWS_ACCESS_KEY_ID)");
    assert!(from(&[identity[0], identity[1], ("HOME", &home)]).starts_with("a web identity"));
    assert_eq!(from(&[("HOME", &home)]), format!("profile [default] of {}", file.display()));
    assert!(
        from(&[("HOME", &empty_home), ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "u")])
            .starts_with("the container's")
    );
    assert!(from(&[("HOME", &empty_home)]).starts_with("the machine's role"));
    let asked = Environment::of(&[("HOME", &home), ("AWS_PROFILE", "prod")]);
    let error = s3(&S3Credentials::Chain, &asked).expect_err("no such profile").to_string();
    assert!(error.ends_with("has no profile [prod] with keys, which AWS_PROFILE asks for"), "{error}");
}

/// Bad input of issue 4: an expired or empty credential file.
#[test]
fn a_file_without_credentials_is_named_and_never_quoted() {
    let files = Files::new();
    let mut binary = SECRET.as_bytes().to_vec();
    binary.push(0xff);
    for (content, rule) in [
        (Vec::new(), "is empty"),
        (b" \n".to_vec(), "is empty"),
        (binary, "is not text"),
        (format!("{SECRET}\nmore").into_bytes(), "must hold one line, the value itself"),
        (vec![b'x'; 70_000], "is far too long for credentials"),
    ] {
        let file = files.write("secret", content);
        let error = line(&file).expect_err("refused").to_string();
        assert_eq!(error, format!("the credential file {} {rule}", file.display()));
    }
    let missing = files.0.path().join("missing");
    let error = line(&missing).expect_err("refused").to_string();
    assert!(
        error.starts_with(&format!("the credential file {} cannot be read: ", missing.display())),
        "{error}"
    );
}

#[test]
fn a_google_file_is_looked_into_before_the_library_may_quote_it() {
    let files = Files::new();
    let service = format!("{{\"private_key\": \"{SECRET}\", \"client_email\": \"x@y\"}}");
    assert!(matches!(gcs_file(&files.write("a", service)), Ok(GcsFile::ServiceAccount(_))));
    assert!(matches!(
        gcs_file(&files.write("b", "{\"type\":\"authorized_user\"}")),
        Ok(GcsFile::Application)
    ));
    for content in
        [format!("{{\"private_key\": \"{SECRET}\"}}"), format!("\"{SECRET}\""), format!("{SECRET}!")]
    {
        let error = gcs_file(&files.write("c", content)).expect_err("refused").to_string();
        assert!(!error.contains(SECRET), "{error}");
    }
}

#[test]
fn no_secret_is_printed() {
    let files = Files::new();
    let configured = S3Credentials::Files {
        access_key_id: files.write("id", "AKIA1"),
        secret_access_key: files.write("s", SECRET),
        session_token: None,
    };
    let found = s3(&configured, &Environment::default()).expect("keys");
    let environment = Environment::of(&[("AWS_SECRET_ACCESS_KEY", SECRET)]);
    let printed = format!("{found:?} {configured:?} {environment:?}");
    assert!(!printed.contains(SECRET), "{printed}");
    assert!(printed.contains("AWS_SECRET_ACCESS_KEY"), "the names may show");
}
