//! The guard in front of services that answer UNIMPLEMENTED to whatever it lets through.

use std::path::{Path, PathBuf};

use axum::body::Body;
use prost_types::FileDescriptorSet;
use tower::ServiceExt as _;

use super::*;

const CLIENT: &str = "client-token-0123";
const OTHER_CLIENT: &str = "client-token-4567";
const ADMIN: &str = "admin-token-89abc";

struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        let files = Self(tempfile::tempdir().expect("a temporary folder"));
        std::fs::write(files.client(), format!("# rotated on Mondays\n{CLIENT}\n {OTHER_CLIENT} \n"))
            .expect("writable");
        std::fs::write(files.admin(), ADMIN).expect("writable");
        files
    }

    fn client(&self) -> PathBuf {
        self.0.path().join("client-tokens")
    }

    fn admin(&self) -> PathBuf {
        self.0.path().join("admin-tokens")
    }

    fn load(&self) -> Arc<Authenticator> {
        let config =
            Authentication { client_token_file: self.client(), admin_token_file: Some(self.admin()) };
        Arc::new(Authenticator::load(&config).expect("both files are sound"))
    }
}

/// What the guard answers; UNIMPLEMENTED is what lies behind it.
async fn call(authenticator: &Arc<Authenticator>, path: &str, authorization: Option<&str>) -> Status {
    let routes = guard(Routes::default(), Some(Arc::clone(authenticator)));
    let mut request = Request::post(path).header("content-type", "application/grpc");
    if let Some(value) = authorization {
        request = request.header("authorization", value);
    }
    let request = request.body(Body::empty()).expect("a request");
    let response = routes.into_axum_router().oneshot(request).await.expect("infallible");
    Status::from_header_map(response.headers()).expect("a gRPC status")
}

async fn code(authenticator: &Arc<Authenticator>, path: &str, token: Option<&str>) -> Code {
    let authorization = token.map(|token| format!("Bearer {token}"));
    call(authenticator, path, authorization.as_deref()).await.code()
}

/// A service that nobody listed is shut for all but admins, and this test fails until it is listed.
#[test]
fn ha_087_every_service_that_reflection_knows_is_listed() {
    let sets = [
        proto::FILE_DESCRIPTOR_SET,
        tonic_health::pb::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
    ];
    let mut found = 0;
    for set in sets {
        for file in FileDescriptorSet::decode(set).expect("compiled in").file {
            for service in &file.service {
                let name = format!("{}.{}", file.package(), service.name());
                assert!(SERVICES.iter().any(|(known, _)| *known == name), "{name} is not listed");
                found += 1;
                for method in &service.method {
                    let path = format!("/{name}/{}", method.name());
                    assert_eq!(needs(&path) == Needs::Admin, name == "dex.AdminService", "{path}");
                }
            }
        }
    }
    assert!(found >= SERVICES.len() - 1, "{found}");
    for path in ["/dex.FlowServic/StartFlow", "/dex.NewService/Call", "/", "", "dex.FlowService/Health"] {
        assert_eq!(needs(path), Needs::Admin, "{path:?}");
    }
}

#[tokio::test]
async fn ha_087_each_class_opens_its_own_and_nothing_else() {
    use Code::{PermissionDenied as Denied, Unauthenticated as Unknown, Unimplemented as Passed};
    let authenticator = Files::new().load();
    // No token, an unknown one, a client's, an admin's.
    let table = [
        ("/dex.FlowService/StartFlow", [Unknown, Unknown, Passed, Denied]),
        ("/dex.WorkerTaskService/PollWorkerTask", [Unknown, Unknown, Passed, Denied]),
        ("/dex.AdminService/Describe", [Unknown, Unknown, Denied, Passed]),
        ("/dex.AdminService/StepDown", [Unknown, Unknown, Denied, Passed]),
        ("/dex.FlowService/GetServerInfo", [Unknown, Unknown, Passed, Passed]),
        ("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", [Unknown, Unknown, Passed, Passed]),
        ("/dex.FlowService/Health", [Passed, Passed, Passed, Passed]),
        ("/grpc.health.v1.Health/Check", [Passed, Passed, Passed, Passed]),
        ("/grpc.health.v1.Health/Watch", [Passed, Passed, Passed, Passed]),
        ("/dex.NoSuchService/Call", [Unknown, Unknown, Denied, Passed]),
    ];
    for (path, expected) in table {
        let tokens = [None, Some("unknown-token-0123"), Some(CLIENT), Some(ADMIN)];
        for (token, expected) in tokens.into_iter().zip(expected) {
            assert_eq!(code(&authenticator, path, token).await, expected, "{path} with {token:?}");
        }
    }
    assert_eq!(code(&authenticator, "/dex.FlowService/StartFlow", Some(OTHER_CLIENT)).await, Passed);
}

#[tokio::test]
async fn ha_087_without_an_admin_file_nobody_reaches_the_admin_service() {
    let files = Files::new();
    let config = Authentication { client_token_file: files.client(), admin_token_file: None };
    let authenticator = Arc::new(Authenticator::load(&config).expect("sound"));
    let path = "/dex.AdminService/StepDown";
    assert_eq!(code(&authenticator, path, Some(CLIENT)).await, Code::PermissionDenied);
    assert_eq!(code(&authenticator, path, Some(ADMIN)).await, Code::Unauthenticated);
}

#[tokio::test]
async fn only_bearer_and_the_whole_token_count() {
    let authenticator = Files::new().load();
    let path = "/dex.FlowService/StartFlow";
    let prefix = &CLIENT[..CLIENT.len() - 1];
    for (header, expected) in [
        (format!("Bearer {CLIENT}"), Code::Unimplemented),
        (format!("bearer   {CLIENT} "), Code::Unimplemented),
        (format!("Basic {CLIENT}"), Code::Unauthenticated),
        (CLIENT.to_owned(), Code::Unauthenticated),
        (format!("Bearer{CLIENT}"), Code::Unauthenticated),
        (format!("Bearer {prefix}"), Code::Unauthenticated),
        (format!("Bearer {CLIENT}x"), Code::Unauthenticated),
        ("Bearer ".to_owned(), Code::Unauthenticated),
        (String::new(), Code::Unauthenticated),
        ("Bearer # rotated on Mondays".to_owned(), Code::Unauthenticated),
    ] {
        assert_eq!(call(&authenticator, path, Some(&header)).await.code(), expected, "{header:?}");
    }
}

#[tokio::test]
async fn a_refusal_says_what_to_do_and_tells_nothing_about_tokens_or_files() {
    let files = Files::new();
    let authenticator = files.load();
    let path = "/dex.FlowService/StartFlow";
    let without = call(&authenticator, path, None).await;
    assert_eq!(
        without.message(),
        "a credential is needed: send `authorization: Bearer TOKEN` in the metadata of the call"
    );
    let detail = proto::ErrorDetail::decode(without.details()).expect("every error carries one");
    assert_eq!(detail.sub_status(), proto::SubStatus::Uncategorised);
    assert_eq!(
        call(&authenticator, path, Some("Bearer unknown-token-0123")).await.message(),
        "the credential is not valid here; a server also refuses valid ones while its token file cannot be read"
    );
    assert_eq!(
        call(&authenticator, path, Some(&format!("Bearer {ADMIN}"))).await.message(),
        "this needs a client credential, and the one that was sent is an admin credential"
    );
    assert_eq!(
        call(&authenticator, "/dex.AdminService/Describe", Some(&format!("Bearer {CLIENT}"))).await.message(),
        "this needs an admin credential, and the one that was sent is a client credential"
    );
}

fn write(path: &Path, contents: &str) {
    // Renamed into place, so that the file number changes even where two writes share a moment.
    let new = path.with_extension("new");
    std::fs::write(&new, contents).expect("writable");
    std::fs::rename(&new, path).expect("renamed");
}

#[tokio::test]
async fn tokens_are_rotated_without_a_restart() {
    let files = Files::new();
    let authenticator = files.load();
    let path = "/dex.FlowService/StartFlow";
    let fresh = "client-token-new1";
    assert_eq!(code(&authenticator, path, Some(fresh)).await, Code::Unauthenticated);

    write(&files.client(), &format!("{CLIENT}\n{fresh}\n"));
    authenticator.look();
    assert_eq!(code(&authenticator, path, Some(CLIENT)).await, Code::Unimplemented);
    assert_eq!(code(&authenticator, path, Some(fresh)).await, Code::Unimplemented);
    assert_eq!(code(&authenticator, path, Some(OTHER_CLIENT)).await, Code::Unauthenticated);

    write(&files.client(), fresh);
    authenticator.look();
    assert_eq!(code(&authenticator, path, Some(CLIENT)).await, Code::Unauthenticated);
    assert_eq!(code(&authenticator, path, Some(fresh)).await, Code::Unimplemented);
}

#[tokio::test]
async fn a_file_that_cannot_be_used_opens_nothing_until_it_is_mended() {
    let files = Files::new();
    let authenticator = files.load();
    let (flows, admin) = ("/dex.FlowService/StartFlow", "/dex.AdminService/Describe");
    for broken in ["", "# nothing\n", "short\n", &format!("{CLIENT}\nshort\n")] {
        write(&files.client(), broken);
        authenticator.look();
        assert_eq!(code(&authenticator, flows, Some(CLIENT)).await, Code::Unauthenticated, "{broken:?}");
        assert_eq!(code(&authenticator, admin, Some(ADMIN)).await, Code::Unimplemented, "{broken:?}");
        assert_eq!(code(&authenticator, "/grpc.health.v1.Health/Check", None).await, Code::Unimplemented);
    }
    std::fs::remove_file(files.client()).expect("it was there");
    authenticator.look();
    assert_eq!(code(&authenticator, flows, Some(CLIENT)).await, Code::Unauthenticated);

    write(&files.client(), CLIENT);
    authenticator.look();
    assert_eq!(code(&authenticator, flows, Some(CLIENT)).await, Code::Unimplemented);
}

#[test]
fn a_start_with_a_file_that_cannot_be_used_is_refused_by_key_and_file() {
    let files = Files::new();
    write(&files.admin(), "\n");
    let config = Authentication { client_token_file: files.client(), admin_token_file: Some(files.admin()) };
    let Err((key, error)) = Authenticator::load(&config) else { panic!("it was loaded") };
    assert_eq!(key, "authentication.adminTokenFile");
    assert_eq!(
        error.to_string(),
        format!("{}: it has no token: write one on a line of its own", files.admin().display())
    );
}

#[tokio::test]
async fn without_authentication_nothing_is_asked_for() {
    let routes = guard(Routes::default(), None);
    let request = Request::post("/dex.AdminService/StepDown").body(Body::empty()).expect("a request");
    let response = routes.into_axum_router().oneshot(request).await.expect("infallible");
    assert_eq!(Status::from_header_map(response.headers()).expect("a status").code(), Code::Unimplemented);
}
