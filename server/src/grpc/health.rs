//! The standard health service, with the names that follow the role (HA-64 to HA-66, HA-70, HA-74).

use std::pin::Pin;
use std::sync::Arc;

use dexzd_core::gate::GateView;
use tokio::sync::watch;
use tokio_stream::wrappers::WatchStream;
use tokio_stream::{Stream, StreamExt as _};
use tonic::{Request, Response, Status};
use tonic_health::ServingStatus;
use tonic_health::pb::health_server::Health;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use super::Backend;

/// The names that follow the role: the empty one is the process as a whole (HA-64).
const READINESS_NAMES: [&str; 3] = ["", "dex.FlowService", "dex.WorkerTaskService"];
/// SERVING only while a hot standby follows (HA-65); no such role exists yet, so never.
const HOT_STANDBY_NAME: &str = "dex.HotStandby";

/// What open Watch streams see: the role's word, which the end of a lease does not change (HA-74).
pub(crate) struct HealthNames {
    serving: watch::Sender<bool>,
}

impl HealthNames {
    pub(crate) fn new() -> Self {
        Self { serving: watch::Sender::new(false) }
    }

    /// The role changed.
    pub(crate) fn set_serving(&self, serving: bool) {
        self.serving.send_if_modified(|old| std::mem::replace(old, serving) != serving);
    }
}

/// Whether the readiness names are SERVING now. A lease that is in doubt still counts: it may well be
/// this process's own, and a probe would move the traffic away for one round trip.
pub(super) fn serves<B: Backend>(backend: &B) -> bool {
    backend.is_serving()
        && match backend.look() {
            GateView::Open | GateView::Doubt => true,
            GateView::Shut => false,
        }
}

/// `grpc.health.v1.Health`.
pub(super) struct HealthChecks<B> {
    backend: Arc<B>,
    names: Arc<HealthNames>,
}

impl<B: Backend> HealthChecks<B> {
    pub(super) const fn new(backend: Arc<B>, names: Arc<HealthNames>) -> Self {
        Self { backend, names }
    }
}

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status as i32 }
}

fn status(serving: bool) -> ServingStatus {
    if serving { ServingStatus::Serving } else { ServingStatus::NotServing }
}

#[tonic::async_trait]
impl<B: Backend> Health for HealthChecks<B> {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let service = request.into_inner().service;
        if READINESS_NAMES.contains(&&*service) {
            Ok(Response::new(response(status(serves(&*self.backend)))))
        } else if service == HOT_STANDBY_NAME {
            Ok(Response::new(response(ServingStatus::NotServing)))
        } else {
            Err(Status::not_found(format!(
                "service {service:?} is unknown; known are {READINESS_NAMES:?} and {HOT_STANDBY_NAME:?}"
            )))
        }
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let service = request.into_inner().service;
        let stream: Self::WatchStream = if READINESS_NAMES.contains(&&*service) {
            let changes = WatchStream::new(self.names.serving.subscribe());
            Box::pin(changes.map(|serving| Ok(response(status(serving)))))
        } else if service == HOT_STANDBY_NAME {
            once_then_silent(ServingStatus::NotServing)
        } else {
            once_then_silent(ServingStatus::Unknown)
        };
        Ok(Response::new(stream))
    }
}

/// A status that never changes, on a stream that stays open.
fn once_then_silent(
    status: ServingStatus,
) -> Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>> {
    let mut first = response(status);
    if status == ServingStatus::Unknown {
        // SERVICE_UNKNOWN is a value of the protocol that tonic-health's own enum does not name.
        first.status = tonic_health::pb::health_check_response::ServingStatus::ServiceUnknown.into();
    }
    Box::pin(tokio_stream::once(Ok(first)).chain(tokio_stream::pending()))
}
