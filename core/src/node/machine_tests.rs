use super::driver::Driver;
use super::{Input, NodeEvent, OpenLog, Output, Role};
use crate::engine::{NodeOrder, NodeReport};
use crate::gate::{GateOrder, GateView};
use crate::ids::{Epoch, Position};
use crate::lease::driver::{ME, OTHER, Store, free_from, held_by, seconds};
use crate::lease::{CandidateConfig, LeaseInput, LeaseState, ReleaseOutcome, Survey};
use crate::stop::StopReason;
use crate::store::WriteOutcome;
use crate::time::Instant;

fn report(report: NodeReport) -> Input {
    Input::Engine(report)
}

fn starting() -> Driver {
    Driver::new(CandidateConfig::default(), Store::default())
}

/// A process that has the lease and was told to open the log.
fn opening() -> Driver {
    let mut driver = starting();
    driver.until_ms(0);
    assert_eq!(driver.node.role(), Role::Opening);
    driver
}

fn recovering() -> Driver {
    let mut driver = opening();
    driver.input(Input::LogFenced);
    assert_eq!(driver.node.role(), Role::Recovering);
    driver.told();
    driver
}

// --- from the start to serving ---

#[test]
fn ha_019_log_confirmation_engine_and_gate_come_in_this_order() {
    let mut driver = starting();
    driver.until_ms(0);
    let open = OpenLog {
        process_id: ME,
        epoch: Epoch(1),
        lease_duration: seconds(10),
        trimmed_below: Position(0),
        log_end: Position(0),
    };
    assert_eq!(driver.told(), [Output::OpenLog(open)]);
    assert_eq!(driver.look_at_gate(), GateView::Shut);
    driver.input(Input::LogFenced);
    assert_eq!(driver.told(), [Output::BuildEngine { epoch: Epoch(1) }]);
    assert_eq!(driver.look_at_gate(), GateView::Shut, "closed until recovery is durable");
    driver.input(report(NodeReport::Recovered));
    let told = driver.told();
    assert!(matches!(
        told.as_slice(),
        [Output::Gate(GateOrder::Open { .. }), Output::Engine(NodeOrder::Serve)]
    ));
    assert_eq!(driver.look_at_gate(), GateView::Open);
    assert_eq!(
        driver.roles(),
        [Role::Waiting, Role::Opening, Role::Confirming, Role::Recovering, Role::Active]
    );
}

#[test]
fn review_4_3_d_041_the_bound_and_the_end_come_from_the_lease_that_was_replaced() {
    let mut store = Store::default();
    store.put(&free_from(OTHER, 7));
    let mut driver = Driver::new(CandidateConfig::default(), store);
    driver.until_ms(60);
    let told = driver.told();
    let [Output::OpenLog(open)] = told.as_slice() else { panic!("the log is opened: {told:?}") };
    assert_eq!((open.epoch, open.trimmed_below, open.log_end), (Epoch(8), Position(3), Position(40)));
}

#[test]
fn d_042_nothing_is_built_before_the_lease_is_confirmed_after_the_fence() {
    let mut driver = opening();
    driver.told();
    driver.is_store_silent = true;
    driver.input(Input::LogFenced);
    assert_eq!(driver.node.role(), Role::Confirming);
    assert_eq!(driver.told(), []);
    driver.answer();
    assert_eq!(driver.told(), [Output::BuildEngine { epoch: Epoch(1) }]);
}

#[test]
fn d_042_a_fence_under_a_lease_that_was_taken_serves_nothing() {
    let mut driver = opening();
    driver.told();
    driver.store.put(&held_by(OTHER, 8, 1));
    driver.input(Input::LogFenced);
    assert_eq!(driver.exit, Some((1, StopReason::LeaseTaken)));
    assert_eq!(driver.told(), [Output::Gate(GateOrder::Close)]);
    assert_eq!(driver.epoch_in_lease(), Epoch(8), "it is left alone");
}

#[test]
fn ha_091_the_lease_is_renewed_while_the_log_is_opened_and_recovery_runs() {
    let mut driver = opening();
    driver.until_ms(100_000);
    assert_eq!(driver.node.role(), Role::Opening);
    driver.input(Input::LogFenced);
    driver.alive_until_ms(200_000);
    assert_eq!(driver.node.role(), Role::Recovering);
    assert_eq!(driver.store.record().holder, ME);
}

#[test]
fn review_11_5_d_055_an_epoch_behind_the_log_is_waited_for_and_raised() {
    let mut driver = opening();
    driver.told();
    driver.input(Input::EpochBehind { found: Epoch(9), lease_duration_ms: Some(20_000) });
    driver.until_ms(20_999);
    assert_eq!(driver.node.role(), Role::Outwaiting);
    assert_eq!(driver.epoch_in_lease(), Epoch(1));
    driver.until_ms(21_000);
    assert_eq!(driver.epoch_in_lease(), Epoch(10));
    let told = driver.told();
    let [Output::OpenLog(open)] = told.as_slice() else { panic!("the log is opened again: {told:?}") };
    assert_eq!(open.epoch, Epoch(10));
    driver.input(Input::LogFenced);
    assert_eq!(driver.told(), [Output::BuildEngine { epoch: Epoch(10) }]);
}

#[test]
fn d_055_while_it_waits_a_taken_lease_stops_it() {
    let mut driver = opening();
    driver.input(Input::EpochBehind { found: Epoch(9), lease_duration_ms: None });
    driver.store.put(&held_by(OTHER, 9, 1));
    driver.until_ms(5_000);
    assert_eq!(driver.exit, Some((1, StopReason::LeaseTaken)));
}

#[test]
fn ha_039_a_held_lease_fails_the_start() {
    let mut store = Store::default();
    store.put(&held_by(OTHER, 7, 1));
    let config = CandidateConfig { fail_if_held: true, ..CandidateConfig::default() };
    let mut driver = Driver::new(config, store);
    driver.until_ms(1_000);
    driver.store.put(&held_by(OTHER, 7, 2));
    driver.until_ms(2_000);
    assert_eq!(driver.exit, Some((1, StopReason::LeaseHeld)));
}

#[test]
fn d_049_the_survey_is_the_data_planes() {
    let mut driver = starting();
    driver.survey = Survey { anything: true, highest_epoch: Epoch(9), ..Survey::default() };
    driver.until_ms(200_000);
    assert_eq!(driver.epoch_in_lease(), Epoch(1_009));
}

// --- the gate ---

#[test]
fn d_047_the_gate_moves_on_with_each_renewal() {
    let mut driver = Driver::active();
    driver.alive_until_ms(60_000);
    assert_eq!(driver.look_at_gate(), GateView::Open);
    driver.is_store_silent = true;
    let until = driver.node.tenure().expect("it holds the lease").ends_at();
    driver.freeze_until_ms(until.as_millis() + 1);
    assert_eq!(driver.look_at_gate(), GateView::Shut);
}

/// Lesson B4: frozen between the state that was read and the send; the second look is the gate's.
#[test]
fn review_6_2_lesson_b4_a_thawed_process_sends_nothing_before_it_has_even_been_called() {
    let mut driver = Driver::active();
    assert_eq!(driver.look_at_gate(), GateView::Open);
    driver.freeze_until_ms(70_000);
    assert_eq!(driver.look_at_gate(), GateView::Shut);
    driver.input(Input::Tick);
    assert_eq!(driver.told(), [Output::Gate(GateOrder::Close)]);
    assert_eq!(driver.look_at_gate(), GateView::Shut);
    assert_eq!(driver.exit, Some((1, StopReason::LeaseExpired)));
}

#[test]
fn d_001_doubt_shuts_the_gate_until_a_new_renewal_has_landed() {
    let mut driver = Driver::active();
    driver.is_store_silent = true;
    driver.jump_wall_ms(30_000);
    driver.input(Input::Tick);
    assert_eq!(driver.told(), [Output::Gate(GateOrder::Doubt)]);
    assert_eq!(driver.look_at_gate(), GateView::Doubt);
    assert_eq!(driver.node.role(), Role::Active);
    driver.answer();
    assert_eq!(driver.look_at_gate(), GateView::Open);
}

#[test]
fn d_001_the_gate_sees_a_jump_before_the_node_does() {
    let mut driver = Driver::active();
    driver.jump_wall_ms(30_000);
    assert_eq!(driver.look_at_gate(), GateView::Doubt);
    driver.input(Input::Tick);
    assert_eq!(driver.look_at_gate(), GateView::Open, "the renewal has landed");
}

#[test]
fn d_001_a_jump_that_only_the_gate_saw_is_proven_harmless_at_once() {
    let mut driver = Driver::active();
    driver.alive_until_ms(1_000);
    driver.is_store_silent = true;
    driver.told();
    let seen_at = driver.now().instant;
    driver.input(Input::GateJumped(seen_at));
    assert_eq!(driver.told(), [Output::Gate(GateOrder::Doubt)]);
    driver.input(Input::GateJumped(seen_at));
    assert_eq!(driver.told(), [], "every look says so; one renewal is enough");
    driver.answer();
    assert_eq!(driver.look_at_gate(), GateView::Open);
    driver.told();
    driver.input(Input::GateJumped(seen_at));
    assert_eq!(driver.told(), [], "said before the renewal, heard after it");
}

#[test]
fn d_001_recovery_that_ends_in_doubt_opens_no_gate() {
    let mut driver = recovering();
    driver.is_store_silent = true;
    driver.jump_wall_ms(30_000);
    driver.input(report(NodeReport::Recovered));
    assert_ne!(driver.look_at_gate(), GateView::Open);
    driver.answer();
    assert_eq!(driver.look_at_gate(), GateView::Open);
}

// --- shutdown ---

#[test]
fn ha_016_ha_094_review_3_7_a_graceful_shutdown_drains_commits_closes_and_releases() {
    let mut driver = Driver::active();
    driver.input(Input::Terminate);
    assert_eq!(driver.orders(), [NodeOrder::Drain]);
    driver.input(report(NodeReport::Drained));
    assert_eq!(driver.orders(), [NodeOrder::Commit]);
    driver.input(report(NodeReport::Committed));
    assert_eq!(driver.orders(), [NodeOrder::Close]);
    assert_eq!(driver.look_at_gate(), GateView::Open, "what was decided may still leave (HA-94)");
    driver.input(report(NodeReport::Closed));
    assert_eq!(driver.look_at_gate(), GateView::Shut);
    assert_eq!(driver.store.record().state, LeaseState::Free);
    assert_eq!(driver.exit, Some((0, StopReason::Shutdown)));
    assert_eq!(driver.watchdog, None, "the lease ended by its own release (D-32)");
}

#[test]
fn ha_090_d_021_d_018_d_037_each_stage_has_its_limit() {
    let mut driver = Driver::active();
    driver.input(Input::Terminate);
    driver.alive_until_ms(29_999);
    assert_eq!(driver.node.role(), Role::Draining);
    driver.until_ms(30_000);
    assert_eq!(driver.orders(), [NodeOrder::Drain, NodeOrder::Interrupt]);
    driver.alive_until_ms(34_999);
    assert_eq!(driver.node.role(), Role::Interrupting);
    driver.until_ms(35_000);
    assert_eq!(driver.orders(), [NodeOrder::Commit]);
    driver.alive_until_ms(44_999);
    assert_eq!(driver.node.role(), Role::Committing);
    driver.until_ms(45_000);
    assert_eq!(driver.orders(), [NodeOrder::Close]);
    driver.until_ms(45_999);
    assert_eq!(driver.node.role(), Role::Closing);
    driver.until_ms(46_000);
    assert_eq!(driver.exit, Some((0, StopReason::Shutdown)));
}

#[test]
fn ha_091_the_lease_is_renewed_until_the_release() {
    let mut driver = Driver::active();
    driver.input(Input::Terminate);
    driver.alive_until_ms(44_000);
    assert_eq!(driver.look_at_gate(), GateView::Open);
}

#[test]
fn ha_090_the_grace_ends_early_when_nothing_runs() {
    let mut driver = Driver::active();
    driver.input(Input::Terminate);
    driver.alive_until_ms(30_000);
    driver.input(report(NodeReport::Drained));
    assert_eq!(driver.orders(), [NodeOrder::Drain, NodeOrder::Interrupt, NodeOrder::Commit]);
}

#[test]
fn d_029_a_second_signal_changes_nothing() {
    let mut driver = Driver::active();
    driver.input(Input::Terminate);
    driver.told();
    driver.input(Input::Terminate);
    assert_eq!(driver.told(), []);
    assert_eq!(driver.node.role(), Role::Draining);
}

#[test]
fn d_029_a_waiting_process_ends_at_once() {
    let mut store = Store::default();
    store.put(&held_by(OTHER, 7, 1));
    let mut driver = Driver::new(CandidateConfig::default(), store);
    driver.until_ms(2_000);
    driver.input(Input::Terminate);
    assert_eq!(driver.exit, Some((0, StopReason::Shutdown)));
    assert_eq!(driver.epoch_in_lease(), Epoch(7));
}

#[test]
fn d_029_a_takeover_under_way_is_awaited_and_released() {
    let mut store = Store::default();
    store.put(&free_from(OTHER, 7));
    let mut driver = Driver::new(CandidateConfig::default(), store);
    driver.until_ms(0);
    driver.is_store_silent = true;
    driver.until_ms(60);
    assert_eq!(driver.unanswered.len(), 1, "the write is under way");
    driver.input(Input::Terminate);
    assert_eq!(driver.exit, None);
    driver.answer();
    assert_eq!(driver.exit, Some((0, StopReason::Shutdown)));
    let record = driver.store.record();
    assert_eq!((record.epoch, record.state, record.holder), (Epoch(8), LeaseState::Free, ME));
    assert!(!driver.told().iter().any(|output| matches!(output, Output::OpenLog(_))));
}

#[test]
fn d_029_a_recovering_process_releases() {
    let mut driver = recovering();
    driver.input(Input::Terminate);
    assert_eq!(driver.node.role(), Role::Abandoning);
    assert_eq!(driver.orders(), [NodeOrder::Close]);
    driver.input(report(NodeReport::Recovered));
    assert_eq!(driver.told(), [], "too late");
    driver.input(report(NodeReport::Closed));
    assert_eq!(driver.exit, Some((0, StopReason::Shutdown)));
    assert_eq!(driver.store.record().state, LeaseState::Free);
}

#[test]
fn d_029_a_lease_that_ends_in_the_drain_makes_it_exit_1() {
    let mut driver = Driver::active();
    driver.input(Input::Terminate);
    driver.store.put(&held_by(OTHER, 8, 1));
    driver.alive_until_ms(8_000);
    assert_eq!(driver.exit, Some((1, StopReason::LeaseTaken)));
}

#[test]
fn d_037_a_release_that_is_never_confirmed_still_ends_the_process() {
    let mut driver = Driver::active();
    driver.input(Input::Terminate);
    driver.input(report(NodeReport::Drained));
    driver.input(report(NodeReport::Committed));
    driver.is_store_silent = true;
    driver.input(report(NodeReport::Closed));
    driver.until_ms(9_999);
    assert_eq!(driver.exit, None);
    driver.until_ms(10_000);
    assert_eq!(driver.exit, Some((0, StopReason::Shutdown)));
    assert!(driver.events().contains(&NodeEvent::ReleaseEnded(ReleaseOutcome::Unconfirmed)));
}

#[test]
fn d_037_a_release_that_is_denied_exits_1() {
    let mut driver = Driver::active();
    driver.input(Input::Terminate);
    driver.input(report(NodeReport::Drained));
    driver.input(report(NodeReport::Committed));
    driver.is_store_silent = true;
    driver.input(report(NodeReport::Closed));
    let (request, _) = driver.unanswered.remove(0);
    driver.input(Input::Lease(LeaseInput::Written { request, outcome: WriteOutcome::Permanent }));
    assert_eq!(driver.exit, Some((1, StopReason::StoragePermanent)));
}

// --- stops ---

#[test]
fn ha_027_an_expired_lease_shuts_the_gate_and_is_released_for_one_second() {
    let mut driver = Driver::active();
    driver.is_store_silent = true;
    driver.alive_until_ms(9_900);
    assert_eq!(driver.node.role(), Role::Releasing);
    assert_eq!(driver.told(), [Output::Gate(GateOrder::Close)]);
    driver.until_ms(10_899);
    assert_eq!(driver.exit, None);
    driver.until_ms(10_900);
    assert_eq!(driver.exit, Some((1, StopReason::LeaseExpired)));
}

#[test]
fn d_051_a_store_that_comes_back_in_that_second_sees_the_release() {
    let mut driver = Driver::active();
    driver.is_store_silent = true;
    driver.alive_until_ms(9_950);
    driver
        .unanswered
        .retain(|(_, operation)| matches!(operation, crate::lease::LeaseOperation::Update { .. }));
    let release = driver.unanswered.pop().expect("a release was sent");
    driver.unanswered = std::vec![release];
    driver.answer();
    assert_eq!(driver.store.record().state, LeaseState::Free);
    assert_eq!(driver.exit, Some((1, StopReason::LeaseExpired)));
}

#[test]
fn d_051_d_033_ha_032_ha_063_d_041_stops_in_order_release_and_exit_1() {
    for reason in [
        StopReason::LogWriteTimeout,
        StopReason::LocalStoreFailed,
        StopReason::LogHole,
        StopReason::LogShort,
        StopReason::LogUnreadable,
        StopReason::TakeoverFailed,
    ] {
        for mut driver in [opening(), recovering(), Driver::active()] {
            driver.input(Input::Failed(reason));
            assert_eq!(driver.exit, Some((1, reason)));
            assert_eq!(driver.store.record().state, LeaseState::Free, "{reason:?}");
            assert_eq!(driver.look_at_gate(), GateView::Shut);
        }
    }
}

#[test]
fn d_051_nothing_is_released_where_the_lease_is_anothers_or_out_of_reach() {
    for reason in [StopReason::LeaseTaken, StopReason::StoragePermanent, StopReason::DevLockReplaced] {
        let mut driver = Driver::active();
        driver.input(Input::Failed(reason));
        assert_eq!(driver.exit, Some((1, reason)));
        assert_eq!(driver.store.record().state, LeaseState::Held, "{reason:?}");
    }
}

#[test]
fn d_032_the_first_reason_is_the_reason() {
    let mut driver = Driver::active();
    driver.is_store_silent = true;
    driver.input(Input::Failed(StopReason::LogWriteTimeout));
    driver.input(Input::Failed(StopReason::LocalStoreFailed));
    driver.until_ms(2_000);
    assert_eq!(driver.exit, Some((1, StopReason::LogWriteTimeout)));
}

#[test]
fn review_6_3_d_054_a_silent_engine_stops_the_process_in_order() {
    let mut driver = Driver::active();
    driver.alive_until_ms(5_000);
    driver.until_ms(34_999);
    assert_eq!(driver.exit, None);
    driver.until_ms(35_000);
    assert_eq!(driver.exit, Some((1, StopReason::EngineStalled)));
    assert_eq!(driver.store.record().state, LeaseState::Free);
}

#[test]
fn d_057_a_sign_of_life_that_waits_is_heard_before_the_timer() {
    let mut driver = Driver::active();
    driver.alive_until_ms(30_000);
    driver.is_store_silent = true;
    driver.freeze_until_ms(30_001);
    driver.input(Input::EngineAlive);
    assert_eq!(driver.exit, None);
}

#[test]
fn d_057_the_end_of_the_lease_is_judged_before_any_input() {
    let mut driver = recovering();
    driver.freeze_until_ms(9_900);
    driver.input(report(NodeReport::Recovered));
    assert_eq!(driver.told(), [Output::Gate(GateOrder::Close)], "it never serves");
}

#[test]
fn d_032_the_watchdog_follows_the_end_of_the_lease() {
    let mut driver = Driver::active();
    assert_eq!(driver.watchdog, Some(Instant::from_millis(15_000)));
    driver.alive_until_ms(3_400);
    assert_eq!(driver.watchdog, Some(Instant::from_micros(18_333_333)));
    driver.store.put(&held_by(OTHER, 8, 1));
    driver.alive_until_ms(8_000);
    assert_eq!(driver.exit, Some((1, StopReason::LeaseTaken)));
    // Five seconds from the loss, not from the end it would have had.
    assert_eq!(driver.watchdog, Some(Instant::from_micros(6_666_666 + 5_000_000)));
}

#[test]
fn d_053_and_d_030_what_the_data_plane_knows_rides_on_the_next_renewal() {
    let mut driver = Driver::active();
    driver.input(Input::Durable(Position(12)));
    driver.input(Input::TrimBelow(Position(5)));
    assert_eq!(driver.told(), []);
    driver.alive_until_ms(3_400);
    let record = driver.store.record();
    assert_eq!((record.log_end, record.trimmed_below), (Position(12), Position(5)));
    assert!(driver.told().contains(&Output::TrimmedBelow(Position(5))));
}

#[test]
fn d_046_the_data_plane_is_told_when_each_landed_lease_write_was_sent() {
    let mut driver = Driver::active();
    driver.alive_until_ms(7_000);
    let sent: std::vec::Vec<u64> = driver.lease_written.iter().map(|sent_at| sent_at.as_micros()).collect();
    assert_eq!(sent, [3_333_333, 6_666_666]);
}

#[test]
fn ha_013_each_process_in_turn_has_a_higher_epoch() {
    let mut store = Store::default();
    for epoch in 1..5 {
        let mut driver = Driver::new(CandidateConfig::default(), store);
        driver.until_ms(100);
        assert_eq!(driver.epoch_in_lease(), Epoch(epoch));
        driver.input(Input::Terminate);
        driver.input(report(NodeReport::Closed));
        assert_eq!(driver.exit, Some((0, StopReason::Shutdown)));
        store = driver.store;
    }
}

#[test]
fn d_057_knowledge_told_ahead_of_a_reply_runs_no_timers() {
    let mut driver = Driver::active();
    driver.is_store_silent = true;
    driver.alive_until_ms(3_400);
    assert_eq!(driver.unanswered.len(), 1, "a renewal is under way");
    // Its cut-off has passed, and its answer waits behind the news of a commit.
    driver.freeze_until_ms(6_000);
    driver.input(Input::Durable(Position(12)));
    assert_eq!(driver.unanswered.len(), 1, "it is not given up");
    driver.answer();
    assert_eq!(driver.unanswered.len(), 0);
    assert_eq!(driver.look_at_gate(), GateView::Open);
}
