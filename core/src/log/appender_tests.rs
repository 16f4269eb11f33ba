use std::vec;
use std::vec::Vec;

use super::super::entry::Chain;
use super::super::write::WRITE_LIMIT;
use super::*;
use crate::ids::{Epoch, Name, ProcessId};
use crate::store::Version;

fn origin() -> Origin {
    Origin { node_id: Name::new("orders"), process_id: ProcessId(7), epoch: Epoch(3) }
}

fn fence_end() -> LogEnd {
    LogEnd { position: Position(10), chain: Chain([1; 32]) }
}

fn at_ms(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

fn change(key: &str) -> Vec<Change> {
    vec![Change { key: key.as_bytes().to_vec(), value: Some(vec![1]) }]
}

fn change_of(bytes: usize) -> Vec<Change> {
    let mut change = change("");
    let overhead = changes_bytes(&change);
    change[0].key = vec![0; bytes - overhead];
    change
}

fn done() -> WriteOutcome {
    WriteOutcome::Done { version: Version(Blob::default()) }
}

fn found(body: Blob) -> ReadOutcome {
    ReadOutcome::Found { version: Version(Blob::default()), body, stamp_ms: None }
}

const TRANSIENT_WRITE: WriteOutcome = WriteOutcome::Transient { retry_after_ms: None };

/// An appender and the clock it is driven by.
struct Driver {
    appender: Appender,
    now: Instant,
}

impl Driver {
    fn new() -> Self {
        Self { appender: Appender::new(origin(), fence_end(), 1), now: at_ms(50_000) }
    }

    fn gather(&mut self, changes: Vec<Change>) -> u64 {
        self.appender.gather(Timestamp::from_millis(5), changes).expect("small enough").0
    }

    fn outputs(&mut self) -> Vec<AppenderOutput> {
        core::iter::from_fn(|| self.appender.poll_output(self.now)).collect()
    }

    /// The one output, which must be a write.
    fn write(&mut self) -> (RequestId, Position, Blob) {
        match &self.outputs()[..] {
            [AppenderOutput::Write { request, position, entry }] => (*request, *position, entry.clone()),
            other => panic!("one write was expected: {other:?}"),
        }
    }

    /// The one output, which must be a read.
    fn read(&mut self) -> (RequestId, Position) {
        match self.outputs()[..] {
            [AppenderOutput::Read { request, position }] => (request, position),
            ref other => panic!("one read was expected: {other:?}"),
        }
    }

    fn answer_write(&mut self, request: RequestId, outcome: WriteOutcome) {
        self.appender.handle(self.now, AppenderInput::Written { request, outcome });
    }

    fn answer_read(&mut self, request: RequestId, outcome: ReadOutcome) {
        self.appender.handle(self.now, AppenderInput::Read { request, outcome });
    }

    /// Lets time pass until something is due, and says how much it was.
    fn wait(&mut self) -> core::time::Duration {
        let due = self.appender.poll_timeout().expect("something is due");
        let waited = due.saturating_since(self.now);
        self.now = due;
        self.appender.handle_timeout(due);
        waited
    }

    fn applied(&mut self, end: u64, changes: Vec<Change>) {
        let chain = self.appender.end().chain;
        let position = Position(end);
        assert_eq!(
            self.appender.poll_output(self.now),
            Some(AppenderOutput::Apply { end: LogEnd { position, chain }, changes })
        );
    }
}

fn decoded(entry: &Blob) -> (Entry, Chain) {
    Entry::decode(entry, "orders").expect("the appender writes entries")
}

fn failed(reason: StopReason) -> Vec<AppenderOutput> {
    vec![AppenderOutput::Failed(reason)]
}

#[test]
fn d_010_one_write_is_in_flight_and_what_gathers_meanwhile_shares_the_next_entry() {
    let mut driver = Driver::new();
    assert!(driver.appender.is_idle());
    assert_eq!(driver.outputs(), []);
    assert_eq!(driver.gather(change("a")), 11);
    let (request, position, first) = driver.write();
    assert_eq!(position, Position(11));
    assert_eq!(driver.gather(change("b")), 12);
    assert_eq!(driver.gather(change("c")), 12);
    assert_eq!(driver.outputs(), []);
    assert_eq!(driver.appender.durable(), Position(10));
    assert_eq!(driver.appender.gathered(), Position(12));

    driver.answer_write(request, done());
    assert_eq!(driver.appender.durable(), Position(11));
    driver.applied(11, change("a"));
    let (request, position, second) = driver.write();
    assert_eq!(position, Position(12));
    driver.answer_write(request, done());
    driver.applied(12, [change("b"), change("c")].concat());
    assert_eq!(driver.outputs(), []);
    assert!(driver.appender.is_idle());

    let (first, first_chain) = decoded(&first);
    let (second, second_chain) = decoded(&second);
    assert_eq!(first.follows(&fence_end()), Ok(()));
    assert_eq!(second.follows(&LogEnd { position: Position(11), chain: first_chain }), Ok(()));
    assert_eq!(driver.appender.end().chain, second_chain);
    assert_ne!(first.nonce, second.nonce);
    assert_eq!(first.origin, origin());
}

#[test]
fn d_010_no_changes_wait_for_what_was_gathered_before() {
    let mut driver = Driver::new();
    assert_eq!(driver.gather(vec![]), 10);
    assert_eq!(driver.outputs(), []);
    driver.gather(change("a"));
    assert_eq!(driver.gather(vec![]), 11);
}

#[test]
fn d_039_an_entry_carries_its_newest_time() {
    let mut driver = Driver::new();
    for millis in [7, 9, 8] {
        driver.appender.gather(Timestamp::from_millis(millis), change("a")).expect("small enough");
    }
    let (_, _, entry) = driver.write();
    assert_eq!(decoded(&entry).0.time, Timestamp::from_millis(9));
}

#[test]
fn d_056_decisions_share_an_entry_up_to_eight_mebibytes() {
    let mut driver = Driver::new();
    assert_eq!(driver.gather(change_of(SHARED_ENTRY_BYTES - 100)), 11);
    assert_eq!(driver.gather(change_of(100)), 11);
    assert_eq!(driver.gather(change_of(100)), 12);
    assert_eq!(driver.appender.gathered_bytes(), SHARED_ENTRY_BYTES + 100);
}

#[test]
fn d_056_a_larger_decision_goes_alone() {
    let mut driver = Driver::new();
    assert_eq!(driver.gather(change("a")), 11);
    assert_eq!(driver.gather(change_of(DECISION_BYTES)), 12);
    assert_eq!(driver.gather(change("b")), 13);
    for position in 11..=13 {
        let (request, at, _) = driver.write();
        assert_eq!(at, Position(position));
        driver.answer_write(request, done());
        assert!(matches!(driver.appender.poll_output(driver.now), Some(AppenderOutput::Apply { .. })));
    }
}

#[test]
fn d_056_review_12_13_above_thirty_two_mebibytes_nothing_is_gathered() {
    let mut driver = Driver::new();
    assert_eq!(
        driver.appender.gather(Timestamp::ZERO, change_of(DECISION_BYTES + 1)),
        Err(TooLarge { bytes: DECISION_BYTES + 1 })
    );
    assert!(driver.appender.is_idle());
}

#[test]
fn lesson_c1_a_refusal_by_the_own_lost_write_is_accepted_once() {
    let mut driver = Driver::new();
    driver.gather(change("a"));
    let (request, _, entry) = driver.write();
    // It lands, the answer is lost, and the retry meets it.
    driver.answer_write(request, TRANSIENT_WRITE);
    driver.wait();
    let (again, position, same) = driver.write();
    assert_ne!(again, request);
    assert_eq!((position, &same), (Position(11), &entry));
    driver.answer_write(again, WriteOutcome::Refused);
    let (read, position) = driver.read();
    assert_eq!(position, Position(11));
    driver.answer_read(read, found(entry));
    driver.applied(11, change("a"));
    // A late positive answer of the first try changes nothing any more.
    driver.answer_write(request, done());
    assert_eq!(driver.outputs(), []);
    assert_eq!(driver.appender.durable(), Position(11));
}

#[test]
fn lesson_c2_review_4_7_a_conflict_that_changed_nothing_is_read_back_and_sent_again() {
    let mut driver = Driver::new();
    driver.gather(change("a"));
    let (request, _, entry) = driver.write();
    driver.answer_write(request, WriteOutcome::Refused);
    let (read, _) = driver.read();
    driver.answer_read(read, ReadOutcome::Missing);
    assert_eq!(driver.outputs(), []);
    driver.wait();
    let (request, _, same) = driver.write();
    assert_eq!(entry, same);
    driver.answer_write(request, done());
    driver.applied(11, change("a"));
}

#[test]
fn lesson_c5_every_answer_to_a_log_write_is_mapped() {
    // 304, 404, 409 and 412 arrive as Refused, 501 as Permanent.
    let rows = [
        (WriteOutcome::Permanent, StopReason::StoragePermanent),
        (WriteOutcome::LocalFailure, StopReason::LocalStoreFailed),
        (WriteOutcome::LockReplaced, StopReason::DevLockReplaced),
    ];
    for (outcome, reason) in rows {
        let mut driver = Driver::new();
        driver.gather(change("a"));
        let (request, _, _) = driver.write();
        driver.answer_write(request, outcome);
        assert_eq!(driver.outputs(), failed(reason));
    }
    let mut driver = Driver::new();
    driver.gather(change("a"));
    let (request, _, _) = driver.write();
    driver.answer_write(request, WriteOutcome::Refused);
    driver.read();
}

#[test]
fn lesson_c5_every_answer_to_a_read_back_is_mapped() {
    let rows = [
        (ReadOutcome::Permanent, StopReason::StoragePermanent),
        (ReadOutcome::LocalFailure, StopReason::LocalStoreFailed),
        (found(Blob::default()), StopReason::LogUnreadable),
    ];
    for (outcome, reason) in rows {
        let mut driver = Driver::new();
        driver.gather(change("a"));
        let (request, _, _) = driver.write();
        driver.answer_write(request, WriteOutcome::Refused);
        let (read, _) = driver.read();
        driver.answer_read(read, outcome);
        assert_eq!(driver.outputs(), failed(reason));
    }
}

#[test]
fn d_010_a_failed_read_back_is_read_again_and_not_written() {
    let mut driver = Driver::new();
    driver.gather(change("a"));
    let (request, _, entry) = driver.write();
    driver.answer_write(request, WriteOutcome::Refused);
    let (read, _) = driver.read();
    let retry_after_ms = Some(700);
    driver.answer_read(read, ReadOutcome::Transient { retry_after_ms });
    assert_eq!(driver.wait(), core::time::Duration::from_millis(700));
    let (read, _) = driver.read();
    driver.answer_read(read, found(entry));
    driver.applied(11, change("a"));
}

#[test]
fn d_010_an_own_entry_that_comes_back_damaged_is_not_taken_for_anothers() {
    let mut driver = Driver::new();
    driver.gather(change("a"));
    let (request, _, entry) = driver.write();
    driver.answer_write(request, WriteOutcome::Refused);
    let (read, _) = driver.read();
    driver.answer_read(read, found(Blob::from(&entry[..entry.len() / 2])));
    assert_eq!(driver.outputs(), failed(StopReason::LogUnreadable));
}

#[test]
fn d_010_review_12_3_an_entry_that_differs_in_one_nonce_is_anothers() {
    let mut driver = Driver::new();
    driver.gather(change("a"));
    let (request, _, entry) = driver.write();
    let (mut twin, _) = decoded(&entry);
    twin.nonce += 1;
    driver.answer_write(request, WriteOutcome::Refused);
    let (read, _) = driver.read();
    driver.answer_read(read, found(twin.encode().0));
    assert_eq!(driver.outputs(), failed(StopReason::LeaseTaken));
}

#[test]
fn review_4_4_ha_014_a_successors_fence_at_the_position_stops_the_process() {
    let mut driver = Driver::new();
    driver.gather(change("a"));
    let (request, position, _) = driver.write();
    let fence = Entry {
        origin: Origin { node_id: Name::new("orders"), process_id: ProcessId(8), epoch: Epoch(4) },
        position,
        nonce: 1,
        time: Timestamp::ZERO,
        previous: fence_end().chain,
        body: EntryBody::Fence { lease_duration_ms: 10_000 },
    };
    driver.answer_write(request, WriteOutcome::Refused);
    let (read, _) = driver.read();
    driver.answer_read(read, found(fence.encode().0));
    assert_eq!(driver.outputs(), failed(StopReason::LeaseTaken));
    // Nothing that was promised can be taken for durable, and nothing more is written.
    assert_eq!(driver.gather(change("b")), 12);
    assert_eq!(driver.appender.durable(), Position(10));
    assert_eq!(driver.outputs(), []);
    assert_eq!(driver.appender.poll_timeout(), None);
    driver.answer_write(request, done());
    assert_eq!(driver.appender.durable(), Position(10));
}

#[test]
fn ha_031_a_permanent_error_does_not_use_up_the_ten_seconds() {
    let mut driver = Driver::new();
    driver.gather(change("a"));
    let (request, _, _) = driver.write();
    driver.answer_write(request, WriteOutcome::Permanent);
    assert_eq!(driver.outputs(), failed(StopReason::StoragePermanent));
    assert_eq!(driver.now, at_ms(50_000));
}

#[test]
fn ha_032_a_write_that_is_never_answered_stops_the_process_after_ten_seconds() {
    let mut driver = Driver::new();
    driver.gather(change("a"));
    let start = driver.now;
    let mut requests = Vec::new();
    let outputs = loop {
        match driver.outputs() {
            outputs if outputs == failed(StopReason::LogWriteTimeout) => break outputs,
            outputs => {
                for output in outputs {
                    let AppenderOutput::Write { request, .. } = output else {
                        panic!("only writes are sent: {output:?}");
                    };
                    requests.push(request);
                }
            }
        }
        driver.wait();
    };
    assert_eq!(outputs, failed(StopReason::LogWriteTimeout));
    assert_eq!(driver.now.saturating_since(start), WRITE_LIMIT);
    // Cut off after 3 s and sent anew; the fourth has what is left.
    assert_eq!(requests.len(), 4);
}

#[test]
fn ha_032_transient_failures_are_retried_until_ten_seconds_are_over() {
    let mut driver = Driver::new();
    driver.gather(change("a"));
    let start = driver.now;
    let mut delays_ms = Vec::new();
    loop {
        for output in driver.outputs() {
            match output {
                AppenderOutput::Write { request, .. } => {
                    driver.answer_write(request, TRANSIENT_WRITE);
                }
                AppenderOutput::Failed(reason) => {
                    assert_eq!(reason, StopReason::LogWriteTimeout);
                    assert_eq!(driver.now.saturating_since(start), WRITE_LIMIT);
                    assert_delays(&delays_ms);
                    return;
                }
                AppenderOutput::Read { .. } | AppenderOutput::Apply { .. } => {
                    panic!("not expected: {output:?}")
                }
            }
        }
        delays_ms.push(driver.wait().as_millis());
    }
}

/// 100 ms doubling to 1 s, each drawn from [½, 1]; the last wait ends with the limit.
fn assert_delays(delays_ms: &[u128]) {
    let full = [100, 200, 400, 800].into_iter().chain(core::iter::repeat(1_000));
    let (_, but_last) = delays_ms.split_last().expect("there were retries");
    assert!(but_last.len() >= 11, "{delays_ms:?}");
    for (delay, full) in but_last.iter().zip(full) {
        assert!((full / 2..=full).contains(delay), "{delays_ms:?}");
    }
}

#[test]
fn ha_032_the_limit_counts_anew_for_every_entry() {
    let mut driver = Driver::new();
    for position in 11..14 {
        driver.gather(change("a"));
        let (request, _, _) = driver.write();
        driver.now = driver.now.saturating_add(core::time::Duration::from_secs(9));
        driver.answer_write(request, done());
        driver.applied(position, change("a"));
    }
}

#[test]
fn ha_033_the_limit_is_ten_seconds() {
    assert_eq!(WRITE_LIMIT, core::time::Duration::from_secs(10));
}

#[test]
fn d_057_an_acceptance_that_was_received_goes_before_the_limit_that_passed() {
    let mut driver = Driver::new();
    driver.gather(change("a"));
    let (request, _, _) = driver.write();
    // The process was frozen; the answer has been waiting in the queue.
    driver.now = driver.now.saturating_add(core::time::Duration::from_secs(11));
    driver.answer_write(request, done());
    driver.applied(11, change("a"));
}

#[test]
fn d_010_a_late_acceptance_of_a_request_that_was_given_up_counts() {
    let mut driver = Driver::new();
    driver.gather(change("a"));
    let (first, _, _) = driver.write();
    driver.wait();
    driver.wait();
    let (second, _, _) = driver.write();
    driver.answer_write(first, done());
    driver.applied(11, change("a"));
    // The second meets the first: an answer that nobody waits for.
    driver.gather(change("b"));
    driver.write();
    driver.answer_write(second, WriteOutcome::Refused);
    assert_eq!(driver.outputs(), []);
}

#[test]
fn d_010_a_late_refusal_of_a_request_that_was_given_up_decides_nothing() {
    let mut driver = Driver::new();
    driver.gather(change("a"));
    let (first, _, _) = driver.write();
    driver.wait();
    driver.wait();
    driver.write();
    driver.answer_write(first, WriteOutcome::Refused);
    assert_eq!(driver.outputs(), []);
}

#[test]
fn d_033_a_failed_disk_is_never_tried_again() {
    let mut driver = Driver::new();
    driver.gather(change("a"));
    driver.gather(change("b"));
    let (request, _, _) = driver.write();
    driver.answer_write(request, WriteOutcome::LocalFailure);
    assert_eq!(driver.outputs(), failed(StopReason::LocalStoreFailed));
    driver.appender.handle_timeout(driver.now.saturating_add(WRITE_LIMIT));
    assert_eq!(driver.outputs(), []);
}

#[test]
fn d_045_a_replaced_lock_stops_before_the_acknowledgement() {
    let mut driver = Driver::new();
    driver.gather(change("a"));
    let (request, _, _) = driver.write();
    driver.answer_write(request, WriteOutcome::LockReplaced);
    assert_eq!(driver.outputs(), failed(StopReason::DevLockReplaced));
    assert_eq!(driver.appender.durable(), Position(10));
}

#[test]
fn d_010_equal_seeds_and_inputs_give_equal_entries() {
    let run = || {
        let mut driver = Driver::new();
        driver.gather(change("a"));
        driver.write().2
    };
    assert_eq!(run(), run());
}
