//! The appender against a store that does everything a store may do.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Place;
use std::vec;
use std::vec::Vec;

use core::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::ids::{Epoch, Name, ProcessId};
use crate::log::Chain;
use crate::store::Version;

/// What happens to one request.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Answered,
    /// It takes effect; the answer is lost.
    AnswerLost,
    /// It takes effect; the answer says that it may or may not have.
    AnswerUnclear,
    /// It never takes effect, and there is no answer.
    Lost,
    /// It never takes effect; the answer says that it may have.
    Failed,
    /// A conflict that changed nothing (409).
    Conflict,
    /// It takes effect, and is answered, after everything sent meanwhile.
    Late,
    /// Before it arrives, a successor has written its fence.
    Overtaken,
}

fn any_fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        8 => Just(Fate::Answered),
        1 => Just(Fate::AnswerLost),
        1 => Just(Fate::AnswerUnclear),
        1 => Just(Fate::Lost),
        1 => Just(Fate::Failed),
        1 => Just(Fate::Conflict),
        1 => Just(Fate::Late),
    ]
}

fn any_fates() -> impl Strategy<Value = Vec<Fate>> {
    let overtaken = prop_oneof![9 => Just(false), 1 => Just(true)];
    (proptest::collection::vec(any_fate(), 1..60), overtaken).prop_map(|(mut fates, overtaken)| {
        if overtaken {
            fates.push(Fate::Overtaken);
        }
        fates
    })
}

fn origin(epoch: u64) -> Origin {
    Origin { node_id: Name::new("orders"), process_id: ProcessId(u128::from(epoch)), epoch: Epoch(epoch) }
}

fn found(body: Blob) -> ReadOutcome {
    ReadOutcome::Found { version: Version(Blob::default()), body, stamp_ms: None }
}

struct World {
    appender: Appender,
    now: Instant,
    entries: BTreeMap<u64, Blob>,
    late: Vec<AppenderOutput>,
    gathered: Vec<(Position, Change)>,
    applied: Vec<Change>,
    chain: Chain,
    failed: Option<StopReason>,
}

impl World {
    fn gather(&mut self, number: u8) {
        let change = Change { key: vec![number], value: None };
        let position =
            self.appender.gather(Timestamp::ZERO, vec![change.clone()]).expect("a change of one byte");
        self.gathered.push((position, change));
    }

    /// Takes effect in the store and says what the store would answer.
    fn perform(&mut self, output: &AppenderOutput) -> AppenderInput {
        match output {
            AppenderOutput::Write { request, position, entry } => {
                let outcome = match self.entries.entry(position.0) {
                    Place::Occupied(_) => WriteOutcome::Refused,
                    Place::Vacant(free) => {
                        free.insert(entry.clone());
                        WriteOutcome::Done { version: Version(Blob::default()) }
                    }
                };
                AppenderInput::Written { request: *request, outcome }
            }
            AppenderOutput::Read { request, position } => {
                let outcome = self.entries.get(&position.0).cloned().map_or(ReadOutcome::Missing, found);
                AppenderInput::Read { request: *request, outcome }
            }
            AppenderOutput::Apply { .. } | AppenderOutput::Failed(_) => panic!("no request: {output:?}"),
        }
    }

    fn unclear(output: &AppenderOutput) -> AppenderInput {
        match output {
            AppenderOutput::Read { request, .. } => AppenderInput::Read {
                request: *request,
                outcome: ReadOutcome::Transient { retry_after_ms: None },
            },
            AppenderOutput::Write { request, .. } => AppenderInput::Written {
                request: *request,
                outcome: WriteOutcome::Transient { retry_after_ms: None },
            },
            AppenderOutput::Apply { .. } | AppenderOutput::Failed(_) => panic!("no request: {output:?}"),
        }
    }

    fn request(&mut self, output: AppenderOutput, fate: Fate) {
        let input = match fate {
            Fate::Answered => Some(self.perform(&output)),
            Fate::AnswerLost => {
                self.perform(&output);
                None
            }
            Fate::AnswerUnclear => {
                self.perform(&output);
                Some(Self::unclear(&output))
            }
            Fate::Lost => None,
            Fate::Failed => Some(Self::unclear(&output)),
            Fate::Conflict => Some(match output {
                AppenderOutput::Write { request, .. } => {
                    AppenderInput::Written { request, outcome: WriteOutcome::Refused }
                }
                AppenderOutput::Read { .. } | AppenderOutput::Apply { .. } | AppenderOutput::Failed(_) => {
                    Self::unclear(&output)
                }
            }),
            Fate::Late => {
                self.late.push(output);
                None
            }
            Fate::Overtaken => {
                self.overtake();
                Some(self.perform(&output))
            }
        };
        if let Some(input) = input {
            self.appender.handle(self.now, input);
        }
    }

    /// A successor's fence, at the end of the log.
    fn overtake(&mut self) {
        let position = self.entries.keys().last().map_or(1, |last| last + 1);
        let fence = Entry {
            origin: origin(2),
            position: Position(position),
            nonce: 0,
            time: Timestamp::ZERO,
            previous: Chain::default(),
            body: EntryBody::Fence { lease_duration_ms: 1 },
        };
        self.entries.insert(position, fence.encode().0);
    }

    fn answer_late(&mut self) {
        for output in core::mem::take(&mut self.late) {
            let input = self.perform(&output);
            self.appender.handle(self.now, input);
        }
    }

    /// What was applied is in the store, in order, linked, and nothing else is said to be durable.
    fn apply(&mut self, end: LogEnd, changes: Vec<Change>) {
        assert_eq!(self.failed, None, "nothing is applied after a failure");
        let bytes = self.entries.get(&end.position.0).expect("an applied entry is in the log");
        let (entry, chain) = Entry::decode(bytes, "orders").expect("an applied entry can be read");
        assert_eq!(entry.origin, origin(1));
        assert_eq!((chain, entry.previous), (end.chain, self.chain));
        assert_eq!(entry.body, EntryBody::Changes(changes.clone()));
        self.chain = chain;
        self.applied.extend(changes);
        let gathered = self.gathered.iter().take_while(|(position, _)| *position <= end.position);
        assert!(gathered.map(|(_, change)| change).eq(&self.applied));
    }

    fn drain(&mut self, fates: &mut impl Iterator<Item = Fate>) {
        while let Some(output) = self.appender.poll_output(self.now) {
            assert_eq!(self.failed, None, "nothing is wanted after a failure");
            match output {
                AppenderOutput::Write { .. } | AppenderOutput::Read { .. } => {
                    let fate = fates.next().unwrap_or(Fate::Answered);
                    self.request(output, fate);
                }
                AppenderOutput::Apply { end, changes } => self.apply(end, changes),
                AppenderOutput::Failed(reason) => self.failed = Some(reason),
            }
        }
    }
}

proptest! {
    #[test]
    fn d_010_what_is_acknowledged_is_in_the_log_once_whatever_the_store_does(
        fates in any_fates(),
        seed in any::<u64>(),
        gathers in proptest::collection::vec(0..3u8, 1..40),
    ) {
        let mut world = World {
            appender: Appender::new(origin(1), LogEnd::default(), seed),
            now: Instant::from_millis(1),
            entries: BTreeMap::new(),
            late: vec![],
            gathered: vec![],
            applied: vec![],
            chain: Chain::default(),
            failed: None,
        };
        let overtaken = matches!(fates.last(), Some(Fate::Overtaken));
        let mut fates = fates.into_iter();
        for (number, count) in gathers.iter().enumerate() {
            for _ in 0..*count {
                world.gather(u8::try_from(number).expect("few"));
            }
            world.drain(&mut fates);
            if count % 2 == 0 {
                world.answer_late();
                world.drain(&mut fates);
            }
        }
        // Time goes by until everything is decided.
        while let Some(due) = world.appender.poll_timeout() {
            world.now = world.now.max(due);
            world.appender.handle_timeout(world.now);
            world.drain(&mut fates);
        }
        world.now = world.now.saturating_add(Duration::from_secs(60));
        world.answer_late();
        world.drain(&mut core::iter::empty());
        match world.failed {
            None => {
                prop_assert!(world.appender.is_idle());
                prop_assert_eq!(world.applied.len(), world.gathered.len());
            }
            Some(StopReason::LeaseTaken) => prop_assert!(overtaken),
            Some(reason) => prop_assert_eq!(reason, StopReason::LogWriteTimeout),
        }
    }
}
