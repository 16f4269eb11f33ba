//! Time lines of the protocol review, area 7: step down and shutdown. Times are true milliseconds.

use dexzd_core::ids::Epoch;
use dexzd_core::node::Role;
use dexzd_io_sim::lease_world::{LeaseConfig, LeaseWorld, Order, PlaneFaults, Precondition, STEP_DOWN};
use dexzd_io_sim::weather::{Fate, Heard};
use dexzd_io_sim::{MILLISECOND, SECOND};
use dexzd_sim_tests::lease_script::{CALM, Notes, is_write, slow, world, world_of};

const AT: u64 = 3_500 * MILLISECOND;

fn expecting(epoch: u64) -> Order {
    Order::StepDown { precondition: Precondition::Epoch(Epoch(epoch)), old_connection: false }
}

/// What runs when a drain begins runs for so long.
fn draining_for(processes: u8, drain_s: u64) -> (LeaseWorld, Notes) {
    let drain = drain_s * SECOND;
    let plane = PlaneFaults { shortest_drain: drain, longest_drain: drain, ..PlaneFaults::default() };
    world_of(LeaseConfig { plane, ..LeaseConfig::calm(processes, 10) })
}

/// The local store of an ended tenure takes so long to close.
fn closing_for(processes: u8, closing_s: u64) -> (LeaseWorld, Notes) {
    let closing = closing_s * SECOND;
    let plane = PlaneFaults { shortest_closing: closing, longest_closing: closing, ..PlaneFaults::default() };
    world_of(LeaseConfig { plane, ..LeaseConfig::calm(processes, 10) })
}

fn answers(notes: &Notes) -> Vec<String> {
    notes.all().into_iter().filter(|line| line.contains(" answers ")).collect()
}

#[test]
fn review_7_3_a_call_that_waited_out_a_freeze_is_not_accepted_after_the_lease_ended() {
    let (mut world, notes) = world(2, 10);
    world.order_at(20 * SECOND, 0, Order::Freeze(40 * SECOND));
    world.order_at(25 * SECOND, 0, expecting(1));
    world.run_until(70 * SECOND);
    world.finish().expect("no rule is broken");
    let answers = answers(&notes);
    assert!(answers.len() <= 1 && answers.iter().all(|line| line.contains("Unavailable")), "{answers:?}");
    assert_eq!(notes.first_ms(0, "p0 role draining"), None);
    assert_eq!(notes.stops(), ["p0 stops: lease_expired"]);
}

#[test]
fn review_7_4_a_step_down_before_it_serves_is_refused() {
    let (mut world, notes) = world(1, 10);
    // The confirmation after the fence takes 2 s.
    let mut writes = 0;
    world.intercept(Box::new(move |sent| {
        writes += usize::from(is_write(&sent));
        (is_write(&sent) && writes == 2).then(|| slow(SECOND))
    }));
    world.order_at(500 * MILLISECOND, 0, expecting(1));
    world.run_until(4 * SECOND);
    world.finish().expect("no rule is broken");
    let answers = answers(&notes);
    assert!(answers.len() == 1 && answers[0].contains("FailedPrecondition"), "{answers:?}");
    assert_eq!(world.serves(0), Some(Epoch(1)));
}

#[test]
fn review_7_7_a_lease_lost_in_the_drain_ends_the_process_and_leaves_the_call_unavailable() {
    let (mut world, notes) = draining_for(2, 20);
    world.order_at(AT, 0, STEP_DOWN);
    world.order_at(AT, 0, Order::BlackOut(60 * SECOND));
    world.run_until(40 * SECOND);
    world.finish().expect("no rule is broken");
    let answers = answers(&notes);
    assert!(answers.len() == 1 && answers[0].contains("p0 answers Unavailable"), "{answers:?}");
    assert_eq!(notes.stops(), ["p0 stops: lease_expired"]);
}

#[test]
fn review_7_9_a_second_step_down_with_the_same_precondition_is_refused_while_the_first_runs() {
    let (mut world, notes) = draining_for(2, 5);
    world.order_at(AT, 0, STEP_DOWN);
    world.order_at(AT + SECOND, 0, STEP_DOWN);
    world.run_until(30 * SECOND);
    world.finish().expect("no rule is broken");
    let answers = answers(&notes);
    assert_eq!(answers.len(), 2, "{answers:?}");
    assert!(answers[0].starts_with("4500 p0 answers FailedPrecondition"), "{answers:?}");
    assert!(answers[1].ends_with("answers taken over by epoch 2"), "{answers:?}");
}

#[test]
fn review_7_10_a_takeover_write_in_flight_at_sigterm_is_awaited_and_given_back() {
    let (mut world, notes) = world(2, 10);
    world.intercept(Box::new(|sent| {
        let takes = sent.process == 1 && sent.record.is_some_and(|record| record.epoch == Epoch(2));
        takes.then(|| Fate::calm(500 * MILLISECOND, CALM))
    }));
    world.order_at(AT, 0, STEP_DOWN);
    world.run_until(4 * SECOND);
    let taken = notes.first_ms(0, "p1 takes 2").expect("it takes over");
    world.order_at((taken + 10) * MILLISECOND, 1, Order::Terminate);
    world.order_at((taken + 1_300) * MILLISECOND, 1, Order::Freeze(60 * SECOND));
    world.run_until(20 * SECOND);
    world.finish().expect("no rule is broken");
    assert_eq!(notes.first_ms(0, "p1 held 2"), Some(taken + 500));
    let freed = notes.first_ms(0, "p1 free 2").expect("it is given back");
    assert!(freed <= taken + 1_010, "both of its writes take half a second: {freed} ms");
    assert_eq!(notes.stops(), ["p1 stops: shutdown"]);
    // Nobody waits for an expiry: the next life takes it, or the process that stepped down after its hold-off.
    let again = notes.first_ms(freed, "takes 3").expect("it is taken");
    assert!(again <= 3_500 + 5_400, "{again} ms: {:?}", notes.since(3_500));
}

#[test]
fn review_7_11_sigterm_in_the_drain_of_a_step_down_keeps_the_deadline_and_skips_the_hold_off() {
    let (mut world, notes) = draining_for(2, 10);
    world.order_at(AT, 0, STEP_DOWN);
    world.order_at(AT + 4 * SECOND, 0, Order::Terminate);
    world.run_until(20 * SECOND);
    world.finish().expect("no rule is broken");
    assert_eq!(notes.first_ms(0, "p0 releases 1"), Some(13_500), "drained as if nothing had happened");
    assert_eq!(notes.first_ms(0, "p0 role hold_off"), None);
    assert_eq!(notes.stops(), ["p0 stops: shutdown"]);
    let answers = answers(&notes);
    assert!(answers.len() == 1 && answers[0].contains("Unavailable"), "{answers:?}");
}

#[test]
fn review_7_12_sigterm_while_the_store_closes_ends_at_once() {
    let (mut world, notes) = closing_for(1, 40);
    world.order_at(AT, 0, STEP_DOWN);
    world.order_at(AT + 10 * SECOND, 0, Order::Terminate);
    world.run_until(13_600 * MILLISECOND);
    world.finish().expect("no rule is broken");
    assert_eq!(notes.first_ms(0, "p0 stops: shutdown"), Some(13_500));
}

#[test]
fn review_7_15_ha_105_ha_106_ha_107_ha_108_a_store_that_does_not_close_ends_the_process_64_s_after_the_release_was_sent()
 {
    for processes in [1, 2] {
        let (mut world, notes) = closing_for(processes, 70);
        world.order_at(AT, 0, STEP_DOWN);
        world.run_until(80 * SECOND);
        world.finish().expect("no rule is broken");
        assert_eq!(notes.first_ms(0, "p0 stops: store_not_closed"), Some(67_500), "HA-105");
        assert!(
            notes.since(3_501).iter().all(|line| !line.contains("p0 takes") || line.starts_with("676")),
            "HA-107: it ends without acquiring; only its next life takes the lease: {:?}",
            notes.since(3_501)
        );
        let answers = answers(&notes);
        assert_eq!(answers.len(), 1, "{answers:?}");
        if processes == 1 {
            assert!(answers[0].starts_with("67500 p0 answers Internal"), "HA-106: {answers:?}");
        } else {
            assert!(answers[0].ends_with("taken over by epoch 2"), "HA-108: {answers:?}");
        }
    }
}

#[test]
fn review_7_16_an_ambiguous_take_back_is_unknown_and_the_process_goes_on() {
    let (mut world, notes) = world(1, 10);
    world.intercept(Box::new(|sent| {
        let takes_back =
            sent.record.is_some_and(|record| record.epoch == Epoch(2) && record.nonce.counter < 6);
        // The write is swallowed, and so is what would tell.
        let dark = (8_400 * MILLISECOND..12 * SECOND).contains(&sent.at);
        (takes_back || (dark && !is_write(&sent))).then_some(Fate::lost(Heard::Nothing))
    }));
    world.order_at(AT, 0, STEP_DOWN);
    world.run_until(40 * SECOND);
    world.finish().expect("no rule is broken");
    let answers = answers(&notes);
    assert!(answers.len() == 1 && answers[0].contains("unknown"), "{answers:?}");
    assert!(world.serves(0).is_some(), "it competes like any other: {:?}", notes.since(8_000));
}

#[test]
fn review_7_18_fail_if_held_concerns_the_start_only() {
    let config = LeaseConfig { fail_if_held: true, ..LeaseConfig::calm(1, 10) };
    let (mut world, notes) = world_of(config);
    world.order_at(AT, 0, STEP_DOWN);
    world.run_until(20 * SECOND);
    world.finish().expect("no rule is broken");
    assert_eq!(notes.stops(), Vec::<String>::new());
    assert_eq!(world.serves(0), Some(Epoch(2)));
}

#[test]
fn ha_088_a_wrong_precondition_changes_nothing() {
    let (mut world, notes) = world(2, 10);
    for precondition in [Precondition::OtherNode, Precondition::StaleEpoch, Precondition::LaterEpoch] {
        world.order_at(AT, 0, Order::StepDown { precondition, old_connection: false });
    }
    world.order_at(AT, 0, Order::StepDown { precondition: Precondition::Right, old_connection: true });
    world.run_until(10 * SECOND);
    world.finish().expect("no rule is broken");
    let answers = answers(&notes);
    assert_eq!(answers.len(), 4, "{answers:?}");
    assert!(answers.iter().all(|line| line.contains("p0 answers FailedPrecondition")), "{answers:?}");
    assert_eq!(world.serves(0), Some(Epoch(1)));
    assert_eq!(world.role(0), Some(Role::Active));
}

#[test]
fn ha_101_the_call_ends_the_moment_somebody_else_is_seen_to_hold_the_lease() {
    let (mut world, notes) = world(2, 10);
    world.order_at(AT, 0, STEP_DOWN);
    world.run_until(10 * SECOND);
    world.finish().expect("no rule is broken");
    let held = notes.first_ms(0, "p1 held 2").expect("it is taken");
    let answered = notes.first_ms(0, "answers taken over by epoch 2").expect("it is answered");
    assert!(answered <= held + 250 + 2, "{held} {answered}");
    assert!(held <= 3_500 + 250 + 50 + 4, "HA-98: no expiry wait ({held} ms)");
}

#[test]
fn ha_102_ha_103_ha_131_a_single_process_takes_the_lease_back_after_its_hold_off() {
    let (mut world, notes) = world(1, 10);
    world.order_at(AT, 0, STEP_DOWN);
    world.run_until(20 * SECOND);
    world.finish().expect("no rule is broken");
    let held_off = notes.first_ms(0, "p0 role hold_off").expect("it holds off");
    let serves =
        notes.since(held_off).iter().find(|line| line.contains("p0 open")).cloned().expect("it serves");
    let serves: u64 = serves.split(' ').next().and_then(|word| word.parse().ok()).expect("a time");
    // The hold-off from the confirmation on; 50 ms of jitter, two round trips, a recovery that takes none.
    assert!((5_000..=5_000 + 50 + 12).contains(&(serves - held_off)), "{held_off} {serves}");
    assert_eq!(world.serves(0), Some(Epoch(2)));
    let answered = notes.first_ms(0, "answers taken back as epoch 2").expect("it is answered");
    assert!(answered <= serves, "taken, not yet recovered (D-38)");
}

#[test]
fn ha_055_ha_057_a_hot_standby_owns_a_released_lease_within_a_poll_and_two_round_trips() {
    let config = LeaseConfig::calm_and_hot(2, 10);
    for offset_ms in 0..50 {
        let (mut world, notes) = world_of(config);
        world.order_at(AT + 7 * offset_ms * MILLISECOND, 0, STEP_DOWN);
        world.run_until(10 * SECOND);
        world.finish().expect("no rule is broken");
        let freed = notes.first_ms(0, "p0 free 1").expect("it is released");
        let held = notes.first_ms(0, "p1 held 2").expect("it is taken");
        assert!(held - freed <= 250 + 50 + 4, "{freed} {held}");
    }
}

#[test]
fn ha_045_ha_058_a_standby_that_is_not_hot_waits_for_its_delay() {
    let plane = PlaneFaults { bootstrap: 60 * SECOND, ..PlaneFaults::default() };
    let (mut world, notes) = world_of(LeaseConfig { plane, ..LeaseConfig::calm_and_hot(2, 10) });
    world.order_at(AT, 0, STEP_DOWN);
    world.run_until(10 * SECOND);
    world.finish().expect("no rule is broken");
    let freed = notes.first_ms(0, "p0 free 1").expect("it is released");
    let takes = notes.first_ms(0, "p1 takes 2").expect("it is taken");
    assert!((1_500..=1_500 + 250 + 50 + 4).contains(&(takes - freed)), "{freed} {takes}");
}

#[test]
fn ha_058_one_that_becomes_hot_meanwhile_takes_it_at_once() {
    let plane = PlaneFaults { bootstrap: 4 * SECOND, ..PlaneFaults::default() };
    let (mut world, notes) = world_of(LeaseConfig { plane, ..LeaseConfig::calm_and_hot(2, 10) });
    world.order_at(AT, 0, STEP_DOWN);
    world.run_until(10 * SECOND);
    world.finish().expect("no rule is broken");
    // It follows from about 4.0 on; its delay would have lasted until 5.0 or later.
    let takes = notes.first_ms(0, "p1 takes 2").expect("it is taken");
    assert!((4_000..=4_320).contains(&takes), "{takes} ms: {:?}", notes.since(3_500));
}

#[test]
fn ha_060_of_two_hot_mode_standbys_the_hot_one_wins() {
    let plane = PlaneFaults { bootstrap: 3 * SECOND, ..PlaneFaults::default() };
    let (mut world, notes) = world_of(LeaseConfig { plane, ..LeaseConfig::calm_and_hot(3, 10) });
    // p1 starts anew, without a disk, shortly before the release.
    world.order_at(4 * SECOND, 1, Order::KillAndWipe);
    world.order_at(5 * SECOND, 0, STEP_DOWN);
    world.run_until(8 * SECOND);
    world.finish().expect("no rule is broken");
    assert_eq!(world.serves(2), Some(Epoch(2)), "{:?}", notes.since(4_000));
}

#[test]
fn ha_056_a_hot_standby_waits_for_the_expiry_after_a_crash() {
    let (mut world, notes) = world_of(LeaseConfig::calm_and_hot(2, 10));
    world.order_at(20 * SECOND, 0, Order::Kill);
    world.order_at(20 * SECOND + 101 * MILLISECOND, 0, Order::Freeze(60 * SECOND));
    world.run_until(60 * SECOND);
    world.finish().expect("no rule is broken");
    let landed = notes.last_ms("p0 held 1").expect("it renewed");
    let takes = notes.first_ms(0, "p1 takes 2").expect("it is taken");
    assert!((11_000..=11_000 + 250 + 50 + 4).contains(&(takes - landed)), "{landed} {takes}");
}

#[test]
fn ha_099_ha_104_it_competes_again_only_when_its_old_store_is_closed() {
    let (mut world, notes) = closing_for(1, 20);
    world.order_at(AT, 0, STEP_DOWN);
    world.run_until(40 * SECOND);
    world.finish().expect("no rule is broken");
    let takes = notes.first_ms(3_501, "p0 takes 2").expect("it takes it back");
    assert!((23_500..=23_560).contains(&takes), "{takes} ms");
}
