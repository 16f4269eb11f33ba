//! Who may call what (operations.md 5, HA-87): one guard in front of all services.
//!
//! Two classes of credentials, which do not include one another:
//!
//! | what is called | needs |
//! | --- | --- |
//! | `grpc.health.v1.Health`, `dex.FlowService/Health` | nothing: probes and load balancers have no token |
//! | `dex.FlowService/GetServerInfo`, reflection | any credential: they tell nothing about Flows |
//! | `dex.FlowService`, `dex.WorkerTaskService` | a client credential |
//! | `dex.AdminService` | an admin credential |
//! | anything else | an admin credential, so that a service that is added here and forgotten there is shut |
//!
//! An admin credential alone opens no Flow: who may switch the node over needs to see nobody's data.

mod tokens;

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::header::AUTHORIZATION;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use dexzd_connection::token::TokenFileError;
use dexzd_proto as proto;
use prost::Message as _;
use tonic::service::Routes;
use tonic::{Code, Status};

use crate::config::Authentication;
use crate::connections::ConnectionInfo;
use crate::refusal::Refusal;
use tokens::TokenFile;

/// Files are looked at for change this often (operations.md 5: at most once a second).
pub(crate) const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// What a method needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Needs {
    Nothing,
    Any,
    Client,
    Admin,
}

/// Every service of this server. The tests compare them with the compiled-in descriptors.
const SERVICES: [(&str, Needs); 6] = [
    ("dex.FlowService", Needs::Client),
    ("dex.WorkerTaskService", Needs::Client),
    ("dex.AdminService", Needs::Admin),
    ("grpc.health.v1.Health", Needs::Nothing),
    ("grpc.reflection.v1.ServerReflection", Needs::Any),
    ("grpc.reflection.v1alpha.ServerReflection", Needs::Any),
];

/// Methods that need something else than their service.
const METHODS: [(&str, Needs); 2] =
    [("/dex.FlowService/Health", Needs::Nothing), ("/dex.FlowService/GetServerInfo", Needs::Any)];

fn needs(path: &str) -> Needs {
    if let Some((_, needs)) = METHODS.iter().find(|(method, _)| *method == path) {
        return *needs;
    }
    let service = path.strip_prefix('/').and_then(|path| path.split_once('/')).map(|(service, _)| service);
    let known = SERVICES.iter().find(|(name, _)| Some(*name) == service);
    known.map_or(Needs::Admin, |(_, needs)| *needs)
}

/// What opens this server, if it is not open to all; its files are looked after for as long as the runtime lives.
///
/// # Errors
/// A file that opens nothing.
pub(crate) fn start(config: Option<&Authentication>) -> Result<Option<Arc<Authenticator>>, Refusal> {
    let Some(config) = config else {
        return Ok(None);
    };
    let authenticator = Arc::new(Authenticator::load(config).map_err(Refusal::token_file)?);
    tokio::spawn(Arc::clone(&authenticator).keep_looking());
    Ok(Some(authenticator))
}

/// The credentials that open this server.
pub(crate) struct Authenticator {
    client: TokenFile,
    admin: Option<TokenFile>,
}

impl Authenticator {
    /// Reads the files.
    ///
    /// # Errors
    /// The key and the file that cannot be used: a process that would refuse every call does not start.
    pub(crate) fn load(config: &Authentication) -> Result<Self, (&'static str, TokenFileError)> {
        let load = |key: &'static str, path: &std::path::Path| {
            TokenFile::load(key, path.to_owned()).map_err(|error| (key, error))
        };
        let client = load("authentication.clientTokenFile", &config.client_token_file)?;
        let admin = config.admin_token_file.as_deref();
        let admin = admin.map(|path| load("authentication.adminTokenFile", path)).transpose()?;
        if admin.is_none() {
            tracing::info!("authentication.adminTokenFile is not set: nobody reaches AdminService");
        } else if admin.as_ref().is_some_and(|admin| admin.shares_with(&client)) {
            tracing::warn!(
                "a token stands both in authentication.clientTokenFile and in authentication.adminTokenFile: whoever has \
                 it may do everything"
            );
        }
        Ok(Self { client, admin })
    }

    /// Looks at the files for change. A file that cannot be used opens nothing until it is mended.
    pub(crate) fn look(&self) {
        self.client.look();
        if let Some(admin) = &self.admin {
            admin.look();
        }
    }

    /// Looks at the files once in every [`LOOK_INTERVAL`], for as long as the runtime lives.
    pub(crate) async fn keep_looking(self: Arc<Self>) {
        let mut interval = tokio::time::interval(LOOK_INTERVAL);
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            interval.tick().await;
            let this = Arc::clone(&self);
            // A file system that hangs holds up this look, and no call.
            if tokio::task::spawn_blocking(move || this.look()).await.is_err() {
                return;
            }
        }
    }

    fn admit(&self, path: &str, authorization: Option<&[u8]>) -> Result<(), Status> {
        let needs = needs(path);
        if needs == Needs::Nothing {
            return Ok(());
        }
        let Some(token) = authorization.and_then(bearer) else {
            return Err(refusal(
                Code::Unauthenticated,
                "a credential is needed: send `authorization: Bearer TOKEN` in the metadata of the call",
            ));
        };
        // Both are always compared, so that the time of a refusal tells nothing.
        let is_client = self.client.contains(token);
        let is_admin = self.admin.as_ref().is_some_and(|admin| admin.contains(token));
        let is_enough = match needs {
            Needs::Nothing => true,
            Needs::Any => is_client | is_admin,
            Needs::Client => is_client,
            Needs::Admin => is_admin,
        };
        match (is_enough, is_client | is_admin) {
            (true, _) => Ok(()),
            (false, false) => Err(refusal(
                Code::Unauthenticated,
                "the credential is not valid here; a server also refuses valid ones while its token file cannot be read",
            )),
            (false, true) if is_admin => Err(refusal(
                Code::PermissionDenied,
                "this needs a client credential, and the one that was sent is an admin credential",
            )),
            (false, true) => Err(refusal(
                Code::PermissionDenied,
                "this needs an admin credential, and the one that was sent is a client credential",
            )),
        }
    }
}

/// `Bearer` in any case, then the token.
fn bearer(header: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = header.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

fn refusal(code: Code, message: &str) -> Status {
    let detail = proto::ErrorDetail {
        sub_status: proto::SubStatus::Uncategorised.into(),
        ..proto::ErrorDetail::default()
    };
    Status::with_details(code, message, detail.encode_to_vec().into())
}

/// Puts the guard in front of every service, and of everything that is none. Each call is checked before its first
/// message is read, and so before anything else (D-20); a stream when it is opened.
pub(crate) fn guard(routes: Routes, authenticator: Option<Arc<Authenticator>>) -> Routes {
    match authenticator {
        None => routes,
        Some(authenticator) => {
            routes.into_axum_router().layer(from_fn_with_state(authenticator, check)).into()
        }
    }
}

async fn check(State(authenticator): State<Arc<Authenticator>>, request: Request, next: Next) -> Response {
    let authorization = request.headers().get(AUTHORIZATION).map(|value| value.as_bytes());
    match authenticator.admit(request.uri().path(), authorization) {
        Ok(()) => next.run(request).await,
        Err(status) => {
            let peer = request.extensions().get::<ConnectionInfo>().map(|connection| connection.peer);
            tracing::debug!(?peer, path = request.uri().path(), code = ?status.code(), "a call was refused");
            status.into_http()
        }
    }
}

#[cfg(test)]
mod tests;
