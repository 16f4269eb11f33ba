//! The shell with the real core, on a real disk and real threads.

// Whatever else an answer is, it fails the test.
#![allow(clippy::wildcard_enum_match_arm)]

mod faults;
mod moments;
mod shared;
mod snapshots;

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dexzd_core::engine::{
    Answer, Call, CallError, Decision, DecisionKind, Effects, EngineEvent, FlowStatus, FlowTypeDefinition,
    Hello, Movement, ServerFrame, StartFlow, StepOptions, Target, Task, Value, WorkerFrame,
};
use dexzd_core::ids::{Name, Position, RunId};
use dexzd_core::lease::{CandidateEvent, LeaseDuration};
use dexzd_core::node::{NodeEvent, Role};
use dexzd_core::snapshot::Cadence;
use dexzd_core::standby::StandbyConfig;
use dexzd_core::stop::StopReason;

use super::devices::Devices;
use super::start::start_on;
use super::*;
use crate::devlock::LockOutcome;
use crate::durability::DurabilityMode;
use crate::local::LocalStoreKind;

/// Remembers what the shell said.
#[derive(Default)]
struct Heard {
    shell: Mutex<Vec<ShellEvent>>,
    node: Mutex<Vec<NodeEvent>>,
}

impl EventSink for Heard {
    fn engine(&self, _: &EngineEvent) {}

    fn node(&self, event: &NodeEvent) {
        self.node.lock().expect("no panic").push(event.clone());
    }

    fn shell(&self, event: &ShellEvent) {
        self.shell.lock().expect("no panic").push(event.clone());
    }
}

fn config(data_dir: &Path) -> NodeConfig {
    NodeConfig {
        node_id: "dev".to_owned(),
        data_dir: data_dir.to_path_buf(),
        lease_duration: LeaseDuration::DEFAULT_SINGLE,
        fail_if_held: false,
        standby: StandbyConfig::default(),
        snapshot_cadence: Cadence::STANDARD,
        attempt_drain_timeout: Duration::from_secs(1),
        storage: Storage::DataDir { durability: DurabilityMode::Strict },
        local_store: LocalStoreKind::Memory,
    }
}

/// For tests that wait for renewals: they come every 2 s, and 3.9 s may pass without one.
fn config_with_renewals(data_dir: &Path) -> NodeConfig {
    NodeConfig { lease_duration: LeaseDuration::from_millis(6_000).expect("legal"), ..config(data_dir) }
}

fn run<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(test)
}

async fn serving(config: NodeConfig) -> NodeHandle {
    let node = start(config, Arc::new(())).expect("started");
    wait_until_active(&node).await;
    node
}

async fn wait_until_active(node: &NodeHandle) {
    let mut view = node.view();
    let view = view.wait_for(|view| matches!(view.role, Role::Active | Role::Stopped)).await;
    assert_eq!(view.expect("the node lives").role, Role::Active);
}

fn flow_start(flow_id: &str) -> Call {
    Call::Start(
        StartFlow {
            request_id: Name::new(flow_id),
            flow_id: Name::new(flow_id),
            flow_type: Name::new("order"),
            start: Some(movement("step1")),
            ..StartFlow::default()
        }
        .into(),
    )
}

/// With an input of 1 MB.
fn large_start(flow_id: &str) -> Call {
    let mut call = flow_start(flow_id);
    if let Call::Start(start) = &mut call
        && let Some(movement) = &mut start.start
    {
        movement.input = Some(Value { encoding: Name::new("bytes"), data: vec![7; 1_000_000].into() });
    }
    call
}

fn movement(step_type: &str) -> Movement {
    Movement {
        step_type: Name::new(step_type),
        input: None,
        options: StepOptions { skip_wait_for: true, ..StepOptions::default() },
    }
}

async fn start_flow(node: &NodeHandle, flow_id: &str) -> RunId {
    match node.call(node.period(), flow_start(flow_id)).await.expect("started") {
        Answer::Started { run_id, newly: true } => run_id,
        other => panic!("{other:?}"),
    }
}

async fn result(node: &NodeHandle, flow_id: &str) -> FlowStatus {
    let wait = Call::WaitForFlow { target: target(flow_id), wait_ms: None };
    match node.call(node.period(), wait).await.expect("closed") {
        Answer::FlowResult(result) => result.status,
        other => panic!("{other:?}"),
    }
}

async fn status(node: &NodeHandle, flow_id: &str) -> FlowStatus {
    match node.call(node.period(), Call::Describe(target(flow_id))).await.expect("described") {
        Answer::Summary(summary) => summary.status,
        other => panic!("{other:?}"),
    }
}

fn target(flow_id: &str) -> Target {
    Target { flow_id: Name::new(flow_id), run_id: None }
}

fn hello(slots: u32) -> WorkerFrame {
    WorkerFrame::Hello(Hello {
        worker: Name::new("worker-1"),
        slots,
        flow_types: vec![FlowTypeDefinition {
            name: Name::new("order"),
            step_types: ["step1", "step2", "step3"].map(Name::new).to_vec(),
            timeout_handler: false,
        }],
    })
}

/// A Worker whose Steps lead from step1 over step2 to step3, and there to the end.
async fn work(node: NodeHandle) {
    let (sender, mut receiver) = node.open_stream(node.period()).expect("it serves");
    sender.send(hello(100));
    while let Some(frames) = receiver.recv().await {
        for frame in frames {
            match frame {
                ServerFrame::Task(task) => sender.send(done(&task)),
                ServerFrame::Ping => sender.send(WorkerFrame::Pong),
                ServerFrame::Cancel { .. } | ServerFrame::Settled { .. } => {}
                ServerFrame::Refused { message } => panic!("{message}"),
            }
        }
    }
}

fn done(task: &Task) -> WorkerFrame {
    let kind = match &*task.step.step_type {
        "step1" => DecisionKind::GoTo(vec![movement("step2")]),
        "step2" => DecisionKind::GoTo(vec![movement("step3")]),
        _ => DecisionKind::GracefulComplete(None),
    };
    WorkerFrame::ExecuteDone {
        handout: task.handout,
        decision: Decision { kind, cancel_steps: vec![], cancel_sibling_steps: vec![] },
        effects: Effects::default(),
    }
}

async fn shut_down(node: NodeHandle) {
    node.shutdown();
    let stopped = node.stopped().await;
    assert_eq!(stopped, Stopped { code: 0, reason: StopReason::Shutdown, detail: None });
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("created");
    for entry in fs::read_dir(from).expect("listed") {
        let entry = entry.expect("listed");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("known").is_dir() {
            copy(&entry.path(), &target);
        } else {
            // Temporary files come and go.
            let _ = fs::copy(entry.path(), target);
        }
    }
}

/// What a crash leaves: in the order in which a later part may not be behind an earlier one.
fn crash_image(data_dir: &Path, to: &Path) {
    for part in ["local", "store", "log"] {
        copy(&data_dir.join(part), &to.join(part));
    }
}

#[test]
fn ha_008_flows_run_and_their_results_survive_an_orderly_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    run(async {
        let local = tokio::task::LocalSet::new();
        local
            .run_until(async {
                let node = serving(config(folder.path())).await;
                let worker = tokio::task::spawn_local(work(node.clone()));
                for number in 0..20 {
                    start_flow(&node, &format!("flow-{number}")).await;
                }
                for number in 0..20 {
                    assert_eq!(result(&node, &format!("flow-{number}")).await, FlowStatus::Completed);
                }
                shut_down(node).await;
                worker.await.expect("the Worker's stream ended");

                let node = serving(config(folder.path())).await;
                for number in 0..20 {
                    assert_eq!(status(&node, &format!("flow-{number}")).await, FlowStatus::Completed);
                }
                shut_down(node).await;
            })
            .await;
    });
}

#[test]
fn ha_006_ha_008_an_acknowledged_start_survives_a_crash_and_the_lease_is_taken_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let image = tempfile::tempdir().expect("a folder");
    run(async {
        let node = serving(config(folder.path())).await;
        let run_id = start_flow(&node, "flow-1").await;
        crash_image(folder.path(), image.path());
        shut_down(node).await;

        // The image holds a held lease of 30 s; the lock of its folder makes it free at once.
        let node = serving(config(image.path())).await;
        assert_eq!(status(&node, "flow-1").await, FlowStatus::Running);
        match node.call(node.period(), flow_start("flow-1")).await.expect("known") {
            Answer::Started { run_id: again, newly } => assert_eq!((again, newly), (run_id, false)),
            other => panic!("{other:?}"),
        }
        shut_down(node).await;
    });
}

#[test]
fn ha_005_review_10_10_a_second_node_in_the_same_directory_is_refused_with_its_path() {
    let folder = tempfile::tempdir().expect("a folder");
    run(async {
        let node = serving(config(folder.path())).await;
        let Err(error) = start(config(folder.path()), Arc::new(())) else {
            panic!("two nodes in one directory");
        };
        let text = error.to_string();
        assert!(text.contains(&folder.path().join("dev.lock").display().to_string()), "{text}");
        shut_down(node).await;
    });
}

#[test]
fn ha_053_calls_and_streams_of_a_stopped_node_end() {
    let folder = tempfile::tempdir().expect("a folder");
    run(async {
        let node = serving(config(folder.path())).await;
        start_flow(&node, "flow-1").await;
        let (_sender, mut receiver) = node.open_stream(node.period()).expect("it serves");
        let waiting = node.call(node.period(), Call::WaitForFlow { target: target("flow-1"), wait_ms: None });
        let mut waiting = std::pin::pin!(waiting);
        // The call is on its way once it was polled.
        std::future::poll_fn(|context| {
            assert!(waiting.as_mut().poll(context).is_pending());
            std::task::Poll::Ready(())
        })
        .await;
        node.shutdown();
        assert_eq!(waiting.await, Err(CallError::Unavailable));
        assert_eq!(receiver.recv().await, None);
        assert_eq!(node.stopped().await.code, 0);
        assert_eq!(node.call(node.period(), flow_start("flow-2")).await, Err(CallError::Unavailable));
        assert!(node.open_stream(node.period()).is_none());
    });
}

#[test]
fn d_045_a_replaced_lock_file_stops_the_node_before_it_acknowledges() {
    let folder = tempfile::tempdir().expect("a folder");
    run(async {
        let devices = Devices { exit: || {}, ..Devices::default() };
        let node = start_on(config(folder.path()), Arc::new(()), devices).expect("started");
        wait_until_active(&node).await;
        fs::rename(folder.path().join("dev.lock"), folder.path().join("moved")).expect("moved");
        assert_eq!(node.call(node.period(), flow_start("flow-1")).await, Err(CallError::Unavailable));
        let stopped = node.stopped().await;
        assert_eq!((stopped.code, stopped.reason), (1, StopReason::DevLockReplaced));
    });
}

#[test]
fn ha_010_relaxed_keeps_everything_over_an_orderly_end_and_refuses_after_any_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let image = tempfile::tempdir().expect("a folder");
    let relaxed = |path: &Path| NodeConfig {
        storage: Storage::DataDir { durability: DurabilityMode::Relaxed },
        ..config(path)
    };
    run(async {
        let node = serving(relaxed(folder.path())).await;
        start_flow(&node, "flow-1").await;
        crash_image(folder.path(), image.path());
        fs::copy(folder.path().join("UNCLEAN"), image.path().join("UNCLEAN")).expect("marked");
        shut_down(node).await;
        let node = serving(config(folder.path())).await;
        assert_eq!(status(&node, "flow-1").await, FlowStatus::Running);
        shut_down(node).await;
    });
    let Err(error) = start(config(image.path()), Arc::new(())) else {
        panic!("an unclean directory was used");
    };
    assert!(error.to_string().contains("delete"), "{error}");
}

#[test]
fn d_030_the_log_is_trimmed_once_the_local_store_is_past_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let heard = Arc::new(Heard::default());
    run(async {
        let node = start(config_with_renewals(folder.path()), heard.clone()).expect("started");
        wait_until_active(&node).await;
        let mut number = 0;
        let trimmed = |heard: &Heard| {
            heard
                .shell
                .lock()
                .expect("no panic")
                .iter()
                .any(|event| matches!(event, ShellEvent::LogTrimmed { deleted, .. } if *deleted > 0))
        };
        // Entries that fill segments; the bound travels with the next renewal of the lease.
        while !trimmed(&heard) {
            number += 1;
            assert!(number < 2_000, "2 GB of log and nothing was trimmed");
            node.call(node.period(), large_start(&format!("flow-{number}"))).await.expect("started");
        }
        shut_down(node).await;
        let node = serving(config(folder.path())).await;
        assert_eq!(status(&node, "flow-1").await, FlowStatus::Running);
        assert_eq!(status(&node, &format!("flow-{number}")).await, FlowStatus::Running);
        shut_down(node).await;
    });
}

/// Without a lock the holder may live: a candidate waits for as long as the lease could still hold.
#[test]
fn ha_007_review_10_6_where_the_file_system_cannot_lock_a_held_lease_is_waited_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let image = tempfile::tempdir().expect("a folder");
    let unlocked = || Devices {
        lock: |_| Ok(LockOutcome::NotSupported { reason: "a file system without locks".to_owned() }),
        ..Devices::default()
    };
    let short = |path: &Path| NodeConfig {
        lease_duration: LeaseDuration::from_millis(3_000).expect("legal"),
        ..config(path)
    };
    run(async {
        let node = start_on(short(folder.path()), Arc::new(()), unlocked()).expect("started");
        wait_until_active(&node).await;
        start_flow(&node, "flow-1").await;
        copy(&folder.path().join("store"), &image.path().join("store"));
        shut_down(node).await;

        let heard = Arc::new(Heard::default());
        let node = start_on(short(image.path()), heard.clone(), unlocked()).expect("started");
        wait_until_active(&node).await;
        assert_eq!(status(&node, "flow-1").await, FlowStatus::Running);
        shut_down(node).await;

        let warned = ShellEvent::LockNotSupported { reason: "a file system without locks".to_owned() };
        assert!(heard.shell.lock().expect("no panic").contains(&warned));
        let waited: Vec<u64> = heard
            .node
            .lock()
            .expect("no panic")
            .iter()
            .filter_map(|event| match event {
                NodeEvent::Candidate(CandidateEvent::Waiting { longest_wait_ms, .. }) => {
                    Some(*longest_wait_ms)
                }
                _ => None,
            })
            .collect();
        assert_eq!(waited, [4_000], "3 s and one more");
    });
}
