use super::*;

struct Pair {
    certificate: String,
    key: String,
}

fn pair(until: i32) -> Pair {
    let mut params = rcgen::CertificateParams::new(vec!["dex.test".to_owned()]).expect("a name");
    params.not_before = rcgen::date_time_ymd(2020, 1, 1);
    params.not_after = rcgen::date_time_ymd(until, 1, 1);
    let key = rcgen::KeyPair::generate().expect("a key");
    Pair { certificate: params.self_signed(&key).expect("a certificate").pem(), key: key.serialize_pem() }
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    fn file(&self, name: &str, contents: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, contents).expect("writable");
        path
    }
}

#[test]
fn a_matching_pair_is_read() {
    let (folder, pair) = (Folder::new(), pair(4000));
    let chain = format!("{}{}", pair.certificate, super::tests::pair(4000).certificate);
    let identity = identity(&folder.file("c", &chain), &folder.file("k", &pair.key)).expect("they match");
    assert_eq!(identity.certificates.len(), 2);
    assert_eq!(authorities(&folder.file("ca", &chain)).expect("two").len(), 2);
}

#[test]
fn every_wrong_file_is_named_with_what_is_wrong() {
    let folder = Folder::new();
    let (good, other, old) = (pair(4000), pair(4000), pair(2021));
    let certificate = folder.file("certificate", &good.certificate);
    let key = folder.file("key", &good.key);
    let missing = folder.0.path().join("missing");
    let table: [(PathBuf, PathBuf, PathBuf, String); 8] = [
        (
            missing.clone(),
            key.clone(),
            missing.clone(),
            "it cannot be read: No such file or directory (os error 2)".into(),
        ),
        (
            certificate.clone(),
            missing.clone(),
            missing.clone(),
            "it cannot be read: No such file or directory (os error 2)".into(),
        ),
        (
            folder.file("empty", ""),
            key.clone(),
            folder.0.path().join("empty"),
            "it holds no certificate: a PEM file with `-----BEGIN CERTIFICATE-----` is needed".into(),
        ),
        (
            key.clone(),
            key.clone(),
            key.clone(),
            "it holds no certificate: a PEM file with `-----BEGIN CERTIFICATE-----` is needed".into(),
        ),
        (
            certificate.clone(),
            certificate.clone(),
            certificate.clone(),
            "it holds no key: a PEM file with `-----BEGIN PRIVATE KEY-----` (not encrypted) is needed".into(),
        ),
        (
            certificate.clone(),
            folder.file("other", &other.key),
            folder.0.path().join("other"),
            format!(
                "the key does not belong to the certificate in {}: the first certificate of that file must be the one \
                 that was issued for this key",
                certificate.display()
            ),
        ),
        (
            folder.file("old", &old.certificate),
            folder.file("old-key", &old.key),
            folder.0.path().join("old"),
            "the certificate expired at 2021-01-01 00:00:00 UTC: put a new one there".into(),
        ),
        (
            folder.file("random", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
            key.clone(),
            folder.0.path().join("random"),
            "the first certificate cannot be read".into(),
        ),
    ];
    for (certificate_file, key_file, path, why) in table {
        let error = identity(&certificate_file, &key_file).expect_err("it is wrong");
        assert_eq!(error, MaterialError { path, why });
    }
    let unended = folder.file("unended", "-----BEGIN CERTIFICATE-----\nAAAA\n");
    let error = identity(&unended, &key).expect_err("it is wrong");
    assert!(error.why.starts_with("it is not a PEM file of certificates: "), "{error}");
    let random = folder.0.path().join("random");
    let error = authorities(&random).expect_err("it is wrong");
    assert!(error.why.starts_with("a certificate in it cannot be trusted: "), "{error}");
}

#[test]
fn a_certificate_of_the_future_points_at_the_clock() {
    let mut params = rcgen::CertificateParams::new(vec!["dex.test".to_owned()]).expect("a name");
    params.not_before = rcgen::date_time_ymd(3000, 1, 1);
    params.not_after = rcgen::date_time_ymd(3001, 1, 1);
    let key = rcgen::KeyPair::generate().expect("a key");
    let folder = Folder::new();
    let certificate = folder.file("c", &params.self_signed(&key).expect("a certificate").pem());
    let error = identity(&certificate, &folder.file("k", &key.serialize_pem())).expect_err("too early");
    assert!(
        error.why.starts_with("the certificate is valid from 3000-01-01 00:00:00 UTC on, and this"),
        "{error}"
    );
}
