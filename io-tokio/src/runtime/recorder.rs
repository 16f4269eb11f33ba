//! Remembers the first failure's detail on its way to the sink, for the last line on stderr (D-32).

use std::sync::{Arc, Mutex, PoisonError};

use dexzd_core::engine::EngineEvent;
use dexzd_core::node::NodeEvent;

use super::event::{EventSink, ShellEvent};

pub(super) struct FailureRecorder {
    inner: Arc<dyn EventSink>,
    first: Mutex<Option<String>>,
}

impl FailureRecorder {
    pub(super) fn new(inner: Arc<dyn EventSink>) -> Self {
        Self { inner, first: Mutex::new(None) }
    }

    pub(super) fn first_failure(&self) -> Option<String> {
        self.first.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl EventSink for FailureRecorder {
    fn engine(&self, event: &EngineEvent) {
        self.inner.engine(event);
    }

    fn node(&self, event: &NodeEvent) {
        self.inner.node(event);
    }

    fn shell(&self, event: &ShellEvent) {
        if let ShellEvent::Failure { detail } = event {
            self.first.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| detail.clone());
        }
        self.inner.shell(event);
    }
}
