//! Connections between processes, Workers and clients.

use dexzd_core::engine::{self, Answer, Call, CallError, ServerFrame, WorkerFrame};
use dexzd_core::ids::{CallId, HandoutId, StreamId};

use super::ProductWorld;
use super::client::{self, CALL_TIMEOUT};
use super::event::Event;
use super::process::{OpenCall, ToData};
use super::worker::{Action, Wake};
use crate::TrueTime;
use crate::dice::Stream;
use crate::watch::{ProcessNumber, Seen};

/// One call of one client, from its side.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct ClientToken {
    /// None: the auditor.
    pub(super) client: Option<usize>,
    pub(super) number: u64,
}

/// The two ends of a Worker stream. Frames keep their order on each leg.
#[derive(Clone, Debug)]
pub(super) struct StreamEnds {
    worker: usize,
    process: ProcessNumber,
    life: u32,
    to_worker_at: TrueTime,
    to_server_at: TrueTime,
    /// Nobody has told the server yet that the Worker's end is gone.
    half_open: bool,
    /// The engine has heard of it.
    greeted: bool,
}

impl ProductWorld {
    // Clients.

    pub(super) fn client_wakes(&mut self, at: TrueTime, client: usize) {
        self.trace.event(at, 700 + client as u64);
        let actions = self.clients[client].wake();
        self.client_acts(at, client, actions);
    }

    fn client_acts(&mut self, at: TrueTime, client: usize, actions: Vec<client::Action>) {
        for action in actions {
            match action {
                client::Action::Wake(when) => self.heap.push(when, Event::ClientWakes(client)),
                client::Action::Finished => {}
                client::Action::Call(call) => {
                    let token = self.token(Some(client));
                    let hop = self.network_hop();
                    let address = self.clients[client].address;
                    let number = address.unwrap_or_else(|| self.somebody());
                    let when = self.reachable_from(at, number) + hop;
                    self.heap.push(when, Event::ClientCalls(token, number, Box::new(call)));
                    self.heap.push(at + CALL_TIMEOUT, Event::ClientGivesUp(token));
                }
            }
        }
    }

    /// A token for a call that is now open.
    pub(super) fn token(&mut self, client: Option<usize>) -> ClientToken {
        let token = ClientToken { client, number: self.next_token };
        self.next_token += 1;
        self.open_tokens.insert(token, None);
        token
    }

    /// Whom a client or Worker tries: mostly the one that serves, as a load balancer would.
    pub(super) fn somebody(&mut self) -> ProcessNumber {
        let any = self.dice.below(Stream::Network, "address", u64::from(self.config.processes));
        let any = u8::try_from(any).expect("few processes");
        if self.dice.chance(Stream::Network, "misdirected", self.strikes.misdirected) {
            return any;
        }
        self.active().unwrap_or(any)
    }

    /// What is sent from or to an isolated process waits in a connection.
    pub(super) fn reachable_from(&self, at: TrueTime, number: ProcessNumber) -> TrueTime {
        self.processes[usize::from(number)].isolated_until.max(at)
    }

    pub(super) fn client_calls(
        &mut self,
        at: TrueTime,
        token: ClientToken,
        number: ProcessNumber,
        call: Call,
    ) {
        if !self.open_tokens.contains_key(&token) {
            return;
        }
        if !self.processes[usize::from(number)].is_running() {
            self.answer_client(at, token, Err(CallError::Unavailable));
            return;
        }
        let id = CallId(self.next_call);
        self.next_call += 1;
        self.trace.line(at, || format!("{} asks p{number}: {call:?}", name(token)));
        let process = &mut self.processes[usize::from(number)];
        self.open_tokens.insert(token, Some((number, process.life, id)));
        process.calls.insert(id, OpenCall { token, request: call.clone(), reached: false });
        self.watchers.show(at, &Seen::Called { process: number, call: id, request: &call });
        self.tell_data(at, number, ToData::Engine(engine::Input::Call { id, call }));
    }

    pub(super) fn answer_client(
        &mut self,
        at: TrueTime,
        token: ClientToken,
        answer: Result<Answer, CallError>,
    ) {
        let hop = self.network_hop();
        let asked = self.open_tokens.get(&token).copied().flatten().map(|(number, ..)| number);
        let from = asked.map_or(at, |number| self.reachable_from(at, number));
        self.heap.push(from + hop, Event::ClientHears(token, Box::new(answer)));
    }

    pub(super) fn client_hears(
        &mut self,
        at: TrueTime,
        token: ClientToken,
        answer: &Result<Answer, CallError>,
    ) {
        if self.open_tokens.remove(&token).is_none() {
            return;
        }
        let Some(client) = token.client else {
            self.audits.answers.insert(token, answer.clone());
            return;
        };
        self.trace.event(at, 700 + client as u64);
        self.trace.add(answer);
        self.trace.line(at, || format!("{} hears {answer:?}", name(token)));
        match self.clients[client].answered(at, answer, &mut self.dice) {
            Ok(actions) => self.client_acts(at, client, actions),
            Err(sentence) => self.watchers.complain(at, "the API's promises", sentence),
        }
    }

    pub(super) fn client_gives_up(&mut self, at: TrueTime, token: ClientToken) {
        let Some(place) = self.open_tokens.remove(&token) else {
            return;
        };
        if let Some((number, life, id)) = place
            && self.processes[usize::from(number)].lives(life)
            && self.processes[usize::from(number)].calls.remove(&id).is_some()
        {
            self.tell_data(at, number, ToData::Engine(engine::Input::CallDropped { id }));
        }
        if let Some(client) = token.client {
            let actions = self.clients[client].unanswered(at, &mut self.dice);
            self.client_acts(at, client, actions);
        }
    }

    // Workers.

    pub(super) fn worker_wakes(&mut self, at: TrueTime, worker: usize, wake: Wake) {
        let actions = self.workers[worker].wake(at, wake, &mut self.dice);
        self.worker_acts(at, worker, actions);
    }

    fn worker_acts(&mut self, at: TrueTime, worker: usize, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Wake(when, wake) => self.heap.push(when, Event::WorkerWakes(worker, wake)),
                Action::Connect => {
                    let hop = self.network_hop();
                    let number = self.somebody();
                    let when = self.reachable_from(at, number) + hop;
                    self.heap.push(when, Event::WorkerConnects(worker, number));
                }
                Action::Cut(stream) => self.worker_cut(at, stream),
                Action::Send(frame) => self.send_to_server(at, worker, frame),
            }
        }
    }

    /// A Worker's connection attempt reaches a process.
    pub(super) fn worker_connects(&mut self, at: TrueTime, worker: usize, number: ProcessNumber) {
        let process = &self.processes[usize::from(number)];
        if !process.is_running() || !process.has_engine() {
            let hop = self.network_hop();
            self.heap.push(at + hop, Event::WorkerLosesStream(worker, None));
            return;
        }
        let stream = StreamId(self.next_stream);
        self.next_stream += 1;
        let ends = StreamEnds {
            worker,
            process: number,
            life: process.life,
            to_worker_at: at,
            to_server_at: at,
            half_open: false,
            greeted: false,
        };
        self.streams.insert(stream, ends);
        self.trace.line(at, || format!("worker-{worker} opens stream {stream} to p{number}"));
        let actions = self.workers[worker].connected(stream);
        self.worker_acts(at, worker, actions);
    }

    fn send_to_server(&mut self, at: TrueTime, worker: usize, frame: WorkerFrame) {
        let Some(stream) = self.workers[worker].stream() else {
            return;
        };
        let hop = self.network_hop();
        if self.frame_breaks_its_stream(at, stream) {
            return;
        }
        let Some(number) = self.streams.get(&stream).map(|ends| ends.process) else {
            return;
        };
        let from = self.reachable_from(at, number);
        let Some(ends) = self.streams.get_mut(&stream) else {
            return;
        };
        if ends.half_open {
            return;
        }
        ends.to_server_at = ends.to_server_at.max(from + hop);
        let (when, number, life) = (ends.to_server_at, ends.process, ends.life);
        self.trace.line(at, || format!("worker-{worker} sends {} to p{number}", describe(&frame)));
        if let WorkerFrame::Decline { handout } | WorkerFrame::Return { handout } = &frame {
            self.watchers.show(at, &Seen::HandedBack { handout: *handout });
        }
        let input = engine::Input::Frame { stream, frame };
        self.heap.push(when, Event::ToData(number, life, Box::new(ToData::Engine(input))));
    }

    pub(super) fn send_to_worker(&mut self, at: TrueTime, stream: StreamId, frame: ServerFrame) {
        let hop = self.network_hop();
        if self.frame_breaks_its_stream(at, stream) {
            return;
        }
        let Some(number) = self.streams.get(&stream).map(|ends| ends.process) else {
            return;
        };
        let from = self.reachable_from(at, number);
        let Some(ends) = self.streams.get_mut(&stream) else {
            return;
        };
        ends.to_worker_at = ends.to_worker_at.max(from + hop);
        let (when, worker) = (ends.to_worker_at, ends.worker);
        self.heap.push(when, Event::WorkerHears(worker, stream, Box::new(frame)));
    }

    /// A connection may end at any frame, which is lost with it.
    fn frame_breaks_its_stream(&mut self, at: TrueTime, stream: StreamId) -> bool {
        let breaks = self.dice.chance(Stream::Network, "frame_lost", self.strikes.cut_frames);
        if breaks && let Some(ends) = self.streams.get(&stream) {
            self.trace.line(at, || format!("stream {stream} breaks, and a frame is lost with it"));
            self.heap.push(at, Event::WorkerWakes(ends.worker, Wake::Cut(stream)));
        }
        breaks
    }

    pub(super) fn worker_hears(&mut self, at: TrueTime, worker: usize, stream: StreamId, frame: ServerFrame) {
        self.trace.event(at, 800 + worker as u64);
        self.trace.add(&frame);
        self.trace.line(at, || match &frame {
            ServerFrame::Task(task) => format!(
                "worker-{worker} gets {:?} of {} {}, attempt {}, hand-out {}.{}",
                task.method, task.flow_id, task.step, task.attempt, task.handout.epoch, task.handout.counter
            ),
            other @ (ServerFrame::Cancel { .. }
            | ServerFrame::Settled { .. }
            | ServerFrame::Ping
            | ServerFrame::Refused { .. }) => format!("worker-{worker} gets {other:?}"),
        });
        match &frame {
            ServerFrame::Settled { handout, accepted } => {
                let on_its_stream = self.workers[worker].got_on(*handout) == Some(stream);
                let seen = Seen::Settled { handout: *handout, accepted: *accepted, on_its_stream };
                self.watchers.show(at, &seen);
            }
            ServerFrame::Refused { message } => {
                let sentence = format!("worker-{worker} was refused: {message}");
                self.watchers.complain(at, "the Worker protocol", sentence);
            }
            ServerFrame::Task(_) | ServerFrame::Cancel { .. } | ServerFrame::Ping => {}
        }
        let actions = self.workers[worker].frame(at, stream, frame, &self.worker_faults, &mut self.dice);
        self.worker_acts(at, worker, actions);
    }

    /// The Worker's end is gone; the server hears of it, or only its pings do.
    fn worker_cut(&mut self, at: TrueTime, stream: StreamId) {
        let hop = self.network_hop();
        let silent = self.dice.chance(Stream::Network, "silent_cut", self.strikes.silent_breaks);
        let Some(ends) = self.streams.get_mut(&stream) else {
            return;
        };
        ends.half_open = true;
        self.trace.line(at, || format!("stream {stream} breaks at the Worker's end"));
        if !silent {
            ends.to_server_at = ends.to_server_at.max(at + hop);
            let when = ends.to_server_at;
            self.heap.push(when, Event::ServerLosesStream(stream));
        }
    }

    pub(super) fn server_loses_stream(&mut self, at: TrueTime, stream: StreamId) {
        if let Some(ends) = self.streams.remove(&stream)
            && self.processes[usize::from(ends.process)].lives(ends.life)
        {
            let input = engine::Input::StreamClosed { stream };
            self.tell_data(at, ends.process, ToData::Engine(input));
        }
    }

    /// The server closes a stream; the Worker hears of it behind everything sent before.
    pub(super) fn close_stream(&mut self, at: TrueTime, stream: StreamId) {
        let hop = self.network_hop();
        if let Some(ends) = self.streams.remove(&stream) {
            let when = ends.to_worker_at.max(at + hop);
            self.heap.push(when, Event::WorkerLosesStream(ends.worker, Some(stream)));
        }
    }

    /// A stream, or (None) an attempt to open one, is over from the Worker's side.
    pub(super) fn worker_loses_stream(&mut self, at: TrueTime, worker: usize, stream: Option<StreamId>) {
        if self.workers[worker].stream() == stream {
            let actions = self.workers[worker].disconnected(at, &mut self.dice);
            self.worker_acts(at, worker, actions);
        }
    }

    /// The engine hears of a stream.
    pub(super) fn greeted(&mut self, stream: StreamId) {
        if let Some(ends) = self.streams.get_mut(&stream) {
            ends.greeted = true;
        }
    }

    /// A tenure is over: streams that its engine never heard of are closed by the shell. How many are left
    /// that the engine should have closed (FD-33)?
    pub(super) fn close_strange_streams(&mut self, at: TrueTime, number: ProcessNumber) -> usize {
        let life = self.processes[usize::from(number)].life;
        let of_process: Vec<(StreamId, bool)> = self
            .streams
            .iter()
            .filter(|(_, ends)| ends.process == number && ends.life == life)
            .map(|(stream, ends)| (*stream, ends.greeted))
            .collect();
        for (stream, _) in of_process.iter().filter(|(_, greeted)| !greeted) {
            self.close_stream(at, *stream);
        }
        of_process.iter().filter(|(_, greeted)| *greeted).count()
    }

    /// A process is dead: whoever was connected hears of it, mostly at once.
    pub(super) fn break_connections(&mut self, at: TrueTime, number: ProcessNumber) {
        let life = self.processes[usize::from(number)].life;
        let streams: Vec<StreamId> = self
            .streams
            .iter()
            .filter(|(_, ends)| ends.process == number && ends.life == life)
            .map(|(stream, _)| *stream)
            .collect();
        for stream in streams {
            self.close_stream(at, stream);
        }
        let calls = std::mem::take(&mut self.processes[usize::from(number)].calls);
        for open in calls.into_values() {
            if !self.dice.chance(Stream::Network, "silent_death", self.strikes.silent_breaks) {
                self.answer_client(at, open.token, Err(CallError::Unavailable));
            }
        }
    }
}

fn describe(frame: &WorkerFrame) -> String {
    let about = |what: &str, handout: &HandoutId| format!("{what} {}.{}", handout.epoch, handout.counter);
    match frame {
        WorkerFrame::Hello(_) => "hello".to_owned(),
        WorkerFrame::Heartbeat { handout, .. } => about("a heartbeat of", handout),
        WorkerFrame::WaitForDone { handout, .. } => about("the Wait of", handout),
        WorkerFrame::ExecuteDone { handout, .. } => about("the decision of", handout),
        WorkerFrame::Failed { handout, .. } => about("the failure of", handout),
        WorkerFrame::Decline { handout } => about("a decline of", handout),
        WorkerFrame::Return { handout } => about("back unused", handout),
        WorkerFrame::StopTaking => "stop".to_owned(),
        WorkerFrame::Pong => "a pong".to_owned(),
    }
}

fn name(token: ClientToken) -> String {
    token.client.map_or_else(|| "the auditor".to_owned(), |client| format!("client {client}"))
}
