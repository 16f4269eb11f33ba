//! Time lines of the protocol review, area 3: release. Times are true milliseconds.

use dexzd_core::ids::Epoch;
use dexzd_core::node::Role;
use dexzd_io_sim::lease_world::{Order, STEP_DOWN};
use dexzd_io_sim::weather::{Fate, Heard};
use dexzd_io_sim::{MILLISECOND, SECOND};
use dexzd_sim_tests::lease_script::{
    CALM, is_release, is_write, lands_silently, swallowed, unavailable, world,
};

const AT: u64 = 3_500 * MILLISECOND;

#[test]
fn review_3_1_a_renewal_that_lands_after_the_release_is_refused_and_one_before_it_is_released_too() {
    for renewal_lands_ms in [3_400, 3_600, 5_000] {
        let (mut world, notes) = world(2, 10);
        world.intercept(Box::new(move |sent| {
            if sent.process != 0 || sent.at < SECOND || !is_write(&sent) {
                return None;
            }
            if is_release(&sent) {
                // The first release is slow: a renewal may overtake it.
                return Some(Fate::calm(200 * MILLISECOND, CALM));
            }
            Some(lands_silently((renewal_lands_ms * MILLISECOND).saturating_sub(sent.at)))
        }));
        world.order_at(AT, 0, STEP_DOWN);
        world.run_until(8 * SECOND);
        world.finish().expect("no rule is broken");
        assert!(notes.first_ms(3_500, "p0 free 1").is_some(), "{:?}", notes.since(3_000));
        assert_eq!(
            world.serves(1),
            Some(Epoch(2)),
            "renewal at {renewal_lands_ms}: {:?}",
            notes.since(3_000)
        );
        let released = notes.first_ms(0, "p0 free 1").expect("checked above");
        assert_eq!(notes.first_ms(released, "p0 held 1"), None, "A11: nothing of the old epoch lands later");
    }
}

#[test]
fn review_3_2_an_epoch_never_serves_again_once_its_release_was_sent() {
    let (mut world, notes) = world(2, 10);
    world.intercept(Box::new(|sent| {
        (sent.process == 0 && is_release(&sent)).then(|| lands_silently(30 * MILLISECOND))
    }));
    world.order_at(AT, 0, STEP_DOWN);
    world.run_until(12 * SECOND);
    world.finish().expect("no rule is broken");
    let sent = notes.first_ms(0, "p0 releases 1").expect("it releases");
    assert_eq!(notes.first_ms(sent, "p0 shut"), Some(3_500));
    assert!(notes.since(3_501).iter().all(|line| !line.contains("p0 open")), "{:?}", notes.since(3_500));
    // The answer comes with the read behind the cut-off of the release (1.667 s).
    let answered = notes.first_ms(0, "answers taken over by epoch 2").expect("it is answered");
    assert!((5_160..=5_180).contains(&answered), "{answered} ms");
}

#[test]
fn review_3_3_an_unconfirmed_release_is_taken_back_after_the_hold_off_without_an_expiry_wait() {
    let (mut world, notes) = world(1, 10);
    world.intercept(Box::new(|sent| is_release(&sent).then(unavailable)));
    world.order_at(AT, 0, STEP_DOWN);
    world.run_until(30 * SECOND);
    world.finish().expect("no rule is broken");
    // Given up at the end of the period (10.0), then the hold-off; never the 11 s of a stranger.
    let held_off = notes.first_ms(0, "p0 role hold_off").expect("it holds off");
    assert!((13_300..=13_350).contains(&held_off) || (9_990..=10_020).contains(&held_off), "{held_off} ms");
    let taken = notes.first_ms(3_500, "p0 takes 2").expect("it takes it back");
    assert!((5_000..=5_060).contains(&(taken - held_off)), "{held_off} {taken}");
    assert_eq!(notes.count("answers taken back as epoch 2"), 1, "{:?}", notes.since(3_000));
}

#[test]
fn review_3_4_a_release_that_is_denied_ends_the_process_and_the_call() {
    let (mut world, notes) = world(2, 10);
    world.intercept(Box::new(|sent| {
        is_release(&sent).then(|| Fate::lost(Heard::Permanent { after: 2 * CALM }))
    }));
    world.order_at(AT, 0, STEP_DOWN);
    world.run_until(20 * SECOND);
    world.finish().expect("no rule is broken");
    assert_eq!(notes.stops(), ["p0 stops: storage_permanent"]);
    assert!(
        notes.since(3_500).iter().any(|line| line.contains("p0 answers Internal")),
        "{:?}",
        notes.since(3_000)
    );
    // The others wait for the expiry.
    let taken = notes.first_ms(0, "p1 takes 2").expect("it takes over");
    assert!(taken > 14_000, "{taken} ms");
}

#[test]
fn review_3_5_a_release_is_tried_for_at_most_ten_seconds() {
    let (mut world, notes) = world(1, 60);
    world.intercept(Box::new(|sent| is_release(&sent).then(swallowed)));
    world.order_at(AT, 0, STEP_DOWN);
    world.run_until(30 * SECOND);
    world.finish().expect("no rule is broken");
    assert_eq!(notes.first_ms(0, "p0 role hold_off"), Some(13_500));
}

#[test]
fn review_3_6_taken_and_released_again_inside_the_hold_off_is_taken_over() {
    let (mut world, notes) = world(2, 10);
    // The process that stepped down sees nothing while the other one comes and goes.
    world.intercept(Box::new(|sent| {
        let blind = (3_510 * MILLISECOND..6_500 * MILLISECOND).contains(&sent.at);
        (sent.process == 0 && blind && !is_write(&sent)).then(unavailable)
    }));
    world.order_at(AT, 0, STEP_DOWN);
    world.order_at(5 * SECOND, 1, Order::Terminate);
    world.order_at(5_050 * MILLISECOND, 1, Order::Freeze(60 * SECOND));
    world.run_until(6 * SECOND);
    assert_eq!(world.role(0), Some(Role::HoldOff));
    world.order_at(6 * SECOND, 1, Order::Kill);
    world.order_at(6 * SECOND + 101 * MILLISECOND, 1, Order::Freeze(60 * SECOND));
    world.run_until(20 * SECOND);
    world.finish().expect("no rule is broken");
    let answers: Vec<String> = notes.all().into_iter().filter(|line| line.contains("p0 answers")).collect();
    assert_eq!(answers.len(), 1, "{:?}", notes.since(3_000));
    assert!(answers[0].contains("taken over"), "{answers:?}");
}
