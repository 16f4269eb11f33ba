use super::driver::{Driver, ME, Sent, holder, seconds};
use super::{Holder, HolderOutput};
use crate::ids::{Epoch, Position};
use crate::stop::StopReason;
use crate::store::{ReadOutcome, WriteOutcome};
use crate::time::Instant;
use std::vec;
use std::vec::Vec;

pub(super) const TRANSIENT: WriteOutcome = WriteOutcome::Transient { retry_after_ms: None };
pub(super) const LOST_TO_TIME: [HolderOutput; 1] = [HolderOutput::Lost(StopReason::LeaseExpired)];

pub(super) fn lost(reason: StopReason) -> Vec<HolderOutput> {
    vec![HolderOutput::Lost(reason)]
}

pub(super) fn writes(sent: &[Sent]) -> Vec<&Sent> {
    sent.iter().filter(|sent| !sent.is_read()).collect()
}

/// The first renewal of a lease of 10 s, sent and not answered.
pub(super) fn renewing() -> (Driver<Holder>, Sent) {
    let mut holder = holder(seconds(10));
    holder.until_micros(3_333_333);
    let sent = holder.sent();
    (holder, sent)
}

/// A try fails: its answer, and the read that follows it. Returns that read.
pub(super) fn fail(holder: &mut Driver<Holder>, sent: &Sent, outcome: WriteOutcome) -> Sent {
    holder.answer_write(sent, outcome);
    let read = holder.sent();
    assert!(read.is_read());
    read
}

pub(super) fn valid_until(ms: f64, told: &[HolderOutput]) -> bool {
    told.iter().any(|output| match output {
        HolderOutput::Valid { until, .. } => *until == Instant::from_micros((ms * 1_000.0).round() as u64),
        HolderOutput::Request { .. }
        | HolderOutput::Doubt
        | HolderOutput::Confirmed
        | HolderOutput::TrimmedBelow(_)
        | HolderOutput::Event(_)
        | HolderOutput::Lost(_) => false,
    })
}

// --- renewing ---

#[test]
fn ha_003_the_renewal_starts_after_a_third_of_the_period() {
    for (duration, starts) in [
        (3, 1_000_000),
        (6, 2_000_000),
        (10, 3_333_333),
        (30, 10_000_000),
        (60, 20_000_000),
        (120, 40_000_000),
    ] {
        let mut holder = holder(seconds(duration));
        holder.until_micros(starts - 1);
        assert_eq!(holder.all_sent().len(), 0);
        holder.until_micros(starts);
        assert_eq!(holder.sent().at_micros, starts);
    }
}

#[test]
fn d_001_and_lesson_b3_the_period_counts_from_the_send() {
    let (mut holder, sent) = renewing();
    let outcome = holder.land(&sent);
    holder.until_ms(4_900);
    holder.answer_write(&sent, outcome);
    assert_eq!(holder.valid_until_ms(), 13_333.333);
    // Then the store is out of reach: the tenure ends by that count.
    holder.until_micros(13_233_332);
    assert!(holder.decided().iter().all(|output| matches!(output, HolderOutput::Valid { .. })));
    holder.until_micros(13_233_333);
    assert_eq!(holder.decided(), LOST_TO_TIME);
}

#[test]
fn ha_036_renewals_in_one_hour() {
    for (duration, renewals) in [(10, 1_080), (60, 180), (30, 360)] {
        let sent = holder(seconds(duration)).run_with_latency(3_600_000, 20);
        assert!(sent.iter().all(|sent| !sent.is_read()));
        assert!(sent.len().abs_diff(renewals) <= 1, "{} renewals at D = {duration} s", sent.len());
    }
}

#[test]
fn d_012_a_renewal_carries_epoch_bound_and_log_end() {
    let mut holder = holder(seconds(10));
    holder.machine.set_log_end(Position(44));
    holder.machine.set_log_end(Position(41));
    holder.machine.raise_trimmed_below(Position(5));
    holder.machine.raise_trimmed_below(Position(4));
    holder.until_micros(3_333_333);
    let record = holder.serve_next().record();
    assert_eq!((record.epoch, record.holder), (Epoch(7), ME));
    assert_eq!((record.trimmed_below, record.log_end), (Position(5), Position(44)));
}

#[test]
fn d_030_a_bound_counts_once_its_write_has_landed() {
    let mut holder = holder(seconds(10));
    holder.until_micros(3_333_333);
    let before = holder.sent();
    holder.machine.raise_trimmed_below(Position(5));
    holder.serve(&before);
    assert!(!holder.told().contains(&HolderOutput::TrimmedBelow(Position(5))));
    holder.until_ms(6_667);
    holder.serve_next();
    assert!(holder.told().contains(&HolderOutput::TrimmedBelow(Position(5))));
}

#[test]
fn d_050_review_12_2_no_two_lease_writes_are_equal() {
    let mut holder = holder(seconds(10));
    let mut bodies = Vec::new();
    for sent in holder.run_with_latency(60_000, 2_000) {
        if !sent.is_read() {
            bodies.push(sent.record().encode());
        }
    }
    assert!(bodies.len() > 15);
    let count = bodies.len();
    bodies.sort();
    bodies.dedup();
    assert_eq!(bodies.len(), count);
}

// --- tries and back-off ---

#[test]
fn ha_022_and_d_004_a_failed_try_is_repeated_after_a_back_off() {
    let (mut holder, sent) = renewing();
    let mut sent = sent;
    let mut nominal = 100_000;
    for _ in 0..6 {
        let failed_at = holder.now_micros();
        let read = fail(&mut holder, &sent, TRANSIENT);
        holder.answer_read(&read, ReadOutcome::Transient { retry_after_ms: None });
        holder.until_micros(failed_at + nominal);
        sent = holder.sent();
        let waited = sent.at_micros - failed_at;
        assert!(waited >= nominal / 2 && waited <= nominal, "{waited} us of {nominal} us");
        nominal = (nominal * 2).min(1_000_000);
    }
}

#[test]
fn d_004_retry_after_raises_the_back_off() {
    let (mut holder, sent) = renewing();
    fail(&mut holder, &sent, WriteOutcome::Transient { retry_after_ms: Some(2_000) });
    holder.until_micros(3_333_333 + 1_999_999);
    assert_eq!(holder.all_sent().len(), 0);
    holder.until_micros(3_333_333 + 2_000_000);
    assert!(!holder.sent().is_read());
}

#[test]
fn ha_023_and_d_005_a_try_is_cut_off_at_a_sixth_while_another_fits() {
    for (duration, start, cut_off) in [
        (3, 1_000_000, 1_000_000),
        (6, 2_000_000, 1_000_000),
        (10, 3_333_333, 1_666_666),
        (30, 10_000_000, 5_000_000),
        (60, 20_000_000, 5_000_000),
        (120, 40_000_000, 5_000_000),
    ] {
        let mut holder = holder(seconds(duration));
        holder.until_micros(start);
        holder.sent();
        holder.until_micros(start + cut_off - 1);
        assert_eq!(holder.all_sent().len(), 0, "no cut-off yet at D = {duration} s");
        holder.until_micros(start + cut_off);
        assert!(holder.sent().is_read(), "cut off at D = {duration} s");
    }
}

#[test]
fn ha_024_the_last_try_may_use_all_the_time_left() {
    let mut holder = holder(seconds(60));
    holder.freeze_until_ms(54_850);
    holder.input(super::LeaseInput::Tick);
    let last = holder.sent();
    // Five seconds and a back-off of at least 50 ms end at the cut-off: no other try fits.
    holder.until_ms(59_899);
    assert_eq!(holder.all_sent().len(), 0, "still the same try after 5.049 s");
    holder.serve(&last);
    assert!(valid_until(114_850.0, &holder.decided()));
}

#[test]
fn ha_026_ha_027_d_006_it_stops_when_no_further_try_fits() {
    let (mut holder, sent) = renewing();
    holder.until_ms(9_899);
    let all = holder.all_sent();
    let last = writes(&all).last().copied().cloned().unwrap_or(sent);
    let read = fail(&mut holder, &last, TRANSIENT);
    assert_eq!(holder.decided(), []);
    // Nothing to adopt: there is nothing left to wait for.
    let stale: Vec<Sent> = all.into_iter().filter(Sent::is_read).collect();
    for it in &stale {
        holder.serve(it);
    }
    holder.serve(&read);
    assert_eq!(holder.decided(), LOST_TO_TIME);
    assert_eq!(holder.machine.poll_timeout(), None);
}

#[test]
fn ha_025_the_cut_off_is_100_ms_before_the_end() {
    for duration in [3, 6, 10, 30, 60, 120] {
        let mut holder = holder(seconds(duration));
        holder.until_ms(duration * 1_000 - 101);
        assert_eq!(holder.decided(), []);
        holder.until_ms(duration * 1_000 - 100);
        assert_eq!(holder.decided(), LOST_TO_TIME);
    }
}

/// The store stalls at the worst moment and comes back 1 s and a round trip before the cut-off.
#[test]
fn ha_035_an_idle_node_survives_the_stall_of_the_table() {
    for duration in [3, 6, 10, 30, 60, 120] {
        let lease = seconds(duration);
        let mut holder = holder(lease);
        let back_ms = u64::try_from(lease.renewal_cut_off().as_millis()).unwrap() - 1_000 - 40;
        holder.until_ms(back_ms);
        let lost = holder.all_sent();
        assert!(!lost.is_empty());
        // Everything sent so far is lost; from here on the store answers in 40 ms.
        for sent in &lost {
            if !sent.is_read() {
                holder.answer_write(sent, TRANSIENT);
            }
        }
        holder.run_with_latency(duration * 3_000, 40);
        assert!(
            !holder.decided().iter().any(|output| matches!(output, HolderOutput::Lost(_))),
            "stopped at D = {duration} s"
        );
    }
}

#[test]
fn ha_035_a_freeze_that_ends_a_round_trip_before_the_cut_off_is_survived() {
    for duration in [3, 6, 10, 30, 60, 120] {
        let mut holder = holder(seconds(duration));
        holder.freeze_until_ms(duration * 1_000 - 100 - 40);
        holder.run_with_latency(duration * 2_000, 39);
        assert!(!holder.decided().iter().any(|output| matches!(output, HolderOutput::Lost(_))));
    }
}

/// Lesson A2: every renewal fails from 3.3 s to 6 s.
#[test]
fn lesson_a2_a_short_outage_is_survived_by_tries_until_9_9_s() {
    let mut holder = holder(seconds(10));
    holder.until_ms(6_000);
    let lost = holder.all_sent();
    let tries = writes(&lost);
    assert_eq!(tries.len(), 2);
    assert_eq!(tries[0].at_micros, 3_333_333);
    // Cut off after 1.667 s, then a back-off of 50 to 100 ms.
    let wait = tries[1].at_micros - 3_333_333 - 1_666_666;
    assert!((50_000..=100_000).contains(&wait), "{wait} us");
    let sent = holder.run_with_latency(9_000, 40);
    assert!(!sent.is_empty());
    let told = holder.decided();
    assert_eq!(told.len(), 1);
    assert!(matches!(told[0], HolderOutput::Valid { .. }));
}

#[test]
fn lesson_a10_a_slow_store_is_lived_with_for_ever() {
    // The last three are beyond the cut-off of a try: late answers count (protocol review 2.13).
    for (duration, latency) in [(10, 1_200), (60, 3_000), (10, 1_800), (10, 3_000), (60, 12_000)] {
        let mut holder = holder(seconds(duration));
        holder.run_with_latency(3_600_000, latency);
        assert!(
            !holder.decided().iter().any(|output| matches!(output, HolderOutput::Lost(_))),
            "D = {duration} s with {latency} ms stopped"
        );
    }
}

#[test]
fn d_004_a_success_begins_the_back_off_anew() {
    let (mut holder, first) = renewing();
    let mut sent = first;
    for _ in 0..5 {
        let failed_at = holder.now_micros();
        fail(&mut holder, &sent, TRANSIENT);
        holder.until_micros(failed_at + 1_000_000);
        sent = holder.sent();
    }
    holder.serve(&sent);
    let next_at = sent.at_micros + 3_333_333;
    holder.until_micros(next_at);
    let next = holder.sent();
    fail(&mut holder, &next, TRANSIENT);
    holder.until_micros(next_at + 100_000);
    assert!(!holder.sent().is_read(), "within the first wait of 100 ms");
}

// --- adoption ---

#[test]
fn lesson_a1_a_write_whose_answer_was_lost_is_adopted() {
    let (mut holder, first) = renewing();
    holder.land(&first);
    holder.until_micros(3_333_333 + 1_666_666);
    let read = holder.sent();
    holder.serve(&read);
    assert_eq!(Driver::adoptions(&holder.told()), 1);
    assert_eq!(holder.valid_until_ms(), 13_333.333);
    // The next renewal is built on the version found.
    holder.until_micros(6_666_666);
    let next = holder.serve_next();
    assert_eq!(next.at_micros, 6_666_666);
    assert_eq!(holder.valid_until_ms(), 16_666.666);
}

#[test]
fn ha_028_review_2_2_adoption_counts_from_the_send_of_the_write_that_landed() {
    let (mut holder, first) = renewing();
    holder.until_micros(3_333_333 + 1_666_666);
    let early_read = holder.sent();
    let nothing = holder.store.read();
    holder.until_ms(5_100);
    let second = holder.sent();
    assert_eq!(holder.land(&first), WriteOutcome::Done { version: version_of(&holder) });
    assert_eq!(holder.land(&second), WriteOutcome::Refused);
    holder.answer_read(&early_read, nothing);
    let read = fail(&mut holder, &second, WriteOutcome::Refused);
    holder.serve(&read);
    assert_eq!(holder.valid_until_ms(), 13_333.333, "from the first try, neither the second nor now");
}

fn version_of(holder: &Driver<Holder>) -> crate::store::Version {
    let ReadOutcome::Found { version, .. } = holder.store.read() else { panic!("there is a lease") };
    version
}

#[test]
fn d_008_a_late_positive_answer_of_an_abandoned_try_counts() {
    let (mut holder, first) = renewing();
    let outcome = holder.land(&first);
    holder.until_ms(5_100);
    let others = holder.all_sent();
    assert_eq!(others.len(), 2, "a read and the second try");
    holder.answer_write(&first, outcome);
    assert_eq!(Driver::adoptions(&holder.told()), 1);
    assert_eq!(holder.valid_until_ms(), 13_333.333);
    // What was under way on the old base means nothing any more.
    for other in &others {
        holder.serve(other);
    }
    assert_eq!(holder.told(), []);
    holder.until_micros(6_666_666);
    assert!(!holder.sent().is_read());
}

#[test]
fn d_008_a_read_from_before_the_newest_base_means_nothing() {
    let (mut holder, first) = renewing();
    holder.until_ms(5_100);
    let read = holder.all_sent().remove(0);
    let before = holder.store.read();
    let outcome = holder.land(&first);
    holder.answer_write(&first, outcome);
    holder.answer_read(&read, before);
    assert!(!holder.decided().iter().any(|output| matches!(output, HolderOutput::Lost(_))));
}

#[test]
fn ha_029_adopted_one_millisecond_before_the_cut_off_but_not_at_it() {
    for (at_ms, adopted) in [(9_899, true), (9_900, false)] {
        let (mut holder, first) = renewing();
        holder.land(&first);
        holder.until_ms(5_000);
        let read = holder.sent();
        let shown = holder.store.read();
        holder.until_ms(at_ms - 1);
        holder.decided();
        holder.freeze_until_ms(at_ms);
        holder.answer_read(&read, shown);
        let expected: Vec<HolderOutput> = if adopted { Vec::new() } else { lost(StopReason::LeaseExpired) };
        let told = holder.decided();
        assert_eq!(told.iter().filter(|it| matches!(it, HolderOutput::Lost(_))).count(), expected.len());
        assert_eq!(holder.valid_until_ms(), if adopted { 13_333.333 } else { 10_000.0 });
    }
}

#[test]
fn d_008_a_renewal_adopted_after_its_third_is_renewed_at_once() {
    let (mut holder, first) = renewing();
    holder.land(&first);
    holder.until_ms(5_000);
    let read = holder.sent();
    let shown = holder.store.read();
    holder.until_ms(8_000);
    holder.all_sent();
    holder.answer_read(&read, shown);
    let next = holder.sent();
    assert_eq!(next.at_ms(), 8_000.0);
    holder.serve(&next);
    assert_eq!(holder.valid_until_ms(), 18_000.0);
}
