//! The gRPC services. Each method turns a message into a core call and its answer back; the one decision
//! taken here is whether an answer may still leave (D-47).

mod admin;
mod around;
mod backend;
mod flow;
mod health;
mod status;
mod worker;

use std::sync::Arc;

use axum::middleware::from_fn_with_state;
use dexzd_proto as proto;
use proto::admin_service_server::AdminServiceServer;
use proto::flow_service_server::FlowServiceServer;
use proto::worker_task_service_server::WorkerTaskServiceServer;
use tonic::service::Routes;
use tonic_health::pb::health_server::HealthServer;

use crate::telemetry::CallMetrics;

pub(crate) use backend::{Backend, FrameSink, View, WorkerConnection};
pub(crate) use health::Probes;

/// All services on one address.
///
/// # Errors
///
/// The compiled-in file descriptors cannot be read: a fault of the build.
pub(crate) fn routes<B: Backend>(
    backend: &Arc<B>,
    calls: &CallMetrics,
    probes: &Probes,
) -> Result<Routes, tonic_reflection::server::Error> {
    let flow = FlowServiceServer::new(flow::Flows::new(Arc::clone(backend)))
        .max_decoding_message_size(proto::MESSAGE_BYTES)
        .max_encoding_message_size(proto::MESSAGE_BYTES);
    let worker = WorkerTaskServiceServer::new(worker::Workers::new(Arc::clone(backend)))
        .max_decoding_message_size(proto::MESSAGE_BYTES)
        .max_encoding_message_size(proto::MESSAGE_BYTES);
    let health = HealthServer::new(health::HealthChecks::new(Arc::clone(backend), probes.clone()));
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(proto::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let admin = AdminServiceServer::new(admin::Admin::new(Arc::clone(backend)));
    let routes = Routes::new(flow)
        .add_service(worker)
        .add_service(admin)
        .add_service(health)
        .add_service(reflection().build_v1()?)
        .add_service(reflection().build_v1alpha()?);
    let around = from_fn_with_state(calls.clone(), around::around);
    Ok(routes.into_axum_router().layer(around).into())
}

#[cfg(test)]
mod admin_tests;
#[cfg(test)]
mod health_tests;
#[cfg(test)]
pub(crate) mod script;
#[cfg(test)]
mod tests;
