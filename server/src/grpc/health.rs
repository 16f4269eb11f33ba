//! The standard health service, with the names that follow the role (HA-64 to HA-66, HA-70, HA-74).
//!
//! A Check asks the gate too, since a lease ends by the mere passing of time; a Watch tells the role only, so that it
//! changes when something happens, and keeps its last status when a lease ends (HA-74).

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dexzd_core::gate::GateView;
use dexzd_core::node::{HOT_STANDBY_NAME, READINESS_NAMES};
use tokio_stream::wrappers::WatchStream;
use tokio_stream::{Stream, StreamExt as _};
use tonic::{Request, Response, Status};
use tonic_health::ServingStatus;
use tonic_health::pb::health_server::Health;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use super::Backend;
use super::backend::View;

/// Whether the readiness names are SERVING now. A lease that is in doubt still counts: it may well be
/// this process's own, and a probe would move the traffic away for one round trip.
pub(super) fn serves<B: Backend>(backend: &B) -> bool {
    let view = backend.present();
    view.role.is_serving()
        && match backend.look(view.period.number) {
            GateView::Open | GateView::Doubt => true,
            GateView::Shut => false,
        }
}

/// A name that probes ask for.
#[derive(Clone, Copy)]
enum Name {
    /// SERVING on the active only (HA-64).
    Readiness,
    /// SERVING while a hot standby is hot (HA-65).
    HotStandby,
}

impl Name {
    fn of(service: &str) -> Option<Self> {
        if READINESS_NAMES.contains(&service) {
            Some(Self::Readiness)
        } else if service == HOT_STANDBY_NAME {
            Some(Self::HotStandby)
        } else {
            None
        }
    }

    /// What the role says.
    const fn in_view(self, view: View) -> bool {
        match self {
            Self::Readiness => view.role.is_serving(),
            Self::HotStandby => view.is_hot_standby,
        }
    }
}

/// `grpc.health.v1.Health`.
pub(super) struct HealthChecks<B> {
    backend: Arc<B>,
    probes: Probes,
}

impl<B: Backend> HealthChecks<B> {
    pub(super) const fn new(backend: Arc<B>, probes: Probes) -> Self {
        Self { backend, probes }
    }
}

/// Whether Kubernetes was told that this process does not serve. Whoever ends it then deserves a hint (lesson F1): a
/// probe of life must not ask that.
#[derive(Clone, Default)]
pub(crate) struct Probes(Arc<AtomicBool>);

impl Probes {
    pub(crate) fn refused_kubernetes(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// As the kubelet introduces itself.
    fn is_kubernetes<T>(request: &Request<T>) -> bool {
        let agent = request.metadata().get("user-agent").and_then(|agent| agent.to_str().ok());
        agent.is_some_and(|agent| agent.starts_with("kube-probe/"))
    }
}

fn response(serving: bool) -> HealthCheckResponse {
    let status = if serving { ServingStatus::Serving } else { ServingStatus::NotServing };
    HealthCheckResponse { status: status as i32 }
}

#[tonic::async_trait]
impl<B: Backend> Health for HealthChecks<B> {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let is_kubernetes = Probes::is_kubernetes(&request);
        let service = request.into_inner().service;
        match Name::of(&service) {
            Some(Name::Readiness) => {
                let serving = serves(&*self.backend);
                if is_kubernetes && !serving {
                    self.probes.0.store(true, Ordering::Relaxed);
                }
                Ok(Response::new(response(serving)))
            }
            Some(name @ Name::HotStandby) => {
                Ok(Response::new(response(name.in_view(self.backend.present()))))
            }
            None => Err(Status::not_found(format!(
                "service {service:?} is unknown; known are {READINESS_NAMES:?} and {HOT_STANDBY_NAME:?}"
            ))),
        }
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let stream: Self::WatchStream = match Name::of(&request.into_inner().service) {
            Some(name) => {
                let mut told = None;
                let changes = WatchStream::new(self.backend.view()).filter_map(move |view| {
                    let serving = name.in_view(view);
                    (told.replace(serving) != Some(serving)).then(|| Ok(response(serving)))
                });
                Box::pin(changes)
            }
            None => unknown(),
        };
        Ok(Response::new(stream))
    }
}

/// The status of a name that nobody knows never changes, on a stream that stays open, as the protocol has it.
fn unknown() -> Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>> {
    // SERVICE_UNKNOWN is a value of the protocol that tonic-health's own enum does not name.
    let status = tonic_health::pb::health_check_response::ServingStatus::ServiceUnknown.into();
    let first = HealthCheckResponse { status };
    Box::pin(tokio_stream::once(Ok(first)).chain(tokio_stream::pending()))
}
