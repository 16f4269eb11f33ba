//! The start of an epoch.

use dexzd_core::engine::{Engine, EngineConfig};
use dexzd_core::ids::Name;
use dexzd_core::log::{Origin, Outbox, Startup, StartupInput, StartupOptions, StartupOutput};
use dexzd_core::node::{Input, OpenLog};

use super::event::Event;
use super::log_io::LogKind;
use super::process::{DataAnswer, Plane, Serving, ToData};
use super::{NODE, ProductWorld};
use crate::TrueTime;
use crate::dice::Stream;
use crate::watch::ProcessNumber;

/// Closed runs are kept for longer than any simulated run.
const RETENTION_MS: u64 = 7 * 24 * 3_600 * 1_000;

impl ProductWorld {
    pub(super) fn open_log(&mut self, at: TrueTime, number: ProcessNumber, open: OpenLog) {
        let seed = self.dice.seed(Stream::Jitter(number), "startup");
        self.end_following(number);
        let process = &mut self.processes[usize::from(number)];
        let origin = Origin { node_id: Name::new(NODE), process_id: open.process_id, epoch: open.epoch };
        process.trimmed_below = open.trimmed_below;
        let local = process.local.borrow().end();
        let options = StartupOptions {
            origin: origin.clone(),
            lease_duration_ms: open.lease_duration.as_millis(),
            trimmed_below: open.trimmed_below,
            log_end: open.log_end,
            synced: true,
            local,
            seed,
        };
        let startup = Box::new(Startup::new(process.clocks.now(at), options));
        process.host(Plane::Starting { startup, origin });
    }

    pub(super) fn startup_input(&mut self, at: TrueTime, number: ProcessNumber, input: StartupInput) {
        self.trace.add(&input);
        let process = &mut self.processes[usize::from(number)];
        let now = process.clocks.now(at);
        if let Plane::Starting { startup, .. } = &mut process.plane {
            startup.handle(now, input);
        }
    }

    pub(super) fn startup_answer(&mut self, at: TrueTime, number: ProcessNumber, answer: DataAnswer) {
        let input = match answer {
            DataAnswer::Written { request, outcome } => StartupInput::Written { request, outcome },
            DataAnswer::Range { request, entries, then } => StartupInput::Read { request, entries, then },
            DataAnswer::Listed { request, outcome } => StartupInput::Listed { request, outcome },
            DataAnswer::Applied(position) => StartupInput::Applied { position },
            DataAnswer::LocalStore(end) => StartupInput::LocalStore { end },
            DataAnswer::ReplaceFailed(reason) => {
                self.processes[usize::from(number)].host(Plane::Idle);
                self.tell_node(at, number, Input::Failed(reason));
                return;
            }
        };
        self.startup_input(at, number, input);
    }

    pub(super) fn perform_startup(&mut self, at: TrueTime, number: ProcessNumber, output: StartupOutput) {
        let index = usize::from(number);
        let asker = self.processes[index].asker;
        match output {
            StartupOutput::Read { request, from, at_most, .. } => {
                self.ask_log(at, number, request, LogKind::Read { from, at_most });
            }
            StartupOutput::List { request, after } => {
                self.ask_log(at, number, request, LogKind::List { after });
            }
            StartupOutput::Write { request, position, entry } => {
                self.write_log(at, number, request, position, entry);
            }
            StartupOutput::Apply { end, changes } => {
                self.apply(at, number, end, changes);
                let applied = DataAnswer::Applied(end.position);
                self.tell_data(at, number, ToData::Answer(asker, applied));
            }
            StartupOutput::DiscardLocalStore(reason) => {
                self.trace.line(at, || format!("p{number} discards its local store: {reason:?}"));
                let trimmed_below = self.processes[index].trimmed_below;
                self.begin_bootstrap(at, number, trimmed_below);
            }
            StartupOutput::FenceAccepted { .. } => self.tell_node(at, number, Input::LogFenced),
            StartupOutput::LogShorter { known, found } => {
                self.trace.line(at, || format!("p{number} the log ends at {found}, not {known}"));
            }
            StartupOutput::EpochBehind { found, lease_duration_ms } => {
                self.trace.line(at, || format!("p{number} the log carries epoch {found}"));
                self.processes[index].host(Plane::Idle);
                self.tell_node(at, number, Input::EpochBehind { found, lease_duration_ms });
            }
            StartupOutput::Ready { end, newest_time, entries_applied } => {
                self.trace.line(at, || {
                    format!("p{number} is ready at {}, {entries_applied} entries applied", end.position)
                });
                let seed = self.dice.seed(Stream::Jitter(number), "engine");
                let Plane::Starting { origin, .. } = self.processes[index].host(Plane::Idle) else {
                    unreachable!("a start gave this output")
                };
                let keeper = self.new_keeper(at, number, origin.epoch, end);
                let process = &mut self.processes[index];
                let config =
                    EngineConfig { origin, log_end: end, newest_time, seed, retention_ms: RETENTION_MS };
                let mut outbox = Outbox::new();
                outbox.release(end.position).for_each(drop);
                process.host(Plane::Serving(Box::new(Serving {
                    engine: Engine::new(config, process.local.clone()),
                    outbox,
                    durable: end.position,
                    keeper,
                })));
                let life = process.life;
                self.heap.push(at, Event::Alive(number, life));
                self.show_local_state(at, number);
            }
            StartupOutput::Failed { reason, at: position, error } => {
                self.trace.line(at, || format!("p{number} cannot start: {reason} at {position} {error:?}"));
                self.tell_node(at, number, Input::Failed(reason));
            }
        }
    }
}
