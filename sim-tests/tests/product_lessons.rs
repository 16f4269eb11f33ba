//! Lessons about the work itself, as scripts of the whole product in virtual time. Every draw is the calm
//! one unless a script says otherwise.

use std::cell::RefCell;
use std::rc::Rc;

use dexzd_core::engine::{Answer, EventKind, FlowStatus};
use dexzd_core::lease::LeaseDuration;
use dexzd_core::stop::StopReason;
use dexzd_io_sim::dice::{Dice, Script};
use dexzd_io_sim::product::{Errand, Order, Place, ProductConfig, ProductWorld, Shape};
use dexzd_io_sim::watch::{Audit, Seen, Watcher};
use dexzd_io_sim::{MILLISECOND, SECOND, TrueTime};
use dexzd_sim_tests::product_watchers;
use dexzd_sim_tests::runner::story;

/// What happened, for exact questions.
#[derive(Default)]
struct Facts {
    made: Vec<(TrueTime, String)>,
    left: Vec<(TrueTime, String)>,
    answers: Vec<TrueTime>,
    /// Publications and stops that were acknowledged, and under which epoch.
    changes: Vec<u64>,
    leases: Vec<(TrueTime, u64)>,
    gates: Vec<(TrueTime, u64)>,
    stops: Vec<StopReason>,
    late: usize,
    audits: Vec<Audit>,
}

#[derive(Clone, Default)]
struct Notes(Rc<RefCell<Facts>>);

impl Watcher for Notes {
    fn rule(&self) -> &'static str {
        "notes"
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "a script looks at what it asks about, and at nothing else"
    )]
    fn observe(&mut self, at: TrueTime, seen: &Seen<'_>) -> Result<(), String> {
        let mut facts = self.0.borrow_mut();
        match seen {
            Seen::TaskMade { task, .. } => facts.made.push((at, format!("{} {}", task.step, task.attempt))),
            Seen::TaskLeft { task, .. } => facts.left.push((at, format!("{} {}", task.step, task.attempt))),
            Seen::LeaseLanded { record, .. } => facts.leases.push((at, record.epoch.0)),
            Seen::AnswerLeft { epoch, answer, .. } => {
                facts.answers.push(at);
                if matches!(answer, Ok(Answer::Published(_) | Answer::Done)) {
                    facts.changes.push(epoch.0);
                }
            }
            Seen::GateOpen { epoch, until, .. } if *until > at => facts.gates.push((at, epoch.0)),
            Seen::Died { reason: Some(reason), .. } => facts.stops.push(*reason),
            Seen::Settled { accepted: false, .. } => facts.late += 1,
            Seen::Audit(audit) => facts.audits.push((*audit).clone()),
            _ => {}
        }
        Ok(())
    }
}

fn world(config: ProductConfig) -> (ProductWorld, Notes) {
    let notes = Notes::default();
    let mut watchers = product_watchers(&config);
    watchers.add(Box::new(notes.clone()));
    let dice = Dice::from_script(Script::default());
    (ProductWorld::new(config, dice, watchers, story()), notes)
}

fn run(config: ProductConfig, orders: &[(TrueTime, Order)]) -> Notes {
    let (mut world, notes) = world(config);
    for (at, order) in orders {
        world.order_at(*at, 0, *order);
    }
    if let Err(violation) = world.run() {
        panic!("{violation}");
    }
    notes
}

fn words(list: &[(TrueTime, String)]) -> Vec<&str> {
    list.iter().map(|(_, word)| word.as_str()).collect()
}

fn steps_of(notes: &Notes, step: &str) -> Vec<String> {
    let facts = notes.0.borrow();
    facts.left.iter().filter(|(_, word)| word.starts_with(step)).map(|(_, word)| word.clone()).collect()
}

/// Two processes that share a store, the first of which is active.
fn failover(flows: Vec<Shape>) -> ProductConfig {
    ProductConfig {
        place: Place::Store,
        processes: 2,
        duration: LeaseDuration::DEFAULT,
        ..ProductConfig::calm(flows)
    }
}

#[test]
fn every_shape_completes_in_fine_weather() {
    let config = ProductConfig::calm(dexzd_io_sim::product::flows::SHAPES.to_vec());
    let (mut world, notes) = world(config);
    if let Err(violation) = world.run() {
        panic!("{violation}");
    }
    assert!(world.clients().iter().all(|client| client.status == Some(FlowStatus::Completed)));
    assert_eq!(notes.0.borrow().stops, []);
}

#[test]
fn lesson_g1_a_crash_costs_the_running_attempt_and_its_late_result_is_dropped() {
    let notes = run(ProductConfig::calm(vec![Shape::Long]), &[(5 * SECOND, Order::Kill)]);
    // Same Flow, run and Step execution, so the same idempotency key; one retry used (HA-20).
    assert_eq!(steps_of(&notes, "long"), ["long-1 1", "long-1 2"]);
    let facts = notes.0.borrow();
    assert_eq!(facts.late, 1, "the Worker that lived on sent the result of attempt 1 (FD-11)");
    let EventKind::ExecuteCompleted { context, .. } = &facts.audits[0].history[1].kind else {
        panic!("{:?}", facts.audits[0].history);
    };
    assert_eq!(context.attempt, 2);
    let failure = context.last_failure.as_ref().expect("attempt 1 failed");
    assert_eq!(&*failure.error_type, "NOT_COMPLETED");
}

#[test]
fn lesson_g2_an_attempt_whose_start_was_not_durable_costs_nothing() {
    let config = || ProductConfig { workers_from: SECOND, ..ProductConfig::calm(vec![Shape::Single]) };
    let undisturbed = run(config(), &[]);
    let made_at = undisturbed.0.borrow().made[0].0;
    let notes = run(config(), &[(made_at + 1, Order::PowerLoss)]);
    // The Step has one attempt: it runs again as attempt 1, and is not exhausted.
    assert_eq!(words(&notes.0.borrow().made), ["single-1 1", "single-1 1"]);
    assert_eq!(steps_of(&notes, "single"), ["single-1 1"]);
    assert_eq!(steps_of(&notes, "repair"), [""; 0]);
}

#[test]
fn lesson_g3_a_thousand_timers_due_around_a_failover_fire_once_each_and_soon() {
    let config = ProductConfig { slots: 1_000, ..failover(vec![Shape::Reminder; 1_000]) };
    let (mut world, notes) = world(config);
    // Rounds are due every three seconds, before, during and after eleven seconds without an active.
    world.order_at(5 * SECOND, 0, Order::Kill);
    if let Err(violation) = world.run() {
        panic!("{violation}");
    }
    let facts = notes.0.borrow();
    let served_at = facts.gates.iter().find(|(_, epoch)| *epoch == 2).expect("a failover").0;
    assert!(served_at > 14 * SECOND, "the standby waited for the expiry");
    let first = facts.left.iter().filter(|(at, word)| *at >= served_at && word.ends_with(" 1")).count();
    assert!(first >= 1_000);
    // All that was overdue goes out within a second of serving.
    let overdue = facts.left.iter().filter(|(at, _)| (served_at..served_at + SECOND).contains(at)).count();
    assert!(overdue >= 1_000, "{overdue} within a second");
    // That each fires once is what the watchers check: four rounds, no more, for each Flow.
    assert_eq!(facts.audits.len(), 1_000);
}

#[test]
fn lesson_g7_each_failover_costs_a_received_attempt_exactly_one() {
    let kills: Vec<(TrueTime, Order)> =
        [5, 10, 15].into_iter().map(|second| (second * SECOND, Order::Kill)).collect();
    let notes = run(ProductConfig::calm(vec![Shape::Long]), &kills);
    assert_eq!(steps_of(&notes, "long"), ["long-1 1", "long-1 2", "long-1 3", "long-1 4"]);
}

#[test]
fn lesson_g7_an_async_attempt_that_was_not_durable_keeps_its_number() {
    let config = || ProductConfig { workers_from: SECOND, ..ProductConfig::calm(vec![Shape::ChainAsync]) };
    let undisturbed = run(config(), &[]);
    let left_at = undisturbed.0.borrow().left[0].0;
    let notes = run(config(), &[(left_at + 1, Order::PowerLoss)]);
    assert_eq!(steps_of(&notes, "first"), ["first-1 1", "first-1 1"]);
}

#[test]
fn lesson_g7_what_nobody_received_survives_failovers_unharmed() {
    let config = ProductConfig { workers_from: 30 * SECOND, ..ProductConfig::calm(vec![Shape::Single; 3]) };
    let kills = [(10 * SECOND, Order::Kill), (20 * SECOND, Order::Kill)];
    let notes = run(config, &kills);
    assert_eq!(steps_of(&notes, "single"), ["single-1 1"; 3]);
    assert_eq!(steps_of(&notes, "repair"), [""; 0]);
}

#[test]
fn lesson_g8_nothing_is_served_before_recovery_and_every_start_counts_once() {
    let config = ProductConfig { starts_within: 0, ..ProductConfig::calm(vec![Shape::ChainSync; 50]) };
    let notes = run(config, &[(SECOND, Order::Kill)]);
    let facts = notes.0.borrow();
    let first_gate = facts.gates[0].0;
    assert!(facts.left.iter().all(|(at, _)| *at > first_gate));
    assert!(facts.answers.iter().all(|at| *at > first_gate));
    assert_eq!(facts.audits.len(), 50);
}

#[test]
fn lesson_g10_a_crash_at_any_output_strands_nothing() {
    let flows = vec![Shape::ChainMixed, Shape::Fan, Shape::Order, Shape::Flaky];
    let (mut undisturbed, _) = world(ProductConfig::calm(flows.clone()));
    undisturbed.run().expect("no rule is broken");
    let outputs = undisturbed.outputs();
    assert!(outputs > 200, "{outputs}");
    for output in 1..=outputs.min(600) {
        let config = ProductConfig { crash_at_output: Some(output), ..ProductConfig::calm(flows.clone()) };
        let (mut world, _) = world(config);
        if let Err(violation) = world.run() {
            panic!("with a crash at output {output}: {violation}");
        }
    }
}

#[test]
fn lesson_h1_a_killed_process_serves_again_at_once_under_a_higher_epoch() {
    let notes = run(ProductConfig::calm(vec![Shape::Reminder]), &[(5 * SECOND, Order::Kill)]);
    let facts = notes.0.borrow();
    let (at, epoch) = *facts.gates.iter().find(|(at, _)| *at > 5 * SECOND).expect("it serves again");
    assert_eq!(epoch, 2);
    assert!(at < 5 * SECOND + 100 * MILLISECOND, "HA-6: without a wait, not after {at} us");
}

#[test]
fn lesson_h4_a_failed_sync_stops_the_process_and_nothing_that_was_said_is_lost() {
    // Its second round is written three seconds after the first one.
    let notes = run(ProductConfig::calm(vec![Shape::Reminder; 5]), &[(SECOND, Order::FailSync)]);
    assert_eq!(notes.0.borrow().stops, [StopReason::LocalStoreFailed]);
}

#[test]
fn d_033_lesson_h3_a_full_disk_stops_the_process_and_space_lets_it_go_on() {
    let config = ProductConfig::calm(vec![Shape::Reminder; 5]);
    let orders = [(SECOND, Order::DiskFull(true)), (20 * SECOND, Order::DiskFull(false))];
    let notes = run(config, &orders);
    let facts = notes.0.borrow();
    assert!(!facts.stops.is_empty());
    assert!(facts.stops.iter().all(|reason| *reason == StopReason::LocalStoreFailed), "{:?}", facts.stops);
}

#[test]
fn ha_016_a_shutdown_drains_releases_and_is_taken_over_without_an_expiry_wait() {
    let notes = run(failover(vec![Shape::Reminder]), &[(5 * SECOND, Order::Terminate)]);
    let facts = notes.0.borrow();
    assert_eq!(facts.stops, [StopReason::Shutdown]);
    let (at, epoch) = *facts.gates.iter().find(|(_, epoch)| *epoch == 2).expect("a takeover");
    assert_eq!(epoch, 2);
    assert!(at < 6 * SECOND, "the standby serves at {at} us");
}

#[test]
fn fd_007_after_a_crash_a_standby_takes_over_when_the_lease_has_been_expired_for_a_second() {
    let notes = run(failover(vec![Shape::Long]), &[(5 * SECOND, Order::Kill)]);
    let facts = notes.0.borrow();
    let (last, _) = *facts.leases.iter().rfind(|(_, epoch)| *epoch == 1).expect("the first active");
    let (taken, _) = *facts.leases.iter().find(|(_, epoch)| *epoch == 2).expect("a takeover");
    // D + 1 s after the last landing, then one poll and two store calls (D-2).
    let wait = taken - last;
    assert!(
        (11 * SECOND..11 * SECOND + 400 * MILLISECOND).contains(&wait),
        "{wait} us after the last landing"
    );
    let attempts: Vec<&str> =
        words(&facts.left).into_iter().filter(|word| word.starts_with("long")).collect();
    assert_eq!(attempts, ["long-1 1", "long-1 2"]);
}

#[test]
fn lesson_e5_what_is_acknowledged_during_a_shutdown_or_step_down_is_in_the_new_state_and_the_rest_is_not_done()
 {
    let mut acknowledged = [0, 0];
    for seed in 0..20 {
        let flows = [vec![Shape::Takers; 10], vec![Shape::Order; 10]].concat();
        let config =
            ProductConfig { starts_within: 6 * SECOND, stops_per_million: 500_000, ..failover(flows) };
        let notes = Notes::default();
        // They check it: an order of all calls that explains each answer, and every promise in the audit.
        let mut watchers = product_watchers(&config);
        watchers.add(Box::new(notes.clone()));
        let mut world = ProductWorld::new(config, Dice::from_seed(seed), watchers, story());
        let at = 5 * SECOND + seed * 50 * MILLISECOND;
        match seed % 2 {
            0 => world.order_at(at, 0, Order::Terminate),
            _ => world.errand_at(at, Errand::StepDown),
        }
        if let Err(violation) = world.run() {
            panic!("seed {seed}: {violation}");
        }
        for epoch in &notes.0.borrow().changes {
            acknowledged[usize::from(*epoch > 1)] += 1;
        }
    }
    assert!(acknowledged.iter().all(|count| *count > 50), "before and after the switch: {acknowledged:?}");
}
