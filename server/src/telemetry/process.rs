//! The process itself, as Linux tells it. Elsewhere these stay 0.

use std::fs;

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// The metrics of the operating system's view.
#[derive(Default)]
pub(super) struct ProcessMetrics {
    resident_memory_bytes: Gauge,
    threads: Gauge,
    open_files: Gauge,
    open_files_limit: Gauge,
}

impl ProcessMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "process_resident_memory_bytes",
            "Memory of this process that is in RAM",
            self.resident_memory_bytes.clone(),
        );
        registry.register("process_threads", "Threads of this process", self.threads.clone());
        registry.register(
            "process_open_files",
            "Open files and sockets of this process",
            self.open_files.clone(),
        );
        registry.register(
            "process_open_files_limit",
            "How many open files and sockets the operating system allows",
            self.open_files_limit.clone(),
        );
    }

    /// Before a page is written.
    pub(super) fn refresh(&self) {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        self.resident_memory_bytes.set(number_after(&status, "VmRSS:").saturating_mul(1_024));
        self.threads.set(number_after(&status, "Threads:"));
        let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
        self.open_files_limit.set(number_after(&limits, "Max open files"));
        let open = fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        self.open_files.set(i64::try_from(open).unwrap_or(i64::MAX));
    }
}

/// The first number of the line that begins so; 0 without one.
fn number_after(text: &str, begin: &str) -> i64 {
    let rest = text.lines().find_map(|line| line.strip_prefix(begin));
    rest.and_then(|rest| rest.split_whitespace().next()).and_then(|word| word.parse().ok()).unwrap_or(0)
}
