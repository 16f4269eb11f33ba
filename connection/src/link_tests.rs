//! Links to real listeners on this machine, with and without TLS. What they call is not there: an answer of
//! UNIMPLEMENTED is one that came over the connection.

use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use dexzd_proto::GetServerInfoRequest;
use dexzd_proto::flow_service_client::FlowServiceClient;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::server::WebPkiClientVerifier;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_stream::wrappers::ReceiverStream;
use tonic::service::Routes;
use tonic::transport::server::Connected;
use tonic::{Code, Status};

use crate::{DialError, Link, Target, TlsOptions, material};

type Authority = CertifiedIssuer<'static, KeyPair>;

/// Everything that a test writes and listens on.
struct House {
    folder: tempfile::TempDir,
    authority: Authority,
}

impl House {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        let name = format!("authority {}", fastrand::u64(..));
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let authority = CertifiedIssuer::self_signed(params, key).expect("an authority");
        Self { folder: tempfile::tempdir().expect("a temporary folder"), authority }
    }

    fn file(&self, name: &str, contents: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, contents).expect("writable");
        path
    }

    fn ca_file(&self) -> PathBuf {
        self.file("ca.pem", &self.authority.pem())
    }

    /// Files of a certificate for `name` and its key.
    fn issue(&self, name: &str) -> (PathBuf, PathBuf) {
        let params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.authority).expect("signed");
        (
            self.file(&format!("{name}.pem"), &certificate.pem()),
            self.file(&format!("{name}.key"), &key.serialize_pem()),
        )
    }

    /// The configuration of a server whose certificate is for `name`.
    fn server(&self, name: &str, wants_certificates: bool) -> Arc<ServerConfig> {
        let (certificate_file, key_file) = self.issue(name);
        let identity = material::identity(&certificate_file, &key_file).expect("they match");
        let config = ServerConfig::builder_with_provider(material::provider())
            .with_safe_default_protocol_versions()
            .expect("ring knows them");
        let config = if wants_certificates {
            let roots = Arc::new(material::authorities(&self.ca_file()).expect("one"));
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, material::provider()).build();
            config.with_client_cert_verifier(verifier.expect("an authority"))
        } else {
            config.with_no_client_auth()
        };
        let mut config = config.with_single_cert(identity.certificates, identity.key).expect("they match");
        config.alpn_protocols = vec![b"h2".to_vec()];
        Arc::new(config)
    }
}

/// A stream of whatever kind, as tonic's server takes it.
struct Accepted(Box<dyn crate::Io>);

impl Connected for Accepted {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

impl AsyncRead for Accepted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Accepted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

/// Listens until the test is over; the result is its address.
async fn listen(tls: Option<Arc<ServerConfig>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound").to_string();
    let (connections, incoming) = tokio::sync::mpsc::channel(1);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let connections = connections.clone();
            tokio::spawn(accept(stream, tls.clone(), connections));
        }
    });
    let server = tonic::transport::Server::builder().add_routes(Routes::default());
    tokio::spawn(server.serve_with_incoming(ReceiverStream::new(incoming)));
    address
}

async fn accept(
    stream: TcpStream,
    tls: Option<Arc<ServerConfig>>,
    connections: tokio::sync::mpsc::Sender<io::Result<Accepted>>,
) {
    let accepted: Box<dyn crate::Io> = match tls {
        None => Box::new(stream),
        Some(config) => match TlsAcceptor::from(config).accept(stream).await {
            Ok(stream) => Box::new(stream),
            Err(_) => return,
        },
    };
    let _ = connections.send(Ok(Accepted(accepted))).await;
}

async fn call(link: Link) -> Status {
    let mut client = FlowServiceClient::new(link);
    client.get_server_info(GetServerInfoRequest {}).await.expect_err("nothing is there")
}

/// The innermost cause: what people are told.
async fn trouble(target: Target) -> String {
    let status = call(target.link().expect("the files are sound")).await;
    let mut cause: &dyn std::error::Error = std::error::Error::source(&status).expect("no server answered");
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

#[tokio::test]
async fn calls_go_over_plain_connections_over_tls_and_over_mtls() {
    let house = House::new();
    let plain = listen(None).await;
    let tls = listen(Some(house.server("127.0.0.1", false))).await;
    let mtls = listen(Some(house.server("dex.test", true))).await;
    let (certificate, key) = house.issue("worker-1");
    let trusting = || TlsOptions::new().ca_file(house.ca_file());
    for target in [
        Target::new(&plain),
        Target::new(format!("http://{plain}")),
        Target::new(&tls).tls(trusting()),
        Target::new(format!("https://{tls}")).tls(trusting()).token("client-token-0123"),
        Target::new(&mtls).tls(trusting().identity(&certificate, &key).server_name("dex.test")),
    ] {
        assert_eq!(call(target.link().expect("sound")).await.code(), Code::Unimplemented, "{target:?}");
        let fresh = target.link().expect("sound").fresh().await.expect("it listens");
        assert_eq!(call(fresh).await.code(), Code::Unimplemented, "{target:?}");
    }
}

#[tokio::test]
async fn what_does_not_fit_is_said_with_what_to_do() {
    let house = House::new();
    let stranger = House::new();
    let plain = listen(None).await;
    let tls = listen(Some(house.server("127.0.0.1", false))).await;
    let mtls = listen(Some(house.server("127.0.0.1", true))).await;
    let trusting = || TlsOptions::new().ca_file(house.ca_file());

    // Whether the alert arrives before the end of the connection is up to the operating system.
    let plainly = trouble(Target::new(&tls)).await;
    assert!(
        [
            "the server speaks TLS: use https://, or the TLS options",
            "the server ended the connection before it said anything: if it speaks TLS, use https:// or the TLS options",
        ]
        .contains(&plainly.as_str()),
        "{plainly}"
    );
    assert_eq!(
        trouble(Target::new(&tls).tls(TlsOptions::new().ca_file(stranger.ca_file()))).await,
        "invalid peer certificate: UnknownIssuer (expecting \"127.0.0.1\"); the server's certificate is signed by an \
         authority that is not trusted here: name a file with that authority's certificate"
    );
    let other_name = trouble(Target::new(&tls).tls(trusting().server_name("dex.test"))).await;
    assert!(
        other_name.ends_with(
            "the server's certificate is for another name: connect by that name, or say which name to expect"
        ),
        "{other_name}"
    );
    assert_eq!(
        trouble(Target::new(&mtls).tls(trusting())).await,
        "received fatal alert: CertificateRequired; the server wants a client certificate: give one, with its key"
    );
    let (certificate, key) = stranger.issue("worker-1");
    let unknown = trouble(Target::new(&mtls).tls(trusting().identity(&certificate, &key))).await;
    assert!(unknown.ends_with("; the server does not accept this client's certificate"), "{unknown}");
    let no_tls = trouble(Target::new(&plain).tls(trusting())).await;
    assert!(
        no_tls.ends_with(
            "perhaps the server does not speak TLS: then use http://, or leave the TLS options out"
        ) || no_tls.ends_with("perhaps it does not speak TLS"),
        "{no_tls}"
    );
}

#[tokio::test]
async fn lesson_f3_the_next_address_is_tried_when_one_refuses() {
    let refusing = {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        listener.local_addr().expect("bound").to_string()
    };
    let listening = listen(None).await;
    let link = Target::new(format!("{refusing},{listening}")).link().expect("addresses");
    for _ in 0..4 {
        let fresh = link.fresh().await.expect("one of them listens");
        assert_eq!(call(fresh).await.code(), Code::Unimplemented);
    }
    let nobody = Target::new(&refusing).link().expect("an address");
    let error = nobody.fresh().await.expect_err("nobody listens");
    assert!(DialError::find(&error).expect("the cause").is_refused());
    assert!(nobody.is_only_this_machine() && !link.is_only_this_machine());
}

#[tokio::test]
async fn a_rotated_authority_is_trusted_by_the_next_connection_after_a_second() {
    let (old, new) = (House::new(), House::new());
    let server = listen(Some(new.server("127.0.0.1", false))).await;
    let ca_file = old.ca_file();
    let link = Target::new(&server).tls(TlsOptions::new().ca_file(&ca_file)).link().expect("sound");
    assert!(link.fresh().await.is_err());
    std::fs::write(&ca_file, new.authority.pem()).expect("writable");
    let mut tries = 0;
    while link.fresh().await.is_err() {
        tries += 1;
        assert!(tries < 1_000, "the new authority is never trusted");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}
