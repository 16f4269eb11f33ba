//! The gRPC services. Each method turns a message into a core call and its answer back; the one decision
//! taken here is whether an answer may still leave (D-47).

mod backend;
mod flow;
mod health;
mod status;
mod worker;

use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderValue;
use axum::middleware::map_response;
use axum::response::Response;
use dexzd_proto as proto;
use proto::flow_service_server::FlowServiceServer;
use proto::worker_task_service_server::WorkerTaskServiceServer;
use tonic::Code;
use tonic::service::Routes;
use tonic_health::pb::health_server::HealthServer;

pub(crate) use backend::{Backend, FrameSink, WorkerConnection};
pub(crate) use health::HealthNames;

/// A silent connection is asked for a sign of life after so long. Worker streams have pings of their own;
/// this finds the dead clients of long polls.
pub(crate) const HTTP2_KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// A connection that does not answer for so long is closed.
pub(crate) const HTTP2_KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// Flow-control windows: large enough that one Worker stream is not held up by a round trip.
pub(crate) const STREAM_WINDOW_BYTES: u32 = 4 << 20;
/// The window of a whole connection.
pub(crate) const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;

/// All services on one address.
///
/// # Errors
///
/// The compiled-in file descriptors cannot be read: a fault of the build.
pub(crate) fn routes<B: Backend>(
    backend: &Arc<B>,
    names: &Arc<HealthNames>,
) -> Result<Routes, tonic_reflection::server::Error> {
    let flow = FlowServiceServer::new(flow::Flows::new(Arc::clone(backend)))
        .max_decoding_message_size(proto::MESSAGE_BYTES)
        .max_encoding_message_size(proto::MESSAGE_BYTES);
    let worker = WorkerTaskServiceServer::new(worker::Workers::new(Arc::clone(backend)))
        .max_decoding_message_size(proto::MESSAGE_BYTES)
        .max_encoding_message_size(proto::MESSAGE_BYTES);
    let health = HealthServer::new(health::HealthChecks::new(Arc::clone(backend), Arc::clone(names)));
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(proto::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let routes = Routes::new(flow)
        .add_service(worker)
        .add_service(health)
        .add_service(reflection().build_v1()?)
        .add_service(reflection().build_v1alpha()?);
    Ok(routes.into_axum_router().layer(map_response(too_large)).into())
}

/// A message above the limit is refused by tonic as OUT_OF_RANGE, before any service sees it. Like
/// everything else that is too big, it is RESOURCE_EXHAUSTED here; nothing of ours is OUT_OF_RANGE.
async fn too_large(mut response: Response) -> Response {
    const GRPC_STATUS: &str = "grpc-status";
    if response.headers().get(GRPC_STATUS) == Some(&header(Code::OutOfRange)) {
        response.headers_mut().insert(GRPC_STATUS, header(Code::ResourceExhausted));
    }
    response
}

/// A code as it travels.
fn header(code: Code) -> HeaderValue {
    HeaderValue::from(code as u16)
}

#[cfg(test)]
mod tests;
