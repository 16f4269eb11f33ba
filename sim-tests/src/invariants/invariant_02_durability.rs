//! Invariant 2: every effect whose acknowledgement left is in the log before it leaves (D-48), and in
//! every later state: the audit at the end of the run must find it.
//!
//! Not checked: unpersisted ASYNC work, checkpoints and modes without a sync are exempt by the rule
//! itself. Reads are checked only for what they wait for, not for what they say.

use std::collections::{BTreeMap, BTreeSet};

use dexzd_core::engine::{Answer, Call, EventKind, FlowStatus};
use dexzd_core::ids::{MessageId, Name, RunId};
use dexzd_io_sim::TrueTime;
use dexzd_io_sim::watch::{Audit, Seen, Watcher};

/// See the module.
#[derive(Default, Debug)]
pub struct AcknowledgedStays {
    promises: BTreeMap<Name, Promises>,
    audited: BTreeSet<Name>,
}

#[derive(Default, Debug)]
struct Promises {
    run_id: Option<RunId>,
    published: BTreeMap<Name, Vec<MessageId>>,
    skipped: BTreeSet<Name>,
    stopped: BTreeSet<Name>,
    status: Option<FlowStatus>,
}

impl Watcher for AcknowledgedStays {
    fn rule(&self) -> &'static str {
        "invariant 2 (durability)"
    }

    fn observe(&mut self, _at: TrueTime, seen: &Seen<'_>) -> Result<(), String> {
        match seen {
            Seen::AnswerLeft { process, durable, after, request, answer, .. } => {
                if after > durable {
                    return Err(format!("p{process} answered at {durable} what is durable only at {after}"));
                }
                if let Ok(answer) = answer {
                    self.promise(request, answer)?;
                }
            }
            Seen::TaskLeft { process, durable, after, task, .. } if after > durable => {
                return Err(format!(
                    "p{process} handed out {} of {} at {durable}, whose start is durable only at {after}",
                    task.step, task.flow_id
                ));
            }
            Seen::Audit(audit) => self.audit(audit)?,
            _ => {}
        }
        Ok(())
    }
}

impl AcknowledgedStays {
    fn promise(&mut self, request: &Call, answer: &Answer) -> Result<(), String> {
        match (request, answer) {
            (Call::Start(start), Answer::Started { run_id, .. }) => {
                let promises = self.promises.entry(start.flow_id.clone()).or_default();
                let known = *promises.run_id.get_or_insert(*run_id);
                if known != *run_id {
                    return Err(format!("{} was started twice: {known} and {run_id}", start.flow_id));
                }
            }
            (Call::Publish { request_id, target, .. }, Answer::Published(ids)) => {
                let promises = self.promises.entry(target.flow_id.clone()).or_default();
                let known = promises.published.entry(request_id.clone()).or_insert_with(|| ids.clone());
                if known != ids {
                    return Err(format!("{request_id} was published twice: {known:?} and {ids:?}"));
                }
            }
            (Call::SkipTimer { request_id, target, .. }, Answer::Skipped { .. }) => {
                let promises = self.promises.entry(target.flow_id.clone()).or_default();
                promises.skipped.insert(request_id.clone());
            }
            (Call::Stop { request_id, target, .. }, Answer::Done) => {
                let promises = self.promises.entry(target.flow_id.clone()).or_default();
                promises.stopped.insert(request_id.clone());
            }
            (Call::WaitForFlow { target, .. }, Answer::FlowResult(result)) => {
                let promises = self.promises.entry(target.flow_id.clone()).or_default();
                let known = *promises.status.get_or_insert(result.status);
                if known != result.status {
                    return Err(format!("{} closed {known:?} and {:?}", target.flow_id, result.status));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn audit(&mut self, audit: &Audit) -> Result<(), String> {
        let flow_id = Name::new(&audit.flow_id);
        let Some(promises) = self.promises.get(&flow_id) else {
            return Ok(());
        };
        let Some(state) = &audit.state else {
            return Err(format!("{flow_id} was acknowledged and is gone"));
        };
        if let Some(run_id) = promises.run_id
            && run_id != state.summary.run_id
        {
            return Err(format!("{flow_id} was acknowledged as {run_id} and is {}", state.summary.run_id));
        }
        if let Some(status) = promises.status
            && status != state.summary.status
        {
            return Err(format!("{flow_id} was said to be {status:?} and is {:?}", state.summary.status));
        }
        for (request, ids) in &promises.published {
            let found = audit.history.iter().any(|event| {
                matches!(&event.kind, EventKind::Published { request_id, messages, .. }
                    if request_id == request && messages == ids)
            });
            if !found {
                return Err(format!("{request} was acknowledged and is not in the history of {flow_id}"));
            }
        }
        for request in &promises.stopped {
            let found = audit.history.iter().any(|event| {
                matches!(&event.kind, EventKind::StopRequested { request_id, .. } if request_id == request)
            });
            if !found {
                return Err(format!("{request} was acknowledged and is not in the history of {flow_id}"));
            }
        }
        self.audited.insert(flow_id);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::AcknowledgedStays;
    use crate::invariants::made_up::tell;
    use dexzd_core::engine::{Answer, Call, StartFlow};
    use dexzd_core::ids::{CallId, Epoch, Name, Position, RunId};
    use dexzd_io_sim::watch::{Audit, Seen};

    fn start() -> Call {
        Call::Start(Box::new(StartFlow { flow_id: Name::from("f"), ..StartFlow::default() }))
    }

    #[test]
    fn an_answer_that_leaves_too_early_is_seen() {
        let (request, answer) = (start(), Ok(Answer::Started { run_id: RunId(1), newly: true }));
        let left = Seen::AnswerLeft {
            process: 0,
            call: CallId(1),
            epoch: Epoch(1),
            durable: Position(4),
            after: Position(5),
            request: &request,
            answer: &answer,
        };
        let sentence = "p0 answered at 4 what is durable only at 5".to_owned();
        assert_eq!(tell(AcknowledgedStays::default(), &[(0, left)]), Err(sentence));
    }

    #[test]
    fn a_flow_that_is_gone_is_seen() {
        let (request, answer) = (start(), Ok(Answer::Started { run_id: RunId(1), newly: true }));
        let left = Seen::AnswerLeft {
            process: 0,
            call: CallId(1),
            epoch: Epoch(1),
            durable: Position(5),
            after: Position(5),
            request: &request,
            answer: &answer,
        };
        let audit = Audit { flow_id: "f".to_owned(), ..Audit::default() };
        let story = [(0, left), (1, Seen::Audit(&audit))];
        let sentence = "f was acknowledged and is gone".to_owned();
        assert_eq!(tell(AcknowledgedStays::default(), &story), Err(sentence));
    }

    #[test]
    fn two_runs_for_one_request_are_seen() {
        let request = start();
        let answers = [1, 2].map(|run| Ok(Answer::Started { run_id: RunId(run), newly: true }));
        let story = answers.each_ref().map(|answer| {
            let (durable, after) = (Position(5), Position(5));
            let (process, call, epoch, request) = (0, CallId(1), Epoch(1), &request);
            (0, Seen::AnswerLeft { process, call, epoch, durable, after, request, answer })
        });
        assert!(tell(AcknowledgedStays::default(), &story).is_err());
    }
}
