//! Log lines and metrics about snapshots: those that are made, and those that are restored.

use dexzd_core::snapshot::{BootstrapEvent, KeeperEvent, KeeperTask, SnapshotProblem};
use dexzd_io_tokio::runtime::ShellEvent;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tracing::{error, info, warn};

use super::metrics::gauge;

/// What an operator watches: whether snapshots are made, and how far a restore is.
#[derive(Default)]
pub(super) struct SnapshotMetrics {
    made: Counter,
    position: Gauge,
    uploaded_bytes: Counter,
    objects_deleted: Counter,
    entries_deleted: Counter,
    retries: Counter,
    denials: Counter,
    restores: Counter,
    restore_bytes: Gauge,
    restore_of_bytes: Gauge,
    restore_unusable: Counter,
}

impl SnapshotMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("snapshots_made", "Snapshots that were read back", self.made.clone());
        registry.register(
            "snapshot_position",
            "The last log entry in the newest snapshot of this process",
            self.position.clone(),
        );
        registry.register(
            "snapshot_uploaded_bytes",
            "Bytes of files uploaded for snapshots that were read back",
            self.uploaded_bytes.clone(),
        );
        registry.register(
            "snapshot_objects_deleted",
            "Objects of older snapshots deleted",
            self.objects_deleted.clone(),
        );
        registry.register(
            "log_entries_deleted",
            "Log entries deleted below the trim bound",
            self.entries_deleted.clone(),
        );
        registry.register(
            "snapshot_retries",
            "Requests about snapshots that failed and are tried again",
            self.retries.clone(),
        );
        registry.register(
            "snapshot_denials",
            "Requests about snapshots that the store denied: somebody has to look",
            self.denials.clone(),
        );
        registry.register(
            "restores",
            "Times that a snapshot was chosen to take the place of the local store",
            self.restores.clone(),
        );
        registry.register(
            "restore_bytes",
            "Bytes of the chosen snapshot that are downloaded",
            self.restore_bytes.clone(),
        );
        registry.register(
            "restore_of_bytes",
            "Size of the chosen snapshot in bytes; 0 before the first restore",
            self.restore_of_bytes.clone(),
        );
        registry.register(
            "restore_unusable",
            "Snapshots that a restore could not use",
            self.restore_unusable.clone(),
        );
    }

    pub(super) fn shell(&self, event: &ShellEvent) {
        match event {
            ShellEvent::Snapshot(event) => self.keeper(event),
            ShellEvent::Restore(event) => self.restore(event),
            ShellEvent::RestoreProgress { done_bytes, .. } => {
                self.restore_bytes.set(gauge(*done_bytes));
            }
            ShellEvent::Committed { .. }
            | ShellEvent::LocalStoreFlushed { .. }
            | ShellEvent::LogTrimmed { .. }
            | ShellEvent::Workload(_)
            | ShellEvent::LockNotSupported { .. }
            | ShellEvent::RestoreUnfit { .. }
            | ShellEvent::LocalStoreBroken { .. }
            | ShellEvent::LeftoverDeleted { .. }
            | ShellEvent::Failure { .. } => {}
        }
    }

    fn keeper(&self, event: &KeeperEvent) {
        match event {
            KeeperEvent::Made { name, uploaded_bytes, .. } => {
                self.made.inc();
                self.position.set(gauge(name.position.0));
                self.uploaded_bytes.inc_by(*uploaded_bytes);
            }
            KeeperEvent::Retrying { denied: true, .. } => {
                self.denials.inc();
            }
            KeeperEvent::Retrying { denied: false, .. } => {
                self.retries.inc();
            }
            KeeperEvent::Cleaned { objects } => {
                self.objects_deleted.inc_by(*objects);
            }
            KeeperEvent::Trimmed { entries, .. } => {
                self.entries_deleted.inc_by(*entries);
            }
            KeeperEvent::Inherited(_) | KeeperEvent::Unusable { .. } | KeeperEvent::Abandoned(_) => {}
        }
    }

    fn restore(&self, event: &BootstrapEvent) {
        match event {
            BootstrapEvent::Chosen { bytes, .. } => {
                self.restores.inc();
                self.restore_bytes.set(0);
                self.restore_of_bytes.set(gauge(*bytes));
            }
            BootstrapEvent::Unusable { .. } => {
                self.restore_unusable.inc();
            }
            BootstrapEvent::Retrying | BootstrapEvent::Nothing => {}
        }
    }
}

pub(super) fn keeper(event: &KeeperEvent) {
    match event {
        KeeperEvent::Inherited(name) => {
            info!(snapshot = %name, "the newest whole snapshot: its files are used again")
        }
        KeeperEvent::Unusable { name, error: Some(why) } => {
            warn!(snapshot = %name, "a snapshot cannot be used: {why}");
        }
        KeeperEvent::Unusable { name, error: None } => {
            warn!(snapshot = %name, "a snapshot cannot be used: it, or a file of it, is missing");
        }
        KeeperEvent::Made { name, files, uploaded_bytes, took_ms } => {
            info!(snapshot = %name, files, uploaded_bytes, took_ms, "snapshot made and read back");
        }
        KeeperEvent::Abandoned(name) => {
            warn!(snapshot = %name, "another object stands under the name of this snapshot: it does not count");
        }
        KeeperEvent::Retrying { task, denied: false } => {
            warn!(task = task_label(*task), "a request about snapshots failed and is tried again");
        }
        KeeperEvent::Retrying { task, denied: true } => error!(
            task = task_label(*task),
            "the store denies a request about snapshots: nothing is trimmed meanwhile; check the credentials' \
             permissions to read, write, list and delete below the prefix"
        ),
        KeeperEvent::Cleaned { objects } => info!(objects, "objects of older snapshots deleted"),
        KeeperEvent::Trimmed { entries, below } => info!(entries, below = below.0, "log trimmed"),
    }
}

const fn task_label(task: KeeperTask) -> &'static str {
    match task {
        KeeperTask::Survey => "survey",
        KeeperTask::Upload => "upload",
        KeeperTask::Manifest => "manifest",
        KeeperTask::Cleaning => "cleaning",
        KeeperTask::Trimming => "trimming",
    }
}

pub(super) fn restore(event: &BootstrapEvent) {
    match event {
        BootstrapEvent::Chosen { name, bytes } => info!(snapshot = %name, bytes, "restoring a snapshot"),
        BootstrapEvent::Unusable { name, problem } => {
            let why = match problem {
                SnapshotProblem::ManifestMissing => "its manifest is gone".to_owned(),
                SnapshotProblem::Manifest(why) => why.to_string(),
                SnapshotProblem::FileMissing(file) => format!("file {file} is gone"),
                SnapshotProblem::FileDiffers(file) => {
                    format!("file {file} has another size or content than the manifest says")
                }
                SnapshotProblem::DoesNotOpen => {
                    "what it makes is not the local store it should be".to_owned()
                }
            };
            warn!(snapshot = %name, "a snapshot cannot be used: {why}; another one is tried");
        }
        BootstrapEvent::Retrying => warn!("a request about snapshots failed and is tried again"),
        BootstrapEvent::Nothing => info!("no snapshot can be used: the local store begins empty"),
    }
}

pub(super) fn progress(done_bytes: u64, of_bytes: u64) {
    info!(done_bytes, of_bytes, "restoring a snapshot");
}
