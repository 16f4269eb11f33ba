//! One Worker stream: tasks in, results out, from the hello until either side ends it.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use dexzd_proto as proto;
use proto::server_frame::Kind as ServerKind;
use proto::worker_frame::{Kind, Pong, StopTaking};
use tokio::task::AbortHandle;
use tokio::time::{Duration, Instant};
use tonic::{Status, Streaming};

use crate::address::describe;
use crate::cancel::{CancelReason, Cancellation};
use crate::worker::Registry;
use crate::worker::call::Call;
use crate::worker::frames::FrameSender;

/// After the cancel request of a drain a result still counts for so long (D-21).
const DRAIN_GRACE: Duration = Duration::from_secs(5);
/// The server ends a stream that the Worker has finished within so long, or the Worker does.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// A server that has sent nothing for so long, and was sent nothing either, does not do its work any more: it would
/// have sent three pings (D-21). The connection's own pings find a process that is frozen or gone, sooner; this finds
/// one that only answers those (lesson F4).
pub const SILENCE_LIMIT: Duration = Duration::from_secs(15);

/// How a stream ended.
#[derive(Debug)]
pub(crate) enum SessionEnd {
    /// The Worker was asked to stop, and has.
    Stopped,
    /// The server or the network ended it.
    Lost(String),
    /// The server refused the hello: it will refuse the next one, too.
    Refused(String),
}

/// One open stream.
pub(crate) struct Session {
    registry: Arc<Registry>,
    frames: FrameSender,
    running: HashMap<(u64, u64), Running>,
    stage: Stage,
    /// Whether the server has sent anything.
    is_accepted: bool,
    /// When it last did.
    last_heard: Instant,
}

/// A task whose result has not been settled.
struct Running {
    cancellation: Arc<Cancellation>,
    handler: AbortHandle,
}

enum Stage {
    Taking,
    Draining { until: Instant },
    Cancelling { until: Instant },
}

impl Session {
    pub(crate) fn new(registry: Arc<Registry>, frames: FrameSender) -> Self {
        Self {
            registry,
            frames,
            running: HashMap::new(),
            stage: Stage::Taking,
            is_accepted: false,
            last_heard: Instant::now(),
        }
    }

    /// Serves the stream. `shutdown` is not polled again once it has ended.
    pub(crate) async fn serve(
        &mut self,
        mut inbound: Streaming<proto::ServerBatch>,
        mut shutdown: Pin<&mut impl Future<Output = ()>>,
        drain_timeout: Duration,
    ) -> SessionEnd {
        // Set again only when it is due: a busy stream costs no timers.
        let mut silence = std::pin::pin!(tokio::time::sleep_until(self.silent_at()));
        loop {
            let until = match self.stage {
                Stage::Taking => None,
                Stage::Draining { .. } | Stage::Cancelling { .. } if self.running.is_empty() => {
                    self.close(inbound).await;
                    return SessionEnd::Stopped;
                }
                Stage::Draining { until } | Stage::Cancelling { until } => Some(until),
            };
            tokio::select! {
                batch = inbound.message() => {
                    self.last_heard = Instant::now();
                    if let Err(end) = self.on_message(batch) {
                        return end;
                    }
                }
                () = silence.as_mut() => {
                    let at = self.silent_at();
                    if Instant::now() >= at {
                        return SessionEnd::Lost(format!("the server was silent for {SILENCE_LIMIT:?}"));
                    }
                    silence.as_mut().reset(at);
                }
                () = shutdown.as_mut(), if until.is_none() => {
                    tracing::info!(running = self.running.len(), "the Worker stops: no new task");
                    self.frames.send(Kind::StopTaking(StopTaking {}));
                    self.stage = Stage::Draining { until: Instant::now() + drain_timeout };
                }
                () = sleep_until(until), if until.is_some() => match self.stage {
                    Stage::Taking => {}
                    Stage::Draining { .. } => {
                        tracing::warn!(running = self.running.len(), "the drain is over: cancelling what still runs");
                        for running in self.running.values() {
                            running.cancellation.cancel(CancelReason::WorkerStopping);
                        }
                        self.stage = Stage::Cancelling { until: Instant::now() + DRAIN_GRACE };
                    }
                    Stage::Cancelling { .. } => {
                        tracing::warn!(running = self.running.len(), "leaving tasks unfinished: others will repeat them");
                        self.abort_all();
                    }
                }
            }
        }
    }

    /// When the silence is too long. The server pings a Worker that it does not hear, so that its silence counts from
    /// this side's last frame on.
    fn silent_at(&self) -> Instant {
        self.last_heard.max(self.frames.last_left()) + SILENCE_LIMIT
    }

    /// Whether the Worker has been asked to stop.
    pub(crate) fn is_stopping(&self) -> bool {
        match self.stage {
            Stage::Taking => false,
            Stage::Draining { .. } | Stage::Cancelling { .. } => true,
        }
    }

    /// The stream is lost: handlers go on, and their results go nowhere (FD-9). They are returned so that
    /// the Worker can end them when it ends itself.
    pub(crate) fn orphan(self) -> impl Iterator<Item = AbortHandle> {
        self.running.into_values().map(|running| {
            running.cancellation.cancel(CancelReason::StreamLost);
            running.handler
        })
    }

    fn on_message(&mut self, batch: Result<Option<proto::ServerBatch>, Status>) -> Result<(), SessionEnd> {
        match batch {
            Ok(Some(batch)) => batch.frames.into_iter().try_for_each(|frame| self.on_frame(frame)),
            Ok(None) => Err(SessionEnd::Lost("the server ended the stream".to_owned())),
            Err(status) => Err(SessionEnd::Lost(describe(&status))),
        }
    }

    fn on_frame(&mut self, frame: proto::ServerFrame) -> Result<(), SessionEnd> {
        match frame.kind {
            Some(ServerKind::Task(task)) => self.on_task(task),
            Some(ServerKind::Cancel(cancel)) => {
                let reason = CancelReason::from(cancel.reason());
                self.on_cancel(cancel.handout, reason);
            }
            Some(ServerKind::Settled(settled)) => {
                if !settled.accepted {
                    tracing::debug!(?settled.handout, "a result came too late and was dropped");
                }
                self.running.remove(&handout_key(settled.handout));
            }
            Some(ServerKind::Ping(_)) => self.frames.send(Kind::Pong(Pong {})),
            Some(ServerKind::Refused(why)) => {
                return Err(match self.is_accepted {
                    true => SessionEnd::Lost(format!("the server refused a frame: {why}")),
                    false => SessionEnd::Refused(why),
                });
            }
            None => {
                tracing::debug!("the server sent a kind of frame that this version does not know")
            }
        }
        self.is_accepted = true;
        Ok(())
    }

    fn on_task(&mut self, task: Box<proto::Task>) {
        let Some(handout) = task.handout else {
            tracing::warn!(flow_id = %task.flow_id, "the server sent a task without a hand-out id");
            return;
        };
        if self.is_stopping() {
            self.frames.send(Kind::ReturnUnused(handout));
            return;
        }
        let step_type = task.step.as_ref().map_or("", |step| step.step_type.as_str());
        let found = self.registry.flow(&task.flow_type).and_then(|flow| Some((flow, flow.step(step_type)?)));
        let Some((flow, step)) = found else {
            tracing::debug!(flow_type = %task.flow_type, step_type, "declining: this Worker has no such Step");
            self.frames.send(Kind::Decline(handout));
            return;
        };
        let cancellation = Arc::new(Cancellation::default());
        let call = Call {
            flow: flow.clone(),
            handler: step.handler.clone(),
            cancellation: cancellation.clone(),
            frames: self.frames.clone(),
            task,
        };
        let handler = tokio::spawn(call.run()).abort_handle();
        self.running.insert((handout.epoch, handout.counter), Running { cancellation, handler });
    }

    fn on_cancel(&mut self, handout: Option<proto::HandoutId>, reason: CancelReason) {
        let key = handout_key(handout);
        if let Some(running) = self.running.get(&key) {
            running.cancellation.cancel(reason);
            if !reason.accepts_result() {
                self.running.remove(&key);
            }
        }
    }

    fn abort_all(&mut self) {
        for (_, running) in self.running.drain() {
            running.handler.abort();
        }
    }

    async fn close(&self, mut inbound: Streaming<proto::ServerBatch>) {
        self.frames.finish();
        let ended = async { while let Ok(Some(_)) = inbound.message().await {} };
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, ended).await;
    }
}

fn handout_key(handout: Option<proto::HandoutId>) -> (u64, u64) {
    handout.map_or((0, 0), |handout| (handout.epoch, handout.counter))
}

async fn sleep_until(until: Option<Instant>) {
    match until {
        Some(until) => tokio::time::sleep_until(until).await,
        None => std::future::pending().await,
    }
}
