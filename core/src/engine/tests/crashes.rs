//! Crashes at every write (lesson G10) and at random moments: a Flow that uses most of what there is runs
//! to its end whatever dies on the way, each effect once, and nothing is ever stranded.

use std::collections::BTreeMap;
use std::string::{String, ToString};
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::build::*;
use super::driver::{Given, World};
use crate::engine::*;
use crate::ids::{CallId, Name};

const STEPS: [&str; 7] = ["Start", "Ask", "Flaky", "Fast", "Faster", "Tool", "Undo"];

/// A Worker and a client that do what they should, and repeat what was not answered.
struct Robot {
    world: World,
    /// Sent and not answered, with the call to repeat.
    unanswered: Vec<(Option<CallId>, Call)>,
    answered: Vec<Result<Answer, CallError>>,
    /// Tasks that it has answered already: some are answered again, late.
    past: Vec<Given>,
}

impl Robot {
    fn new() -> Self {
        let mut world = World::new();
        let start = world.start_of("f", Some(step("Start")));
        let publish = |name: &str, text: &str| Call::Publish {
            request_id: Name::new(name),
            target: target("f"),
            publications: vec![message("ch", text)],
        };
        let write = Call::WriteAttributes {
            request_id: Name::new("write"),
            target: target("f"),
            writes: vec![set("client", "1")],
        };
        let calls = [Call::Start(start.into()), publish("p1", "one"), publish("p2", "two"), write];
        let unanswered = calls.into_iter().map(|call| (None, call)).collect();
        Self { world, unanswered, answered: Vec::new(), past: Vec::new() }
    }

    /// One second of everybody's life.
    fn round(&mut self) {
        if self.world.open_streams().is_empty() {
            self.world.worker(&STEPS);
        }
        self.call_client();
        for stream in self.world.open_streams() {
            while let Some(task) = self.world.try_task(stream) {
                self.run(&task);
                self.past.push(task);
            }
        }
        // A held log is not given time: its writer would give it up after 10 s (HA-32).
        if !self.world.is_stuck() {
            self.world.advance_ms(1_000);
        }
    }

    /// The first call first: each later one needs the run to exist.
    fn call_client(&mut self) {
        while let Some((sent, call)) = self.unanswered.first_mut() {
            let id = *sent.get_or_insert_with(|| self.world.call(call.clone()));
            let Some(answer) = self.world.answer(id) else {
                return;
            };
            self.answered.push(answer);
            self.unanswered.remove(0);
        }
    }

    fn run(&mut self, task: &Given) {
        match (&*task.step.step_type, task.method) {
            ("Start", _) => {
                let movements = vec![waiting_step("Ask"), flaky(), async_step("Fast"), tool()];
                self.world.execute_with(task, DecisionKind::GoTo(movements), writing("start", "1"));
            }
            ("Ask", Method::WaitFor) => {
                let wait = all_of(vec![bounded("ch", Some(2), Some(2)), timer(5_000)]);
                self.world.wait_for_with(task, wait, writing("ask", "1"));
            }
            ("Ask", Method::Execute) => {
                let text = told(task).join("+");
                self.world.execute_done(task, complete(&text));
            }
            ("Flaky", _) if task.checkpoint.is_none() => {
                self.world.heartbeat(task, Some(value("tried")));
                self.world.fail(task, "Oops");
            }
            ("Fast", _) => {
                let movements = vec![async_step("Faster")];
                self.world.execute_with(task, DecisionKind::GoTo(movements), writing("fast", "1"));
            }
            ("Tool", _) => self.world.fail(task, "Broken"),
            (name @ ("Flaky" | "Faster" | "Undo"), _) => {
                let text = name.to_string();
                self.world.execute_done(task, complete(&text));
            }
            (other, _) => panic!("no such Step: {other}"),
        }
    }

    fn crash(&mut self, landed: bool) {
        if landed {
            self.world.crash_after_landing();
        } else {
            self.world.crash();
        }
        // The client heard nothing and asks again.
        for (sent, _) in &mut self.unanswered {
            *sent = None;
        }
        self.world.sweep();
    }

    fn is_done(&mut self) -> bool {
        self.unanswered.is_empty() && !self.world.is_stuck() && self.world.status("f") != FlowStatus::Running
    }

    fn run_to_the_end(&mut self) {
        for _ in 0..1_000 {
            if self.is_done() {
                return;
            }
            self.round();
        }
        panic!("the Flow is stranded: {:?}", self.world.phases("f"));
    }

    /// Every effect once.
    fn judge(&mut self) {
        self.world.sweep();
        let mut outputs = self.world.outputs("f");
        outputs.sort();
        assert_eq!(outputs, ["Faster", "Flaky", "Undo", "one,two+fired"]);
        assert!(self.answered.iter().all(Result::is_ok), "{:?}", self.answered);
        let history = self.world.history("f");
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for (place, event) in history.iter().enumerate() {
            assert_eq!(event.number, place as u64 + 1);
            *counts.entry(name_of(&event.kind)).or_default() += 1;
        }
        let expected = [
            "Ask-1 execute",
            "Ask-1 wait_for",
            "Fast-1 execute",
            "Faster-1 execute",
            "Flaky-1 execute",
            "Start-1 execute",
            "Tool-1 failed",
            "Undo-1 execute",
            "closed",
            "published p1",
            "published p2",
            "started",
            "written write",
        ];
        let found: Vec<(&str, usize)> = counts.iter().map(|(name, count)| (name.as_str(), *count)).collect();
        assert_eq!(found, expected.map(|name| (name, 1)));
    }
}

fn flaky() -> Movement {
    step("Flaky")
}

/// A single-attempt Step with a recovery route: it ends in `Undo` whether it failed or was lost.
fn tool() -> Movement {
    with_options("Tool", |options| {
        options.skip_wait_for = true;
        options.execute.retry = attempts(1);
        options.recovery = recovery("Undo");
    })
}

fn name_of(kind: &EventKind) -> String {
    match kind {
        EventKind::FlowStarted { .. } => "started".into(),
        EventKind::FlowClosed { .. } => "closed".into(),
        EventKind::WaitForCompleted { context, .. } => std::format!("{} wait_for", context.step),
        EventKind::ExecuteCompleted { context, .. } => std::format!("{} execute", context.step),
        EventKind::MethodFailed { context, .. } => std::format!("{} failed", context.step),
        EventKind::Published { request_id, .. } => std::format!("published {request_id}"),
        EventKind::AttributesWritten { request_id, .. } => std::format!("written {request_id}"),
        other => std::format!("{other:?}"),
    }
}

#[test]
fn lesson_g10_a_crash_at_any_write_strands_nothing() {
    let mut write = 0;
    loop {
        let mut crashed = false;
        for landed in [false, true] {
            let mut robot = Robot::new();
            robot.world.hold_log_after(write);
            for _ in 0..100 {
                if robot.world.is_stuck() || robot.is_done() {
                    break;
                }
                robot.round();
            }
            if robot.world.is_stuck() {
                crashed = true;
                robot.crash(landed);
            }
            robot.run_to_the_end();
            robot.judge();
        }
        if !crashed {
            break;
        }
        write += 1;
    }
    assert!(write > 10, "the script has only {write} writes");
}

/// Something goes wrong.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    /// The node dies at this write from now on.
    Crash { writes: u64, landed: bool },
    /// All Workers die.
    Disconnect,
    /// A Worker says again what it said about an old task.
    Repeat { task: usize },
    /// The log is slow: nothing lands for one round.
    Slow,
    /// Nothing happens for a while.
    Calm,
}

fn any_trouble() -> impl Strategy<Value = Trouble> {
    prop_oneof![
        3 => (0..6_u64, any::<bool>()).prop_map(|(writes, landed)| Trouble::Crash { writes, landed }),
        1 => Just(Trouble::Disconnect),
        1 => (0..20_usize).prop_map(|task| Trouble::Repeat { task }),
        1 => Just(Trouble::Slow),
        2 => Just(Trouble::Calm),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn fd_001_fd_011_any_sequence_of_troubles_leaves_each_effect_once(
        troubles in proptest::collection::vec(any_trouble(), 0..12),
    ) {
        let mut robot = Robot::new();
        for trouble in troubles {
            match trouble {
                Trouble::Crash { writes, landed } => {
                    robot.world.hold_log_after(writes);
                    robot.round();
                    robot.round();
                    robot.crash(landed);
                }
                Trouble::Disconnect => {
                    for stream in robot.world.open_streams() {
                        robot.world.disconnect(stream);
                    }
                    robot.round();
                }
                Trouble::Repeat { task } => {
                    let stream = robot.world.open_streams().first().copied();
                    if let (Some(old), Some(stream)) = (robot.past.get(task).cloned(), stream) {
                        robot.run(&Given { stream, ..old });
                    }
                    robot.round();
                }
                Trouble::Slow => {
                    robot.world.hold_log();
                    robot.round();
                    robot.world.release_log();
                }
                Trouble::Calm => robot.round(),
            }
        }
        robot.run_to_the_end();
        robot.judge();
    }
}
