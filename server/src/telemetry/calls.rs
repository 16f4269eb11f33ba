//! Calls of every gRPC method.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use prost::Message as _;
use prost_types::FileDescriptorSet;
use tonic::Code;

/// Stands for what no service of ours offers: a caller chooses its paths freely.
const OTHER: &str = "(other)";

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct CallLabels {
    method: &'static str,
    code: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct MethodLabels {
    method: &'static str,
}

/// The metrics of calls. A clone counts into the same series.
#[derive(Clone)]
pub(crate) struct CallMetrics(Arc<Inner>);

struct Inner {
    /// Paths of methods, and their labels.
    methods: BTreeMap<String, &'static str>,
    calls: Family<CallLabels, Counter>,
    seconds: Family<MethodLabels, Histogram, fn() -> Histogram>,
}

/// From half a millisecond to about 16 s: long polls are calls too.
fn duration() -> Histogram {
    Histogram::new(exponential_buckets(0.0005, 2.0, 16))
}

impl CallMetrics {
    pub(super) fn new() -> Self {
        let sets = [dexzd_proto::FILE_DESCRIPTOR_SET, tonic_health::pb::FILE_DESCRIPTOR_SET];
        Self(Arc::new(Inner {
            methods: sets.into_iter().flat_map(methods_of).collect(),
            calls: Family::default(),
            seconds: Family::new_with_constructor(duration),
        }))
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "calls",
            "Calls answered, by method and gRPC code; a stream counts once, when it is opened",
            self.0.calls.clone(),
        );
        registry.register(
            "call_seconds",
            "From the arrival of a call to its answer, the time of a long poll included",
            self.0.seconds.clone(),
        );
    }

    /// A call of this path was answered.
    pub(crate) fn answered(&self, path: &str, code: Code, took: Duration) {
        let method = self.0.methods.get(path).copied().unwrap_or(OTHER);
        self.0.calls.get_or_create(&CallLabels { method, code: code_label(code) }).inc();
        self.0.seconds.get_or_create(&MethodLabels { method }).observe(took.as_secs_f64());
    }
}

/// `/dex.FlowService/StartFlow` and `FlowService.StartFlow`, for every method of a descriptor set. The labels live as
/// long as the process does.
fn methods_of(descriptors: &[u8]) -> Vec<(String, &'static str)> {
    let set = FileDescriptorSet::decode(descriptors).expect("the descriptors are compiled in");
    let mut methods = Vec::new();
    for file in &set.file {
        for service in &file.service {
            for method in &service.method {
                let path = format!("/{}.{}/{}", file.package(), service.name(), method.name());
                let label = format!("{}.{}", service.name(), method.name());
                methods.push((path, &*label.leak()));
            }
        }
    }
    methods
}

fn code_label(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}
