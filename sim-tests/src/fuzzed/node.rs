//! The control plane under any sequence of inputs, plausible or not.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dexzd_core::engine::NodeReport;
use dexzd_core::gate::GateOrder;
use dexzd_core::ids::{Blob, CallId, Epoch, Name, Position, ProcessId, RequestId};
use dexzd_core::lease::{
    CandidateConfig, LeaseDuration, LeaseInput, LeaseOperation, LeaseRecord, LeaseState, Look, Nonce, Survey,
};
use dexzd_core::node::{AdminRequest, Input, Node, NodeConfig, Output, Period};
use dexzd_core::standby::{FollowerReport, FollowerState, StandbyConfig};
use dexzd_core::stop::StopReason;
use dexzd_core::store::{ReadOutcome, Version, WriteOutcome};
use dexzd_core::time::{Instant, Now, SlowInstant, Timestamp};

use super::feed::Feed;

const ME: ProcessId = ProcessId(1);
const OTHER: ProcessId = ProcessId(2);
/// A drain that gives more than this is a loop.
const MOST_OUTPUTS: usize = 1_000;
/// A timer that is due again so often without time passing is a loop.
const MOST_TICKS: usize = 100;

/// Rules: no panic; drains and timers come to an end; requests are numbered anew; epochs never fall; a gate
/// that was closed stays closed until the log is opened anew; a call is answered once; nothing follows the
/// exit.
pub fn node_inputs(bytes: &[u8]) {
    let mut feed = Feed::new(bytes);
    let mut world = World::new(&mut feed);
    world.drain();
    while !feed.is_empty() && !world.exited {
        let input = world.next(&mut feed);
        world.handle(input);
    }
}

struct World {
    node: Node,
    micros: u64,
    slow_lag: u64,
    wall_jump: u64,
    entropy: u64,
    version: u64,
    lease: Option<Blob>,
    requests: Vec<(RequestId, Option<LeaseOperation>)>,
    seen_requests: BTreeSet<RequestId>,
    epoch: Epoch,
    gate_closed: bool,
    calls: BTreeMap<CallId, bool>,
    exited: bool,
}

impl World {
    fn new(feed: &mut Feed<'_>) -> Self {
        let config = NodeConfig {
            node_id: Name::new("n"),
            process_id: ME,
            lease_duration: LeaseDuration::from_millis(3_000 + 7_000 * u64::from(feed.below(2)))
                .expect("3 s and 10 s are legal"),
            candidate: CandidateConfig {
                fail_if_held: feed.below(4) == 1,
                lock_held: feed.below(4) == 1,
                probe_stamp_ms: feed.maybe(Feed::millis),
            },
            standby: if feed.flag() {
                StandbyConfig::hot()
            } else {
                StandbyConfig::cold(Duration::from_secs(5))
            },
            attempt_drain_timeout: Duration::from_millis(feed.millis()),
            seed: feed.number(),
        };
        let lease = feed.maybe(|feed| record(feed).encode());
        Self {
            node: Node::new(config),
            micros: 1_000_000,
            slow_lag: 0,
            wall_jump: 0,
            entropy: 0,
            version: u64::from(lease.is_some()),
            lease,
            requests: Vec::new(),
            seen_requests: BTreeSet::new(),
            epoch: Epoch(0),
            gate_closed: false,
            calls: BTreeMap::new(),
            exited: false,
        }
    }

    fn next(&mut self, feed: &mut Feed<'_>) -> Input {
        match feed.below(24) {
            0..=3 => {
                if let Some((at, _)) = self.node.poll_timeout() {
                    // Watches may wait for ever; a clock does not.
                    self.micros = self.micros.max(at.as_micros().min(self.micros + 100_000_000_000));
                }
                Input::Tick
            }
            4 => {
                self.micros += feed.millis() * 1_000;
                Input::Tick
            }
            5 => {
                let micros = feed.millis() * 1_000;
                self.micros += micros;
                self.slow_lag += micros;
                Input::Tick
            }
            6 => {
                self.wall_jump += feed.millis() * 1_000;
                let seen_at = Instant::from_micros(self.micros);
                if feed.below(2) == 0 { Input::Tick } else { Input::GateJumped(seen_at) }
            }
            7..=11 => self.answer(feed),
            12 => {
                // Somebody else, or an operator.
                self.version += 1;
                self.lease =
                    if feed.below(4) == 0 { feed.maybe(Feed::blob) } else { Some(record(feed).encode()) };
                Input::Tick
            }
            13 | 14 => Input::LogFenced,
            15 => Input::Engine(match feed.below(4) {
                0 | 1 => NodeReport::Recovered,
                2 => NodeReport::Drained,
                _ => NodeReport::Committed,
            }),
            16 => Input::Engine(NodeReport::Closed),
            17 => Input::EngineAlive,
            18 => match feed.below(8) {
                0 => Input::Failed(StopReason::ALL[usize::from(feed.below(18))]),
                1 => Input::EpochBehind {
                    found: Epoch(feed.number().min(1 << 62)),
                    lease_duration_ms: feed.maybe(Feed::millis),
                },
                2 => Input::Terminate,
                _ => Input::StoreClosed,
            },
            19 => Input::Durable(Position(feed.number())),
            20 => Input::TrimBelow(Position(feed.number())),
            21 => Input::Follower(FollowerReport {
                state: FollowerState::ALL[usize::from(feed.below(5))],
                caught_up_at: feed
                    .maybe(|feed| Instant::from_micros(self.micros.saturating_sub(feed.millis() * 1_000))),
            }),
            22 => self.call(feed, AdminRequest::Describe),
            _ => {
                let step_down = AdminRequest::StepDown {
                    node_id: Name::new(if feed.below(8) == 0 { "m" } else { "n" }),
                    epoch: if feed.below(4) == 0 { Epoch(feed.number()) } else { self.epoch },
                };
                self.call(feed, step_down)
            }
        }
    }

    fn call(&mut self, feed: &mut Feed<'_>, request: AdminRequest) -> Input {
        let call = CallId(u64::try_from(self.calls.len()).expect("few"));
        self.calls.insert(call, false);
        Input::Admin { call, opened_in: Period(u64::from(feed.below(6))), request }
    }

    fn answer(&mut self, feed: &mut Feed<'_>) -> Input {
        if self.requests.is_empty() {
            let request = RequestId(u64::from(feed.byte()));
            let outcome = WriteOutcome::Done { version: self.version() };
            return Input::Lease(LeaseInput::Written { request, outcome });
        }
        let index = usize::from(feed.byte()) % self.requests.len();
        let keeps = feed.below(8) == 0;
        let (request, operation) = self.requests[index].clone();
        if !keeps {
            self.requests.remove(index);
        }
        let fate = feed.below(8);
        Input::Lease(match operation {
            None => LeaseInput::Surveyed {
                request,
                survey: feed.maybe(|feed| Survey {
                    anything: feed.flag(),
                    highest_epoch: Epoch(feed.number().min(1 << 60)),
                    fence_duration_ms: feed.maybe(Feed::millis),
                    newest_manifest: Position(feed.number()),
                }),
            },
            Some(LeaseOperation::Read) => LeaseInput::Read {
                request,
                outcome: match (fate, &self.lease) {
                    (0, _) => ReadOutcome::Transient { retry_after_ms: feed.maybe(Feed::millis) },
                    (1, _) if feed.below(8) == 0 => ReadOutcome::Permanent,
                    (2, _) if feed.below(8) == 0 => ReadOutcome::LocalFailure,
                    (_, None) => ReadOutcome::Missing,
                    (_, Some(body)) => ReadOutcome::Found {
                        version: self.version(),
                        body: body.clone(),
                        stamp_ms: feed.maybe(Feed::millis),
                    },
                },
            },
            Some(write) => {
                let (base, body) = match &write {
                    LeaseOperation::Update { expected, body } => (Some(expected), body),
                    LeaseOperation::Create { body } => (None, body),
                    LeaseOperation::Read => unreachable!("matched above"),
                };
                let lands = self.lease.is_some() == base.is_some()
                    && base.is_none_or(|base| *base == self.version())
                    && fate != 1;
                if lands {
                    self.lease = Some(body.clone());
                    self.version += 1;
                }
                let outcome = match fate {
                    0 | 1 => WriteOutcome::Transient { retry_after_ms: feed.maybe(Feed::millis) },
                    2 if feed.below(8) == 0 => WriteOutcome::Permanent,
                    2 if feed.below(8) == 0 => WriteOutcome::LockReplaced,
                    _ if lands => WriteOutcome::Done { version: self.version() },
                    _ => WriteOutcome::Refused,
                };
                LeaseInput::Written { request, outcome }
            }
        })
    }

    fn version(&self) -> Version {
        Version(Blob::from(self.version.to_be_bytes().as_slice()))
    }

    fn look(&mut self) -> Look {
        self.entropy += 1;
        Look {
            now: Now {
                instant: Instant::from_micros(self.micros),
                slow: SlowInstant::from_micros(self.micros - self.slow_lag.min(self.micros)),
                wall: Timestamp::from_micros(1_700_000_000_000_000 + self.micros + self.wall_jump),
            },
            entropy: self.entropy,
        }
    }

    fn handle(&mut self, input: Input) {
        let look = self.look();
        self.node.handle(look, input);
        self.drain();
        for _ in 0..MOST_TICKS {
            match self.node.poll_timeout() {
                Some((at, _)) if at.as_micros() <= self.micros && !self.exited => {
                    let look = self.look();
                    self.node.handle(look, Input::Tick);
                    self.drain();
                }
                _ => return,
            }
        }
        panic!("a timer stays due: {:?}", self.node.poll_timeout());
    }

    fn drain(&mut self) {
        for _ in 0..MOST_OUTPUTS {
            let Some(output) = self.node.poll_output() else { return };
            assert!(!self.exited, "{output:?} follows the exit");
            self.output(output);
        }
        panic!("outputs without an end");
    }

    fn output(&mut self, output: Output) {
        match output {
            Output::Lease { request, operation } => {
                assert!(self.seen_requests.insert(request), "{request} was used before");
                if let LeaseOperation::Create { body } | LeaseOperation::Update { body, .. } = &operation {
                    let record =
                        LeaseRecord::decode(body, &Name::new("n")).expect("what is written is a lease");
                    assert_eq!(record.holder, ME);
                    assert_eq!(record.nonce.process_id, ME);
                }
                self.requests.push((request, Some(operation)));
            }
            Output::Survey { request } => {
                assert!(self.seen_requests.insert(request), "{request} was used before");
                self.requests.push((request, None));
            }
            Output::OpenLog(open) => {
                assert!(open.epoch >= self.epoch, "epoch {} after {}", open.epoch, self.epoch);
                self.epoch = open.epoch;
                self.gate_closed = false;
            }
            Output::BuildEngine { epoch } => {
                assert!(epoch >= self.epoch, "epoch {epoch} after {}", self.epoch);
                self.epoch = epoch;
            }
            Output::Gate(GateOrder::Close) => self.gate_closed = true,
            Output::Gate(GateOrder::Open { .. } | GateOrder::Doubt) => {
                assert!(!self.gate_closed, "a closed gate is ordered again");
            }
            Output::Admin { call, answer } => {
                let answered = self.calls.get_mut(&call).expect("an answer belongs to a call");
                assert!(!*answered, "{call} is answered again: {answer:?}");
                *answered = true;
            }
            Output::Exit { code, reason } => {
                assert_eq!(code, reason.exit_code());
                self.exited = true;
            }
            Output::Engine(_)
            | Output::Watchdog { .. }
            | Output::TrimmedBelow(_)
            | Output::Event(_)
            | Output::Follow(_)
            | Output::LeaseWritten { .. } => {}
        }
    }
}

fn record(feed: &mut Feed<'_>) -> LeaseRecord {
    let holder = if feed.below(4) == 0 { ME } else { OTHER };
    LeaseRecord {
        node_id: Name::new(if feed.below(16) == 1 { "m" } else { "n" }),
        epoch: Epoch(1 + u64::from(feed.below(9))),
        holder,
        state: if feed.flag() { LeaseState::Held } else { LeaseState::Free },
        duration: LeaseDuration::from_millis(3_000 + u64::from(feed.byte())).expect("above 3 s"),
        nonce: Nonce { process_id: holder, counter: feed.number(), entropy: feed.number() },
        trimmed_below: Position(u64::from(feed.byte())),
        log_end: Position(u64::from(feed.byte())),
    }
}
