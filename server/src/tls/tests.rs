//! Handshakes over pipes in memory.

use std::path::Path;

use dexzd_connection::material::provider;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::TlsConnector;

use super::*;

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("an authority")
}

/// A certificate for `name`, and its key, as PEM.
fn issue(authority: &Authority, name: &str) -> (String, String) {
    let params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
    let key = KeyPair::generate().expect("a key");
    let certificate = params.signed_by(&key, authority).expect("signed");
    (certificate.pem(), key.serialize_pem())
}

struct Folder {
    folder: tempfile::TempDir,
    tls: Tls,
}

impl Folder {
    fn new(with_client_ca: Option<&Authority>) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = |name: &str| folder.path().join(name);
        let client_ca_file = with_client_ca.map(|authority| {
            std::fs::write(path("client-ca.pem"), authority.pem()).expect("writable");
            path("client-ca.pem")
        });
        let tls = Tls { certificate_file: path("server.pem"), key_file: path("server.key"), client_ca_file };
        Self { folder, tls }
    }

    fn put(&self, (certificate, key): &(String, String)) {
        replace(&self.tls.certificate_file, certificate);
        replace(&self.tls.key_file, key);
    }
}

fn replace(path: &Path, contents: &str) {
    let new = path.with_extension("new");
    std::fs::write(&new, contents).expect("writable");
    std::fs::rename(&new, path).expect("renamed");
}

/// A client that trusts one authority, and shows a certificate if it has one.
fn client(trusted: &Authority, shown: Option<&(String, String)>) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.der().clone()).expect("an authority");
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .expect("ring knows them")
        .with_root_certificates(roots);
    let mut config = match shown {
        None => config.with_no_client_auth(),
        Some((certificate, key)) => config
            .with_client_auth_cert(
                vec![CertificateDer::from_pem_slice(certificate.as_bytes()).expect("PEM")],
                rustls::pki_types::PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("PEM"),
            )
            .expect("they match"),
    };
    config.alpn_protocols = vec![ALPN.to_vec()];
    TlsConnector::from(Arc::new(config))
}

/// Sends one byte there and back.
async fn echo(acceptor: &Acceptor, client: &TlsConnector) -> Result<(), String> {
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let server = async {
        let mut stream = acceptor.accept(theirs).await.map_err(|error| format!("server: {error}"))?;
        let byte = stream.read_u8().await.map_err(|error| format!("server: {error}"))?;
        stream.write_u8(byte).await.map_err(|error| format!("server: {error}"))?;
        stream.shutdown().await.map_err(|error| format!("server: {error}"))
    };
    let name = ServerName::try_from("dex.test").expect("a name");
    let client = async {
        let mut stream = client.connect(name, ours).await.map_err(|error| format!("client: {error}"))?;
        stream.write_u8(7).await.map_err(|error| format!("client: {error}"))?;
        let byte = stream.read_u8().await.map_err(|error| format!("client: {error}"))?;
        assert_eq!(byte, 7);
        Ok(())
    };
    let (server, client): (Result<(), String>, Result<(), String>) = tokio::join!(server, client);
    server.and(client)
}

#[tokio::test]
async fn a_client_that_trusts_the_authority_is_served() {
    let (authority, folder) = (authority(), Folder::new(None));
    folder.put(&issue(&authority, "dex.test"));
    let acceptor = Acceptor::load(&folder.tls).expect("sound");
    assert_eq!(echo(&acceptor, &client(&authority, None)).await, Ok(()));
    let stranger = super::tests::authority();
    let refused = echo(&acceptor, &client(&stranger, None)).await.expect_err("another authority");
    assert!(refused.starts_with("server: received fatal alert"), "{refused}");
}

#[tokio::test]
async fn with_client_ca_file_only_certified_clients_are_served() {
    let (authority, clients) = (authority(), super::tests::authority());
    let folder = Folder::new(Some(&clients));
    folder.put(&issue(&authority, "dex.test"));
    let acceptor = Acceptor::load(&folder.tls).expect("sound");
    let certified = issue(&clients, "worker-1");
    assert_eq!(echo(&acceptor, &client(&authority, Some(&certified))).await, Ok(()));
    assert_eq!(
        echo(&acceptor, &client(&authority, None)).await,
        Err("server: peer sent no certificates".to_owned())
    );
    let stranger = issue(&authority, "worker-1");
    let refused = echo(&acceptor, &client(&authority, Some(&stranger))).await.expect_err("another authority");
    assert!(refused.starts_with("server: invalid peer certificate"), "{refused}");
}

#[tokio::test]
async fn a_rotated_pair_is_used_by_new_connections_and_half_a_rotation_changes_nothing() {
    let (first, second, folder) = (authority(), authority(), Folder::new(None));
    folder.put(&issue(&first, "dex.test"));
    let acceptor = Acceptor::load(&folder.tls).expect("sound");

    let (certificate, key) = issue(&second, "dex.test");
    replace(&folder.tls.certificate_file, &certificate);
    acceptor.look();
    assert_eq!(echo(&acceptor, &client(&first, None)).await, Ok(()), "the old pair");

    replace(&folder.tls.key_file, &key);
    acceptor.look();
    assert_eq!(echo(&acceptor, &client(&second, None)).await, Ok(()), "the new pair");
    assert!(echo(&acceptor, &client(&first, None)).await.is_err(), "not the old one");

    std::fs::remove_file(&folder.tls.key_file).expect("it was there");
    acceptor.look();
    assert_eq!(echo(&acceptor, &client(&second, None)).await, Ok(()), "still the new pair");
    drop(folder.folder);
}

#[tokio::test]
async fn a_client_that_speaks_no_tls_is_refused() {
    let (authority, folder) = (authority(), Folder::new(None));
    folder.put(&issue(&authority, "dex.test"));
    let acceptor = Acceptor::load(&folder.tls).expect("sound");
    let (mut ours, theirs) = tokio::io::duplex(1 << 16);
    ours.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.expect("the pipe is wide");
    let error = acceptor.accept(theirs).await.expect_err("no TLS");
    assert_eq!(error.to_string(), "received corrupt message of type InvalidContentType");
    // The alert tells the client's side what is the matter.
    assert_eq!(ours.read_u8().await.expect("an alert"), 0x15);
}

#[test]
fn a_start_with_material_that_does_not_fit_is_refused_by_key_and_file() {
    let (authority, folder) = (authority(), Folder::new(None));
    let (certificate, _) = issue(&authority, "dex.test");
    let (_, other_key) = issue(&authority, "dex.test");
    folder.put(&(certificate, other_key));
    let Err((key, error)) = Acceptor::load(&folder.tls) else { panic!("it was loaded") };
    assert_eq!((key, &error.path), ("tls.keyFile", &folder.tls.key_file));
    assert!(error.why.starts_with("the key does not belong to the certificate in "), "{error}");

    let missing = Tls { client_ca_file: Some("/nothing/here.pem".into()), ..folder.tls.clone() };
    folder.put(&issue(&authority, "dex.test"));
    let Err((key, error)) = Acceptor::load(&missing) else { panic!("it was loaded") };
    assert_eq!(key, "tls.clientCaFile");
    assert_eq!(
        error.to_string(),
        "/nothing/here.pem: it cannot be read: No such file or directory (os error 2)"
    );
}
