//! Starting threads, and what becomes of one that panics.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread;

use dexzd_core::node::Input as NodeInput;
use dexzd_core::stop::StopReason;

use super::event::{EventSink, ShellEvent};
use super::messages::ControlSender;

/// Starts a thread; the receiver gets what it returned, once. A panic stops the node: without this
/// thread the others would wait for ever.
pub(super) fn spawn<T: Send + 'static>(
    name: &'static str,
    guard: &PanicGuard,
    body: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<Receiver<T>> {
    let (ended, end) = mpsc::channel();
    let guard = guard.clone();
    thread::Builder::new().name(name.to_owned()).spawn(move || {
        match catch_unwind(AssertUnwindSafe(body)) {
            Ok(result) => {
                let _ = ended.send(result);
            }
            Err(panic) => {
                guard.events.shell(&ShellEvent::Failure { detail: panic_text(name, &*panic) });
                guard.control.send(NodeInput::Failed(StopReason::Internal));
            }
        }
    })?;
    Ok(end)
}

#[derive(Clone)]
pub(super) struct PanicGuard {
    pub(super) control: ControlSender,
    pub(super) events: Arc<dyn EventSink>,
}

/// What a panic says, for people.
pub(super) fn panic_text(thread: &str, panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned());
    format!("{thread} panicked: {}", text.as_deref().unwrap_or("no message"))
}
