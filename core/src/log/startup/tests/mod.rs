mod model;
mod shell;

use std::vec;

use core::time::Duration;

use self::shell::*;
use super::*;
use crate::ids::{Epoch, Name};
use crate::log::entry::Chain;
use crate::log::write::WRITE_LIMIT;
use crate::store::WriteOutcome;

#[test]
fn d_042_the_first_start_writes_its_fence_at_position_one() {
    let mut shell = Shell::new(Log::default(), LogEnd::default());
    assert_eq!(shell.run_to_ready(), (1, 1));
    let (position, bytes) = &shell.written[0];
    let (entry, _) = Entry::decode(bytes, NODE).expect("an entry");
    assert_eq!(*position, 1);
    assert_eq!(entry.origin, origin(OWN));
    assert_eq!(entry.body, fence(10_000));
    assert_eq!(entry.previous, Chain::default());
    assert_eq!(shell.applied, vec![(1, vec![])]);
}

#[test]
fn d_043_a_local_store_that_the_log_confirms_is_continued() {
    let log = two_epochs();
    let local = log.end_at(3);
    let mut shell = Shell::new(log, local);
    assert_eq!(shell.run_to_ready(), (7, 4));
    assert_eq!(shell.discarded, vec![]);
    let replayed = [changes(5), changes(6)].concat();
    assert_eq!(shell.applied, vec![(6, replayed), (7, vec![])]);
}

#[test]
fn d_043_a_local_store_at_the_very_end_applies_only_the_fence() {
    let log = two_epochs();
    let local = log.end;
    let mut shell = Shell::new(log, local);
    assert_eq!(shell.run_to_ready(), (7, 1));
    assert_eq!(shell.listed, vec![7]);
}

#[test]
fn review_8_2_d_043_a_local_store_with_another_chain_is_rebuilt_from_the_log() {
    let log = two_epochs();
    let local = LogEnd { position: Position(3), chain: Chain([9; 32]) };
    let mut shell = Shell::new(log, local);
    assert_eq!(shell.run_to_ready(), (7, 7));
    assert_eq!(shell.discarded, vec![DiscardReason::OtherChain]);
    let rebuilt = [changes(2), changes(3), changes(5), changes(6)].concat();
    assert_eq!(shell.applied, vec![(6, rebuilt), (7, vec![])]);
}

#[test]
fn review_8_2_d_043_a_local_store_beyond_the_log_is_rebuilt() {
    let log = two_epochs();
    let local = LogEnd { position: Position(9), chain: Chain([9; 32]) };
    let mut shell = Shell::new(log, local);
    assert_eq!(shell.run_to_ready(), (7, 7));
    assert_eq!(shell.discarded, vec![DiscardReason::BeyondLog]);
}

#[test]
fn d_043_a_local_store_below_the_trim_bound_is_replaced_by_a_checkpoint() {
    let mut log = two_epochs();
    let (local, checkpoint) = (log.end_at(2), log.end_at(5));
    log.entries.retain(|position, _| *position >= 5);
    let mut shell = Shell::with(log, local, |options| options.trimmed_below = Position(5));
    shell.replacements = vec![checkpoint];
    assert_eq!(shell.run_to_ready(), (7, 2));
    assert_eq!(shell.discarded, vec![DiscardReason::BelowTrimBound]);
    assert_eq!(shell.applied, vec![(6, changes(6)), (7, vec![])]);
}

#[test]
fn d_043_a_local_store_exactly_at_the_trim_bound_is_used() {
    let mut log = two_epochs();
    let local = log.end_at(5);
    log.entries.retain(|position, _| *position >= 5);
    let mut shell = Shell::with(log, local, |options| options.trimmed_below = Position(5));
    assert_eq!(shell.run_to_ready(), (7, 2));
    assert_eq!(shell.discarded, vec![]);
}

#[test]
fn d_041_without_anything_to_rebuild_from_a_trimmed_log_is_a_hole() {
    let mut log = two_epochs();
    log.entries.retain(|position, _| *position >= 5);
    let mut shell = Shell::with(log, LogEnd::default(), |options| {
        options.trimmed_below = Position(5);
    });
    assert_eq!(shell.run_to_failure(), (StopReason::LogHole, 1, None));
}

#[test]
fn d_043_a_shell_that_goes_in_circles_is_stopped() {
    let log = two_epochs();
    let wrong = LogEnd { position: Position(3), chain: Chain([9; 32]) };
    let mut shell = Shell::new(log, wrong);
    shell.replacements = vec![wrong; 20];
    assert_eq!(shell.run_to_failure(), (StopReason::TakeoverFailed, 3, None));
}

#[test]
fn d_041_a_missing_entry_below_an_existing_one_is_a_hole() {
    let mut log = two_epochs();
    log.entries.remove(&5);
    let mut shell = Shell::new(log, LogEnd::default());
    assert_eq!(shell.run_to_failure(), (StopReason::LogHole, 5, None));
    assert_eq!(shell.listed, vec![5]);
}

#[test]
fn d_041_an_entry_written_between_two_looks_is_no_hole() {
    let full = two_epochs();
    let mut log = full.clone();
    log.entries.remove(&5);
    let mut shell = Shell::new(log, LogEnd::default());
    let StartupOutput::List { request, after } =
        shell.run_until(|output| matches!(output, StartupOutput::List { .. }))
    else {
        panic!("a listing was waited for")
    };
    assert_eq!(after, Position(5));
    shell.handle(StartupInput::Listed { request, outcome: ListOutcome::First(Some(Position(6))) });
    shell.log = full;
    assert_eq!(shell.run_to_ready(), (7, 7));
}

#[test]
fn review_4_4_d_042_a_late_entry_of_a_lower_epoch_is_applied_and_the_fence_goes_behind_it() {
    let log = two_epochs();
    let local = log.end;
    let mut shell = Shell::new(log, local);
    shell.run_until(|output| matches!(output, StartupOutput::List { .. }));
    // The listing sees nothing; then the old holder's write lands.
    shell.handle(StartupInput::Listed { request: RequestId(2), outcome: ListOutcome::First(None) });
    shell.log.push((2, 20), EntryBody::Changes(changes(7)));
    assert_eq!(shell.run_to_ready(), (8, 2));
    assert_eq!(shell.applied, vec![(7, changes(7)), (8, vec![])]);
    assert_eq!(shell.listed, vec![8]);
}

#[test]
fn review_4_11_an_old_active_that_stays_ahead_costs_a_round_for_each_entry_and_loses_none() {
    const ROUNDS: u64 = 5;
    let log = two_epochs();
    let local = log.end;
    let mut shell = Shell::new(log, local);
    for round in 0..ROUNDS {
        let output = shell.run_until(|output| matches!(output, StartupOutput::Write { .. }));
        let StartupOutput::Write { request, position, .. } = output else { panic!("a fence") };
        assert_eq!(position, Position(7 + round));
        // The old holder was faster again: it can be, until its next renewal is refused.
        shell.log.push((2, 20), EntryBody::Changes(changes(7 + round)));
        shell.handle(StartupInput::Written { request, outcome: WriteOutcome::Refused });
    }
    assert_eq!(shell.run_to_ready(), (7 + ROUNDS, 1 + ROUNDS));
    let entries = (0..ROUNDS).map(|round| (7 + round, changes(7 + round)));
    assert_eq!(shell.applied, entries.chain([(7 + ROUNDS, vec![])]).collect::<Vec<_>>());
}

/// A start that meets this entry at the fence's position.
fn fence_meets(writer: (u64, u128), body: EntryBody) -> StartupOutput {
    let log = two_epochs();
    let local = log.end;
    let mut shell = Shell::new(log, local);
    shell.run_until(|output| matches!(output, StartupOutput::List { .. }));
    shell.handle(StartupInput::Listed { request: RequestId(2), outcome: ListOutcome::First(None) });
    shell.log.push(writer, body);
    shell.run()
}

#[test]
fn d_042_review_4_6_a_fence_refused_by_an_equal_epoch_stops() {
    for writer in [OWN, (OWN.0, 77)] {
        assert_eq!(
            fence_meets(writer, fence(1)),
            StartupOutput::Failed { reason: StopReason::LeaseTaken, at: Position(7), error: None }
        );
    }
}

#[test]
fn d_055_a_fence_refused_by_a_higher_epoch_says_by_which() {
    assert_eq!(
        fence_meets((9, 90), fence(45_000)),
        StartupOutput::EpochBehind { found: Epoch(9), lease_duration_ms: Some(45_000) }
    );
}

#[test]
fn d_042_a_fence_refused_by_an_entry_that_does_not_fit_stops() {
    let log = two_epochs();
    let local = log.end;
    let mut shell = Shell::new(log, local);
    shell.run_until(|output| matches!(output, StartupOutput::List { .. }));
    shell.handle(StartupInput::Listed { request: RequestId(2), outcome: ListOutcome::First(None) });
    shell.log.end.chain = Chain([9; 32]);
    shell.log.push((2, 20), EntryBody::Changes(changes(7)));
    assert_eq!(shell.run_to_failure(), (StopReason::LeaseTaken, 7, Some(EntryError::BrokenChain)));
}

#[test]
fn d_055_a_higher_epoch_met_while_reading_ends_the_start() {
    let mut log = two_epochs();
    log.epoch((9, 90), 1);
    let mut shell = Shell::new(log, LogEnd::default());
    assert_eq!(shell.run(), StartupOutput::EpochBehind { found: Epoch(9), lease_duration_ms: Some(30_000) });
    assert_eq!(shell.written, vec![]);
}

#[test]
fn d_042_the_own_fence_whose_answer_was_lost_is_recognised() {
    let mut shell = Shell::new(Log::default(), LogEnd::default());
    let StartupOutput::Write { request, position, entry } =
        shell.run_until(|output| matches!(output, StartupOutput::Write { .. }))
    else {
        panic!("a write was waited for")
    };
    shell.log.entries.insert(position.0, entry);
    shell
        .handle(StartupInput::Written { request, outcome: WriteOutcome::Transient { retry_after_ms: None } });
    assert_eq!(shell.startup.poll_output(), None);
    shell.wait();
    assert_eq!(shell.run_to_ready(), (1, 1));
    assert_eq!(shell.written, vec![]);
}

#[test]
fn d_042_nothing_is_applied_or_written_before_the_lease_is_confirmed() {
    let mut shell = Shell::new(Log::default(), LogEnd::default());
    shell.run_until(|output| matches!(output, StartupOutput::FenceAccepted { .. }));
    assert_eq!(shell.startup.poll_output(), None);
    assert_eq!(shell.startup.poll_timeout(), None);
    assert_eq!(shell.applied, vec![]);
    shell.handle(StartupInput::LeaseConfirmed);
    assert_eq!(
        shell.startup.poll_output(),
        Some(StartupOutput::Apply { end: shell.log.end_at(1), changes: vec![] })
    );
}

#[test]
fn ha_032_a_fence_that_is_not_accepted_within_ten_seconds_stops() {
    let mut shell = Shell::new(Log::default(), LogEnd::default());
    loop {
        match shell.startup.poll_output() {
            Some(StartupOutput::Write { .. }) => {}
            Some(StartupOutput::Failed { reason, .. }) => {
                assert_eq!(reason, StopReason::LogWriteTimeout);
                break;
            }
            Some(StartupOutput::List { request, .. }) => {
                shell.handle(StartupInput::Listed { request, outcome: ListOutcome::First(None) })
            }
            Some(StartupOutput::Read { request, .. }) => {
                shell.handle(StartupInput::Read { request, entries: vec![], then: ReadEnd::Missing })
            }
            Some(other) => panic!("not expected: {other:?}"),
            None => {
                shell.wait();
            }
        }
    }
    assert_eq!(Duration::from_millis(shell.now_ms), WRITE_LIMIT);
}

#[test]
fn d_053_a_log_shorter_than_the_lease_says_stops() {
    let mut shell = Shell::with(two_epochs(), LogEnd::default(), |options| {
        options.log_end = Position(7);
    });
    assert_eq!(shell.run_to_failure(), (StopReason::LogShort, 6, None));
}

#[test]
fn d_053_a_log_as_long_as_the_lease_says_is_whole() {
    let mut shell = Shell::with(two_epochs(), LogEnd::default(), |options| {
        options.log_end = Position(6);
    });
    assert_eq!(shell.run_to_ready(), (7, 7));
}

#[test]
fn d_053_without_fsync_a_shorter_log_is_a_warning() {
    let mut shell = Shell::with(two_epochs(), LogEnd::default(), |options| {
        options.log_end = Position(7);
        options.synced = false;
    });
    assert_eq!(shell.run_to_ready(), (7, 7));
    assert_eq!(shell.warnings, vec![(7, 6)]);
}

#[test]
fn ha_014_an_unreadable_entry_is_named_and_nothing_is_overwritten() {
    let mut flipped = two_epochs().entries[&5].to_vec();
    flipped[7] ^= 2;
    for bytes in [Blob::from(flipped), Blob::from(vec![1, 2, 3]), Blob::default()] {
        let mut log = two_epochs();
        log.entries.insert(5, bytes);
        let mut shell = Shell::new(log, LogEnd::default());
        assert_eq!(shell.run_to_failure(), (StopReason::LogUnreadable, 5, Some(EntryError::Damaged)));
    }
}

#[test]
fn ha_014_the_log_of_another_node_is_refused_by_its_name() {
    let mut shell = Shell::with(two_epochs(), LogEnd::default(), |options| {
        options.origin.node_id = Name::new("payments");
    });
    let found = Name::new(NODE);
    assert_eq!(
        shell.run_to_failure(),
        (StopReason::LogUnreadable, 1, Some(EntryError::ForeignNode { found }))
    );
}

#[test]
fn ha_014_an_entry_at_anothers_place_is_refused() {
    let mut log = two_epochs();
    let moved = log.entries[&6].clone();
    log.entries.insert(5, moved);
    let mut shell = Shell::new(log, LogEnd::default());
    assert_eq!(shell.run_to_failure(), (StopReason::LogUnreadable, 5, Some(EntryError::BrokenChain)));
}

/// A log of one epoch followed by one more entry, which is at position 3.
fn one_epoch_and(writer: (u64, u128), body: EntryBody) -> (StopReason, u64, Option<EntryError>) {
    let mut log = Log::default();
    log.epoch((2, 20), 1).push(writer, body);
    Shell::new(log, LogEnd::default()).run_to_failure()
}

#[test]
fn ha_014_epochs_never_go_down_and_begin_with_their_fence() {
    let broken = (StopReason::LogUnreadable, 3, Some(EntryError::BrokenChain));
    let data = || EntryBody::Changes(changes(3));
    assert_eq!(one_epoch_and((1, 20), fence(1)), broken, "lower");
    assert_eq!(one_epoch_and((3, 30), data()), broken, "no fence");
    assert_eq!(one_epoch_and((2, 20), fence(1)), broken, "a second fence");
    assert_eq!(one_epoch_and((2, 21), data()), broken, "another process");
    let mut log = Log::default();
    log.push((1, 10), data());
    assert_eq!(
        Shell::new(log, LogEnd::default()).run_to_failure(),
        (StopReason::LogUnreadable, 1, Some(EntryError::BrokenChain)),
        "the very first"
    );
}

#[test]
fn d_039_the_newest_time_of_the_log_is_never_passed_backwards() {
    let mut log = Log::default();
    log.epoch((1, 10), 1);
    let ready_time = |log: &Log, wall_ms| {
        let mut shell = Shell::new(log.clone(), LogEnd::default());
        shell.run_until(|output| matches!(output, StartupOutput::List { .. }));
        shell.startup.handle(
            Now { wall: Timestamp::from_millis(wall_ms), ..now_ms(0) },
            StartupInput::Listed { request: RequestId(2), outcome: ListOutcome::First(None) },
        );
        match shell.run() {
            StartupOutput::Ready { newest_time, .. } => newest_time.as_millis(),
            other => panic!("the start should have succeeded: {other:?}"),
        }
    };
    assert_eq!(ready_time(&log, 1), 2);
    assert_eq!(ready_time(&log, 9), 9);
}

#[test]
fn lesson_c8_reading_goes_on_for_as_long_as_it_takes() {
    let mut shell = Shell::new(two_epochs(), LogEnd::default());
    for round in 0..50_u32 {
        let Some(StartupOutput::Read { request, from, .. }) = shell.startup.poll_output() else {
            panic!("a read was expected")
        };
        assert_eq!(from, Position(1));
        shell.handle(StartupInput::Read {
            request,
            entries: vec![],
            then: ReadEnd::Transient { retry_after_ms: None },
        });
        assert_eq!(shell.startup.poll_output(), None);
        let waited = shell.wait();
        let most = Duration::from_millis(100 << round.min(4)).min(Duration::from_secs(1));
        assert!(waited >= most / 2 && waited <= most + Duration::from_millis(1));
    }
    assert_eq!(shell.run_to_ready(), (7, 7));
}

#[test]
fn lesson_c8_entries_before_a_transient_failure_count() {
    let log = two_epochs();
    let mut shell = Shell::new(log.clone(), LogEnd::default());
    let Some(StartupOutput::Read { request, .. }) = shell.startup.poll_output() else {
        panic!("a read was expected")
    };
    shell.handle(StartupInput::Read {
        request,
        entries: vec![log.entries[&1].clone(), log.entries[&2].clone()],
        then: ReadEnd::Transient { retry_after_ms: None },
    });
    assert_eq!(
        shell.startup.poll_output(),
        Some(StartupOutput::Apply { end: log.end_at(2), changes: changes(2) })
    );
    shell.handle(StartupInput::Applied { position: Position(2) });
    shell.wait();
    assert!(matches!(shell.startup.poll_output(), Some(StartupOutput::Read { from: Position(3), .. })));
}

#[test]
fn lesson_c8_a_read_without_an_answer_is_asked_anew_and_its_late_answer_dropped() {
    let log = two_epochs();
    let mut shell = Shell::new(log.clone(), LogEnd::default());
    let Some(StartupOutput::Read { request: late, .. }) = shell.startup.poll_output() else {
        panic!("a read was expected")
    };
    shell.wait();
    shell.wait();
    let Some(StartupOutput::Read { request, .. }) = shell.startup.poll_output() else {
        panic!("a second read was expected")
    };
    let answer =
        |request| StartupInput::Read { request, entries: vec![log.entries[&1].clone()], then: ReadEnd::Full };
    shell.handle(answer(late));
    assert_eq!(shell.startup.poll_output(), None);
    shell.handle(answer(request));
    assert!(matches!(shell.startup.poll_output(), Some(StartupOutput::Apply { .. })));
}

#[test]
fn d_041_reading_waits_for_a_slow_local_store() {
    let log = two_epochs();
    let mut shell = Shell::new(log.clone(), LogEnd::default());
    let range = |shell: &mut Shell, expected: u64| {
        let Some(StartupOutput::Read { request, from, .. }) = shell.startup.poll_output() else {
            panic!("a read was expected")
        };
        assert_eq!(from, Position(expected));
        shell.handle(StartupInput::Read {
            request,
            entries: vec![log.entries[&expected].clone()],
            then: ReadEnd::Full,
        });
    };
    range(&mut shell, 1);
    assert!(matches!(shell.startup.poll_output(), Some(StartupOutput::Apply { .. })));
    // The next range is fetched while the first is applied, but not a third.
    range(&mut shell, 2);
    assert_eq!(shell.startup.poll_output(), None);
    assert_eq!(shell.startup.poll_timeout(), None);
    shell.handle(StartupInput::Applied { position: Position(1) });
    assert!(matches!(shell.startup.poll_output(), Some(StartupOutput::Apply { .. })));
    range(&mut shell, 3);
}

#[test]
fn ha_031_permanent_and_local_failures_stop_the_reading() {
    let rows = [
        (ReadEnd::Permanent, StopReason::StoragePermanent),
        (ReadEnd::LocalFailure, StopReason::LocalStoreFailed),
    ];
    for (then, reason) in rows {
        let mut shell = Shell::new(two_epochs(), LogEnd::default());
        let Some(StartupOutput::Read { request, .. }) = shell.startup.poll_output() else {
            panic!("a read was expected")
        };
        shell.handle(StartupInput::Read { request, entries: vec![], then });
        assert_eq!(shell.run_to_failure(), (reason, 1, None));
    }
}

#[test]
fn d_043_an_empty_store_below_the_trim_bound_is_filled_from_a_snapshot() {
    let mut log = two_epochs();
    let snapshot = log.end_at(5);
    log.entries.retain(|position, _| *position >= 5);
    let mut shell = Shell::with(log, LogEnd::default(), |options| options.trimmed_below = Position(5));
    shell.replacements = vec![snapshot];
    assert_eq!(shell.run_to_ready(), (7, 2));
    assert_eq!(shell.discarded, vec![DiscardReason::BelowTrimBound]);
    assert_eq!(shell.applied, vec![(6, changes(6)), (7, vec![])]);
}
