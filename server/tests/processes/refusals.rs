//! What a production node refuses before it touches anything: the store, the configuration, material.

use std::path::Path;

use crate::harness::{Ended, Home, Start, content};

fn assert_refused(refused: &Ended, code: &str, says: &str) {
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    let line = refused.last_line();
    assert!(line.starts_with(&format!("dex-server-zd refused to start: {code}: ")), "{line}");
    assert!(line.contains(says), "{says:?} is not in {line}");
    assert!(line.ends_with(&format!("; see docs/errors/{code}.md")), "{line}");
}

/// Lesson F7, HA-47, HA-49, HA-50: key, value and rule, with the folder as it was.
#[test]
fn lesson_f7_ha_047_ha_049_ha_050_a_bad_configuration_of_a_node_touches_nothing() {
    for (yaml, says) in [
        ("lease: {duration: 4hrs}", "lease.duration: `4hrs` is refused"),
        ("lease: {duration: 0s}", "lease.duration: `0s` is refused"),
        ("lease: {duration: -1s}", "lease.duration: `-1s` is refused"),
        ("lease: {duration: 10}", "lease.duration: `10` is refused"),
        ("lease: {duration: 2s}", "lease.duration: `2s` is refused"),
        ("lease: {durations: 10s}", "lease.durations"),
        ("lease: {failIfHeld: true}\nstandby: {mode: hot}", "lease.failIfHeld"),
        ("standby: {mode: hot, stepDownHoldOff: 1750ms}", "standby.stepDownHoldOff: `1750ms` is refused"),
        ("standby: {mode: warm}", "standby.mode: `warm` is refused"),
        ("standbys: {mode: hot}", "standbys: unknown section"),
        ("dev: {durabilityMode: strict}", "dev"),
    ] {
        let home = Home::new();
        let store = home.folder("store");
        let refused = Start::serve(&home.data(), &store).config(yaml).refused();
        assert_refused(&refused, "config_refused", says);
        assert!(!home.data().exists() && content(&store).is_empty(), "{yaml}: something was written");
    }
}

/// A folder that is not there could be the one below a disk that is not mounted.
#[test]
fn a_folder_that_is_not_there_is_named_and_not_created() {
    let home = Home::new();
    let store = home.folder("mounted").join("store");
    let refused = Start::serve(&home.data(), &store).refused();
    let says = format!("objectStorage.path: there is no folder {}: create it", store.display());
    assert_refused(&refused, "object_storage_unusable", &says);
    assert!(!store.exists(), "nothing was created");
}

fn file(folder: &Path, name: &str, content: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, content).expect("writable");
    path.display().to_string()
}

/// Credentials that are empty, torn or not there: by key and file, without what is in it.
#[test]
fn credential_files_that_cannot_be_used_are_named_and_never_quoted() {
    let home = Home::new();
    let folder = home.folder("secrets");
    let whole = file(&folder, "whole", "AKIDWHOLE");
    let blank = file(&folder, "blank", "\n");
    let profiles = file(&folder, "profiles", "[default]\naws_access_key_id = AKIDTORN\n");
    let nothing = folder.join("nothing").display().to_string();
    let s3 = "kind: s3, bucket: b, endpoint: 'http://127.0.0.1:9', allowHttp: true";
    let azure = "kind: azure, container: c, account: a, endpoint: 'http://127.0.0.1:9', allowHttp: true";
    for (store, credentials, says) in [
        (s3, format!("file: '{blank}'"), &blank),
        (s3, format!("file: '{nothing}'"), &nothing),
        (s3, format!("file: '{profiles}'"), &profiles),
        (s3, format!("accessKeyIdFile: '{whole}', secretAccessKeyFile: '{blank}'"), &blank),
        (azure, format!("accountKeyFile: '{blank}'"), &blank),
        (azure, format!("sasTokenFile: '{nothing}'"), &nothing),
    ] {
        let yaml = format!("objectStorage: {{{store}, credentials: {{{credentials}}}}}\n");
        let refused = Start::serve_on(&home.data(), &yaml).refused();
        assert_refused(&refused, "object_storage_unusable", says);
        assert!(!refused.stderr.contains("AKID"), "a credential was quoted: {}", refused.stderr);
        assert!(!home.data().exists(), "{credentials}: something was written");
    }
}

/// TLS material and tokens of a production node, as of `dev`.
#[test]
fn material_that_does_not_match_is_named_before_the_store_is_touched() {
    let home = Home::new();
    let (store, folder) = (home.folder("store"), home.folder("material"));
    let pair = || rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).expect("a certificate");
    let certificate = file(&folder, "tls.crt", &pair().cert.pem());
    let key = file(&folder, "tls.key", &pair().signing_key.serialize_pem());
    let blank = file(&folder, "blank", "");
    for (yaml, code, says) in [
        (
            format!("tls: {{certificateFile: '{certificate}', keyFile: '{key}'}}"),
            "tls_files_unusable",
            format!("tls.keyFile: {key}: the key does not belong to the certificate"),
        ),
        (
            format!("tls: {{certificateFile: '{blank}', keyFile: '{key}'}}"),
            "tls_files_unusable",
            format!("tls.certificateFile: {blank}"),
        ),
        (
            format!("authentication: {{clientTokenFile: '{blank}'}}"),
            "token_file_unusable",
            format!("authentication.clientTokenFile: {blank}: it has no token"),
        ),
    ] {
        let refused = Start::serve(&home.data(), &store).config(&yaml).refused();
        assert_refused(&refused, code, &says);
        assert!(!home.data().exists() && content(&store).is_empty(), "{yaml}: something was written");
    }
}
