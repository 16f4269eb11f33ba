//! Nothing is stranded (invariant 7, lesson G10): every open Step is queued, running, backing off, held
//! back or waiting, each with the key in the store that makes it go on; and no key is left over.

use std::collections::BTreeMap;
use std::vec::Vec;

use super::driver::World;
use crate::engine::keys::{self, Timer, TimerKind};
use crate::engine::model::FlowStatus;
use crate::engine::record::{StepPhase, StepRecord};
use crate::engine::run::Run;
use crate::engine::wait;
use crate::ids::{RunId, StepExecutionId};

impl World {
    /// Looks through the whole local store. Everything gathered must be applied.
    pub(super) fn sweep(&self) {
        assert!(self.engine.appender.is_idle(), "a sweep needs everything to be durable");
        let contents = self.disk.contents();
        let timers: BTreeMap<RunId, Vec<u8>> = contents.keys().filter_map(|key| waits_timer(key)).collect();
        let mut expected: BTreeMap<Vec<u8>, &str> = BTreeMap::new();
        for run_id in runs(&contents) {
            let run = Run::load(run_id, &self.disk, crate::ids::Position(0))
                .unwrap_or_else(|error| panic!("run {run_id} cannot be read: {error:?}"));
            let waits_timer = timers.get(&run_id);
            expected.extend(waits_timer.map(|key| (key.clone(), "a run whose Waits are to be judged")));
            expected.extend(self.keys_of(&run, waits_timer.is_some()));
        }
        for key in contents.keys().filter(|key| key.starts_with(b"w") || key.starts_with(b"t")) {
            assert!(expected.contains_key(key), "a key without a Step: {}", key.escape_ascii());
        }
        for (key, why) in expected {
            assert!(contents.contains_key(&key), "{why} is stranded: {}", key.escape_ascii());
        }
    }

    /// The keys that keep a run going.
    fn keys_of(&self, run: &Run, judges_waits: bool) -> Vec<(Vec<u8>, &'static str)> {
        let timer = |due, kind| keys::timer(&Timer { due, run_id: run.id, kind });
        let mut expected = Vec::new();
        if run.head().status != FlowStatus::Running {
            assert!(run.steps.is_empty(), "a closed run has no active Step");
            assert_eq!(run.channel_sizes().count(), 0, "messages vanish when the Flow closes");
            let retention_ms = run.base.retention_ms.unwrap_or(crate::engine::limits::RETENTION_MS);
            let closed = run.head().close_time.expect("a closed run has a close time");
            let due = closed.saturating_add(core::time::Duration::from_millis(retention_ms));
            return std::vec![(timer(due, TimerKind::Retention), "a closed run")];
        }
        if run.head().timeout_pending {
            let due = run.base.timeout.as_ref().expect("it is pending").due;
            expected.push((timer(due, TimerKind::FlowTimeout), "a Flow's timeout"));
        }
        if let Some(closing) = &run.head().closing {
            expected.push((timer(closing.until, TimerKind::Closing), "a closing run"));
        }
        for (id, step) in run.steps.iter() {
            expected.extend(self.key_of(run, id, step, judges_waits, &timer));
        }
        expected
    }

    fn key_of(
        &self,
        run: &Run,
        id: &StepExecutionId,
        step: &StepRecord,
        judges_waits: bool,
        timer: &dyn Fn(crate::time::Timestamp, TimerKind) -> Vec<u8>,
    ) -> Option<(Vec<u8>, &'static str)> {
        match &step.phase {
            StepPhase::Delayed(due) => {
                Some((timer(*due, TimerKind::StartDelay(id.clone())), "a delayed Step"))
            }
            StepPhase::BackingOff(due) => {
                Some((timer(*due, TimerKind::Backoff(id.clone())), "a Step that backs off"))
            }
            StepPhase::Queued(work) => Some((keys::work(*work), "a queued Step")),
            StepPhase::Running { work, handout, .. } => {
                assert!(self.engine.cx.running.contains_key(handout), "{id} runs with nobody");
                Some((keys::work(*work), "a running Step"))
            }
            StepPhase::Waiting(progress) => {
                let wait = step.wait.as_ref().expect("a waiting Step has a Wait");
                let over = wait::evaluate(wait, progress, &|channel| run.channel_size(channel));
                assert!(over.is_none() || judges_waits, "{id} waits for what is there");
                let due = progress.next_due()?;
                Some((timer(due, TimerKind::Condition(id.clone())), "a waiting Step"))
            }
        }
    }
}

/// The run, if this is the key of a timer that says its Waits are still to be judged.
fn waits_timer(key: &[u8]) -> Option<(RunId, Vec<u8>)> {
    let timer = keys::parse_timer(key).filter(|timer| timer.kind == TimerKind::Waits)?;
    Some((timer.run_id, key.to_vec()))
}

fn runs(contents: &BTreeMap<Vec<u8>, Vec<u8>>) -> Vec<RunId> {
    let bases = contents.keys().filter(|key| key.first() == Some(&b'r') && keys::part_of(key) == Some(b'b'));
    bases
        .map(|key| {
            let bytes: [u8; 16] = key[1..17].try_into().expect("a run's key carries its ID");
            RunId(u128::from_be_bytes(bytes))
        })
        .collect()
}
