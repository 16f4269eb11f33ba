//! HTTP to a store: hyper with TLS from rustls and ring, limits that end what hangs, and notes of what came back.
//!
//! One request is sent once. The pool may hand a request that was not written yet to another connection; whatever was
//! written is never repeated here, for only the core knows what may be (D-9).

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector as TcpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, HttpResponse,
    HttpResponseBody, HttpService,
};
use object_store::{ClientConfigKey, ClientOptions};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use tokio::time::timeout;

use super::answer::{Answer, Exchange, Notes};

/// A connection that is not there after this is a failed one (lesson C6): the longest time that the core
/// gives to one renewal (D-5).
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// An answer that has not begun after this, and the time of the upload, counts as lost. The core gives a request
/// up far earlier; this one gives its thread and its connection back.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);
/// The slowest upload that is waited for, in bytes per second.
const SLOWEST_UPLOAD: u64 = 128 * 1024;
/// A body that brings nothing for so long has lost its connection.
pub(super) const BODY_LIMIT: Duration = Duration::from_secs(30);
/// Connections are not used again after so much idleness: stores and the boxes in between close them at 20 s and
/// more, and one that was closed silently costs a failed request.
const IDLE_LIMIT: Duration = Duration::from_secs(15);
/// Each lane has few requests at a time.
const IDLE_CONNECTIONS: usize = 8;
/// Bytes that nobody acknowledged for so long end a connection that went dead.
const UNACKNOWLEDGED_LIMIT: Duration = Duration::from_secs(20);
/// What of an error's body is read.
const ERROR_BODY_BYTES: usize = 64 * 1024;

const USER_AGENT: &str = concat!("dex-server-zd/", env!("CARGO_PKG_VERSION"));

type Wire = Client<HttpsConnector<TcpConnector>, HttpRequestBody>;

/// Makes the clients of one store; all of them share its connections, and no other store's.
#[derive(Clone)]
pub(super) struct Transport {
    secure: Wire,
    /// Also speaks plain HTTP: for the services on a machine's own address that give credentials.
    plain: Wire,
}

impl fmt::Debug for Transport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Transport")
    }
}

/// No certificate to trust could be found.
#[derive(Debug, thiserror::Error)]
pub(super) enum TrustError {
    #[error("objectStorage.caFile: {path}: {error}")]
    CaFile { path: String, error: String },
    #[error(
        "this machine has no certificates of authorities to trust: install its package ca-certificates, or name a file \
         with objectStorage.caFile"
    )]
    None,
}

impl Transport {
    pub(super) fn new(ca_file: Option<&Path>, needs_trust: bool) -> Result<Self, TrustError> {
        let tls = tls(roots(ca_file, needs_trust)?);
        Ok(Self { secure: wire(tls.clone(), false), plain: wire(tls, true) })
    }
}

impl HttpConnector for Transport {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let allow_http = options.get_config_value(&ClientConfigKey::AllowHttp).as_deref() == Some("true");
        let wire = if allow_http { &self.plain } else { &self.secure };
        Ok(HttpClient::new(Service { wire: wire.clone() }))
    }
}

fn wire(tls: ClientConfig, allow_http: bool) -> Wire {
    let mut tcp = TcpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT_LIMIT));
    tcp.set_keepalive(Some(IDLE_LIMIT));
    #[cfg(target_os = "linux")]
    tcp.set_tcp_user_timeout(Some(UNACKNOWLEDGED_LIMIT));
    let builder = HttpsConnectorBuilder::new().with_tls_config(tls);
    let builder = if allow_http { builder.https_or_http() } else { builder.https_only() };
    Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_LIMIT)
        .pool_max_idle_per_host(IDLE_CONNECTIONS)
        .build(builder.enable_http1().wrap_connector(tcp))
}

fn tls(roots: RootCertStore) -> ClientConfig {
    ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring has the cipher suites of TLS 1.2 and 1.3")
        .with_root_certificates(roots)
        .with_no_client_auth()
}

fn roots(ca_file: Option<&Path>, needs_trust: bool) -> Result<RootCertStore, TrustError> {
    let mut roots = RootCertStore::empty();
    // What cannot be read or parsed of the machine's is left out, as every other program on it does.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(path) = ca_file {
        let refused = |error: String| TrustError::CaFile { path: path.display().to_string(), error };
        let certificates = CertificateDer::pem_file_iter(path)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| refused(error.to_string()))?;
        if certificates.is_empty() {
            return Err(refused("holds no certificate (PEM)".to_owned()));
        }
        for certificate in certificates {
            roots.add(certificate).map_err(|error| refused(error.to_string()))?;
        }
    }
    if roots.is_empty() && needs_trust {
        return Err(TrustError::None);
    }
    Ok(roots)
}

/// One client of object_store.
struct Service {
    wire: Wire,
}

impl fmt::Debug for Service {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Service")
    }
}

/// Nothing came within the limit.
#[derive(Debug, thiserror::Error)]
#[error("no answer within {} s", .0.as_secs())]
struct Silence(Duration);

#[async_trait]
impl HttpService for Service {
    async fn call(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let host = request.uri().authority().map(ToString::to_string).unwrap_or_default();
        let bytes = u64::try_from(request.body().content_length()).unwrap_or(u64::MAX);
        let limit = ANSWER_LIMIT + Duration::from_secs(bytes / SLOWEST_UPLOAD);
        request.headers_mut().insert(http::header::USER_AGENT, http::HeaderValue::from_static(USER_AGENT));
        let response = match timeout(limit, self.wire.request(request)).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => {
                Notes::note(Exchange::Silent { host, text: chain(&error) });
                return Err(HttpError::new(HttpErrorKind::Unknown, error));
            }
            Err(_) => {
                let error = Silence(limit);
                Notes::note(Exchange::Silent { host, text: error.to_string() });
                return Err(HttpError::new(HttpErrorKind::Timeout, error));
            }
        };
        let (head, body) = response.into_parts();
        if head.status.is_success() {
            Notes::note(Exchange::Answered(Answer::new(host, head.status, &head.headers, b"")));
            let body = body.map_err(|error| HttpError::new(HttpErrorKind::Interrupted, error));
            return Ok(HttpResponse::from_parts(head, HttpResponseBody::new(body)));
        }
        let text = error_body(body).await;
        Notes::note(Exchange::Answered(Answer::new(host, head.status, &head.headers, &text)));
        Ok(HttpResponse::from_parts(head, text.into()))
    }
}

/// What a store says about its refusal. Half of it is as good as none, so nothing here fails.
async fn error_body<B: BodyExt<Data = Bytes> + Unpin>(mut body: B) -> Bytes {
    let mut text = Vec::new();
    while text.len() < ERROR_BODY_BYTES {
        match timeout(BODY_LIMIT, body.frame()).await {
            Ok(Some(Ok(frame))) => text.extend_from_slice(frame.data_ref().map_or(&[], |data| data)),
            Ok(None | Some(Err(_))) | Err(_) => break,
        }
    }
    text.truncate(ERROR_BODY_BYTES);
    text.into()
}

/// An error and what stands behind it, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        let more = error.to_string();
        if !text.ends_with(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        next = error.source();
    }
    text
}
