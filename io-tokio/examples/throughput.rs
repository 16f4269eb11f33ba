//! How fast the shell is without gRPC: clients, one Worker and the node in one process.
//!
//! ```text
//! cargo run --release -p dexzd-io-tokio --example throughput -- run CLIENTS FLOWS [DURABILITY]    three Steps each
//! cargo run --release -p dexzd-io-tokio --example throughput -- wait CLIENTS FLOWS [DURABILITY]   wait, then a kill
//! cargo run --release -p dexzd-io-tokio --example throughput -- open 1 1                          after it
//! ```
//!
//! `DEXZD_DATA_DIR` names the data directory; `wait` leaves it behind for `open`.

#![allow(clippy::disallowed_macros, reason = "an example speaks to whoever started it")]

use std::env;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dexzd_core::engine::{
    Answer, Call, Condition, ConditionKind, Decision, DecisionKind, Effects, FlowTypeDefinition, Hello,
    Movement, ServerFrame, StartFlow, StepOptions, Target, Task, Wait, WaitKind, WorkerFrame,
};
use dexzd_core::ids::Name;
use dexzd_core::lease::LeaseDuration;
use dexzd_core::node::Role;
use dexzd_core::snapshot::Cadence;
use dexzd_core::standby::StandbyConfig;
use dexzd_io_tokio::Clock;
use dexzd_io_tokio::local::default_kind;
use dexzd_io_tokio::runtime::{NodeConfig, NodeHandle, Storage, start};

fn main() {
    let arguments: Vec<String> = env::args().collect();
    let number =
        |index: usize, or: u64| arguments.get(index).and_then(|text| text.parse().ok()).unwrap_or(or);
    let command = arguments.get(1).map_or("run", String::as_str);
    let (clients, flows) = (number(2, 1), number(3, 1_000));
    let durability = arguments.get(4).map_or("strict", String::as_str).parse().expect("a durability mode");
    let folder = env::var_os("DEXZD_DATA_DIR")
        .map_or_else(|| env::temp_dir().join(format!("dexzd-throughput-{}", std::process::id())), Into::into);
    let config = NodeConfig {
        node_id: "bench".to_owned(),
        data_dir: folder.clone(),
        lease_duration: LeaseDuration::DEFAULT_SINGLE,
        fail_if_held: false,
        standby: StandbyConfig::default(),
        snapshot_cadence: Cadence::STANDARD,
        attempt_drain_timeout: Duration::from_secs(5),
        storage: Storage::DataDir { durability },
        local_store: default_kind(),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
    runtime.block_on(async {
        let clock = Clock::new();
        let begun = clock.now().instant;
        let node = start(config, Arc::new(())).expect("started");
        let mut view = node.view();
        view.wait_for(|view| view.role == Role::Active).await.expect("active");
        println!("serving after {:?}", clock.now().instant.saturating_since(begun));
        report_memory();
        if command == "open" {
            std::thread::sleep(Duration::from_secs(flows));
            report_memory();
        } else {
            tokio::spawn(work(node.clone()));
            measure(&node, clients, flows, command == "wait").await;
            report_memory();
        }
        if command == "wait" {
            std::process::abort();
        }
        node.shutdown();
        println!("{:?}", node.stopped().await);
    });
    std::fs::remove_dir_all(folder).expect("removed");
}

async fn measure(node: &NodeHandle, clients: u64, flows: u64, waiting: bool) {
    let clock = Arc::new(Clock::new());
    let next = Arc::new(AtomicU64::new(0));
    let begun = clock.now().instant;
    let clients: Vec<_> = (0..clients)
        .map(|_| {
            let (node, next, clock) = (node.clone(), Arc::clone(&next), Arc::clone(&clock));
            tokio::spawn(async move {
                let mut latencies = Vec::new();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= flows {
                        return latencies;
                    }
                    let begun = clock.now().instant;
                    run_flow(&node, number, waiting).await;
                    latencies.push(clock.now().instant.saturating_since(begun));
                }
            })
        })
        .collect();
    let mut latencies = Vec::new();
    for client in clients {
        latencies.extend(client.await.expect("no client failed"));
    }
    let took = clock.now().instant.saturating_since(begun);
    latencies.sort();
    let at = |percent: usize| latencies[latencies.len() * percent / 100];
    println!(
        "{:.0} Flows/s, p50 {:?}, p99 {:?}",
        latencies.len() as f64 / took.as_secs_f64(),
        at(50),
        at(99)
    );
}

async fn run_flow(node: &NodeHandle, number: u64, waiting: bool) {
    let flow_id = Name::from(format!("flow-{number}"));
    let call = Call::Start(
        StartFlow {
            request_id: flow_id.clone(),
            flow_id: flow_id.clone(),
            flow_type: Name::new("order"),
            start: Some(movement(if waiting { "wait" } else { "step1" })),
            ..StartFlow::default()
        }
        .into(),
    );
    node.call(node.period(), call).await.expect("started");
    if waiting {
        return;
    }
    let call = Call::WaitForFlow { target: Target { flow_id, run_id: None }, wait_ms: None };
    let answer = node.call(node.period(), call).await.expect("closed");
    assert!(matches!(answer, Answer::FlowResult(_)));
}

async fn work(node: NodeHandle) {
    let (sender, mut receiver) = node.open_stream(node.period()).expect("it serves");
    sender.send(WorkerFrame::Hello(Hello {
        worker: Name::new("worker"),
        slots: 1_000,
        flow_types: vec![FlowTypeDefinition {
            name: Name::new("order"),
            step_types: ["wait", "step1", "step2", "step3"].map(Name::new).to_vec(),
            timeout_handler: false,
        }],
    }));
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

fn movement(step_type: &str) -> Movement {
    Movement {
        step_type: Name::new(step_type),
        input: None,
        options: StepOptions { skip_wait_for: step_type != "wait", ..StepOptions::default() },
    }
}

fn done(task: &Task) -> WorkerFrame {
    if &*task.step.step_type == "wait" {
        return WorkerFrame::WaitForDone {
            handout: task.handout,
            wait: Wait {
                kind: WaitKind::UntilOne,
                conditions: vec![Condition {
                    id: None,
                    kind: ConditionKind::Timer { duration_ms: 86_400_000 },
                }],
            },
            effects: Effects::default(),
        };
    }
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

fn report_memory() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap_or("VmRSS unknown");
    println!("{line}");
}
