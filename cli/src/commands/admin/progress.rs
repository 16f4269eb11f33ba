//! What a person sees who waits: a step down may take a minute, and most of it is somebody else's work.

use std::cell::Cell;
use std::time::Duration;

use dexzd_core::ids::{Epoch, Name};
use dexzd_proto::HealthRequest;
use indicatif::{ProgressBar, ProgressStyle};

use crate::connection::Connection;
use crate::output::Output;

/// How often the server is asked how far it is.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// A line on a terminal; nothing anywhere else.
pub(super) struct Progress {
    spinner: ProgressBar,
    /// The step-down call is under way: it is worth asking how far it is.
    is_stepping_down: Cell<bool>,
}

impl Progress {
    pub(super) fn new(output: &Output) -> Self {
        let spinner = output.spinner(String::new());
        let style = ProgressStyle::with_template("{spinner} {msg} ({elapsed})").expect("a template of ours");
        spinner.set_style(style);
        Self { spinner, is_stepping_down: Cell::new(false) }
    }

    pub(super) fn describing(&self, server: &str) {
        self.spinner.set_message(format!("asking {server} who serves"));
    }

    pub(super) fn stepping_down(&self, node_id: &Name, epoch: Epoch) {
        self.is_stepping_down.set(true);
        self.spinner.set_message(format!("asking node {node_id} to step down in epoch {epoch}"));
    }

    pub(super) fn end(&self) {
        self.spinner.finish_and_clear();
    }

    /// Shows how far the server is, until it is dropped.
    pub(super) async fn watch(&self, connection: Option<&Connection>) {
        let Some(connection) =
            connection.filter(|_| !self.spinner.is_hidden() && self.is_stepping_down.get())
        else {
            return std::future::pending().await;
        };
        loop {
            tokio::time::sleep(LOOK_INTERVAL).await;
            // A server that does not say keeps the words before.
            if let Ok(answer) = connection.flows().health(HealthRequest {}).await
                && let Some(words) = words(&answer.into_inner().role)
            {
                self.spinner.set_message(words);
            }
        }
    }
}

/// What a process in this role is doing for a step down.
pub(super) fn words(role: &str) -> Option<&'static str> {
    match role {
        "draining" => Some("draining: running attempts may finish"),
        "interrupting" => Some("draining: running attempts were asked to cancel"),
        "committing" | "closing" => Some("making the last results durable"),
        "releasing" => Some("releasing the lease"),
        "hold_off" => Some("released: waiting for another process to take over"),
        "waiting" => Some("nobody took over: this process takes the lease back"),
        _ => None,
    }
}
