//! Log lines, made from typed events. Names and numbers only: never a value of an application.

use dexzd_core::engine::EngineEvent;
use dexzd_core::lease::{CandidateEvent, HolderEvent, ReleaseOutcome};
use dexzd_core::node::{NodeEvent, Role};
use dexzd_core::stop::StopReason;
use dexzd_io_tokio::runtime::ShellEvent;
use tracing::{debug, error, info, warn};

use super::snapshots;
use crate::page::page_of;

pub(super) fn engine(event: &EngineEvent) {
    match event {
        EngineEvent::FlowStarted { flow_type } => debug!(%flow_type, "flow started"),
        EngineEvent::FlowClosed { flow_type, status } => debug!(%flow_type, ?status, "flow closed"),
        EngineEvent::AttemptStarted { step_type } => debug!(%step_type, "attempt handed out"),
        EngineEvent::AttemptEnded { step_type, outcome } => debug!(%step_type, ?outcome, "attempt ended"),
        EngineEvent::TimersFired { count } => debug!(count, "timers fired"),
        EngineEvent::WorkerConnected { worker, slots } => info!(%worker, slots, "worker connected"),
        EngineEvent::WorkerDisconnected { worker, lost_attempts: 0 } => {
            info!(%worker, "worker disconnected");
        }
        EngineEvent::WorkerDisconnected { worker, lost_attempts } => {
            warn!(%worker, lost_attempts, "worker disconnected while it was running attempts: they are retried");
        }
        EngineEvent::Recovered { failed_attempts, queued_steps } => {
            info!(failed_attempts, queued_steps, "recovered");
        }
        EngineEvent::DamagedRecord { key, detail } => {
            error!(%key, %detail, see = page_of("damaged_record"), "a record cannot be read: its run is left alone");
        }
    }
}

pub(super) fn node(event: &NodeEvent) {
    match event {
        NodeEvent::RoleChanged { role, epoch, period: _ } => {
            let epoch = epoch.map(|epoch| epoch.0);
            info!(role = role.label(), epoch, "{}", words(*role));
        }
        NodeEvent::Candidate(event) => candidate(event),
        NodeEvent::Holder(event) => holder(event),
        NodeEvent::ReleaseEnded(outcome) => match outcome {
            ReleaseOutcome::Released => info!("the lease is released"),
            ReleaseOutcome::TakenOver { holder, epoch } => {
                info!(%holder, epoch = epoch.0, "another process holds the lease already");
            }
            ReleaseOutcome::Unconfirmed => {
                warn!("the release is not confirmed: the next process may have to wait for the expiry");
            }
            ReleaseOutcome::Failed(reason) => {
                warn!(%reason, "the release failed: the next process has to wait for the expiry");
            }
        },
        NodeEvent::SteppingDown { epoch } => info!(epoch = epoch.0, "stepping down, as asked"),
        NodeEvent::SteppedDown(outcome) => info!(?outcome, "stepped down"),
        NodeEvent::Follower(state) => info!(state = state.label(), "the hot standby changed its state"),
        NodeEvent::Stopping { reason: StopReason::Shutdown } => info!("stopping, as asked"),
        NodeEvent::Stopping { reason } => {
            error!(reason = reason.label(), see = page_of(reason.label()), "stopping: {reason}");
        }
    }
}

/// What a process in this role does, for people.
const fn words(role: Role) -> &'static str {
    match role {
        Role::Waiting => "waiting for the lease",
        Role::Withdrawing => {
            "shutting down: nothing is held; waiting for the outcome of the last lease write"
        }
        Role::Opening => "the lease is taken: reading the log to its end",
        Role::Outwaiting => "the log carries a higher epoch: waiting until whoever wrote it is gone",
        Role::Raising => "raising the epoch above the one in the log",
        Role::Confirming => "the log is fenced: proving the lease once more",
        Role::Recovering => "recovering what earlier epochs left running",
        Role::Active => "now active: calls are answered",
        Role::Draining => "draining: running attempts may finish, none is handed out",
        Role::Interrupting => "draining: running attempts were asked to cancel",
        Role::Committing => "making the last results durable: new calls are refused",
        Role::Closing => "closing calls and streams",
        Role::Abandoning => "shutting down before having served",
        Role::Releasing => "releasing the lease: nothing is answered any more",
        Role::HoldOff => "stepped down: not competing for the lease for now",
        Role::Stopped => "ending",
    }
}

fn candidate(event: &CandidateEvent) {
    match event {
        CandidateEvent::Waiting { holder, epoch, longest_wait_ms } => info!(
            %holder,
            epoch = epoch.0,
            longest_wait_ms,
            "another process holds the lease: waiting for its release or its expiry"
        ),
        CandidateEvent::WaitingForMissing { longest_wait_ms } => warn!(
            longest_wait_ms,
            "the lease object is missing beside a log: waiting as long as a holder could still live"
        ),
        CandidateEvent::WaitingForUnreadable(why) => error!(
            ?why,
            see = page_of("lease_unreadable"),
            "the lease object cannot be read: waiting for as long as it stays so"
        ),
        CandidateEvent::LostRace => info!("another candidate was faster"),
        CandidateEvent::TakeoverFailed { retry_after_ms } => {
            warn!(retry_after_ms, "taking the lease failed");
        }
    }
}

fn holder(event: &HolderEvent) {
    match event {
        HolderEvent::Renewed { took_ms } => debug!(took_ms, "lease renewed"),
        HolderEvent::Adopted { took_ms } => {
            warn!(took_ms, "a renewal that had been given up turned out to have landed");
        }
        HolderEvent::TryFailed { left_ms } => warn!(left_ms, "a try to renew the lease failed"),
        HolderEvent::DoubtBegan => {
            warn!("the wall clock jumped forward: nothing leaves until the lease is renewed");
        }
        HolderEvent::DoubtEnded => info!("the lease is proven again"),
    }
}

pub(super) fn shell(event: &ShellEvent) {
    match event {
        ShellEvent::LockNotSupported { reason } => warn!(
            reason,
            see = page_of("lock_not_supported"),
            "the data directory cannot be locked: after a crash this process waits for the lease to expire (HA-7)"
        ),
        ShellEvent::Committed { position, bytes, took } => {
            debug!(position = position.0, bytes, ?took, "entry durable");
        }
        ShellEvent::LocalStoreFlushed { position, took } => {
            debug!(position = position.0, ?took, "local store flushed");
        }
        ShellEvent::LogTrimmed { below, deleted } => info!(below = below.0, deleted, "log trimmed"),
        ShellEvent::Workload(_) => {}
        ShellEvent::Snapshot(event) => snapshots::keeper(event),
        ShellEvent::Restore(event) => snapshots::restore(event),
        ShellEvent::RestoreProgress { done_bytes, of_bytes } => snapshots::progress(*done_bytes, *of_bytes),
        ShellEvent::RestoreUnfit { detail } => warn!("a restored snapshot is not used: {detail}"),
        ShellEvent::LocalStoreBroken { detail } => {
            warn!("the local store is deleted, and a snapshot and the log fill a new one: {detail}");
        }
        ShellEvent::LeftoverDeleted { folder } => {
            info!(folder = %folder.display(), "what an interrupted restore or snapshot left was deleted");
        }
        ShellEvent::Failure { detail } => error!("{detail}"),
    }
}
