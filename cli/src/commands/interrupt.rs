//! Ctrl+C, and SIGTERM, which means the same.

use tokio::signal::unix::{SignalKind, signal};

/// Returns once the person, or a supervisor, wants this command to end.
pub(super) async fn interrupted() {
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        let _ = tokio::signal::ctrl_c().await;
        return;
    };
    tokio::select! {
        biased;
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
}
