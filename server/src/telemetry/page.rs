//! `/metrics` over HTTP.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;

use super::Metrics;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Serves until the process ends.
pub(crate) async fn serve(listener: TcpListener, metrics: Arc<Metrics>) {
    let router = Router::new().route("/metrics", get(page)).with_state(metrics);
    // axum never returns: it retries after errors of the listener.
    let _ = axum::serve(listener, router).await;
}

async fn page(State(metrics): State<Arc<Metrics>>) -> Response {
    ([(CONTENT_TYPE, OPEN_METRICS)], metrics.text()).into_response()
}
