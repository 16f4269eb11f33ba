use super::{Dice, Script, Stream};

fn sample(dice: &mut Dice) -> Vec<u64> {
    (0..20)
        .flat_map(|_| {
            [
                dice.below(Stream::Store, "latency", 1_000),
                u64::from(dice.chance(Stream::Crash, "now", 300_000)),
                dice.weighted(Stream::Workload, "call", &[5, 0, 3]) as u64,
                dice.seed(Stream::Jitter(1), "process"),
            ]
        })
        .collect()
}

#[test]
fn equal_seeds_give_equal_draws_and_others_do_not() {
    let drawn = sample(&mut Dice::from_seed(7));
    assert_eq!(drawn, sample(&mut Dice::from_seed(7)));
    assert_ne!(drawn, sample(&mut Dice::from_seed(8)));
}

#[test]
fn a_draw_in_one_stream_does_not_reshuffle_another() {
    let mut plain = Dice::from_seed(7);
    let mut busy = Dice::from_seed(7);
    for _ in 0..100 {
        busy.below(Stream::Network, "delay", 50);
    }
    assert_eq!(
        plain.below(Stream::Store, "latency", 1_000_000),
        busy.below(Stream::Store, "latency", 1_000_000)
    );
}

#[test]
fn a_run_repeats_from_its_decision_log() {
    let mut first = Dice::from_seed(7);
    let drawn = sample(&mut first);
    let script = Script::parse(&first.written()).expect("our own log");
    let mut second = Dice::from_script(script);
    assert_eq!(drawn, sample(&mut second));
    assert_eq!(first.written(), second.written());
}

#[test]
fn a_draw_beyond_the_log_is_the_calm_one() {
    let mut dice = Dice::from_script(Script::parse("# cut\n\nstore latency 10 4\n").expect("log"));
    assert_eq!(dice.below(Stream::Store, "latency", 10), 4);
    assert_eq!(dice.below(Stream::Store, "latency", 10), 0);
    assert!(!dice.chance(Stream::Crash, "now", 999_999));
}

#[test]
fn a_choice_that_no_longer_exists_becomes_the_last_one() {
    let mut dice = Dice::from_script(Script::parse("store latency 10 9").expect("log"));
    assert_eq!(dice.below(Stream::Store, "latency", 3), 2);
}

#[test]
fn a_bad_line_is_named() {
    let error = Script::parse("store latency 10 4\nstore latency x").expect_err("three words");
    assert_eq!(
        error,
        "line 2 of the decision log is \"store latency x\": it must be a stream, a kind, the number of \
         alternatives and the one chosen"
    );
}

#[test]
fn a_weight_of_zero_is_never_chosen() {
    let mut dice = Dice::from_seed(1);
    for _ in 0..1_000 {
        assert_ne!(dice.weighted(Stream::Store, "fate", &[1, 0, 1]), 1);
    }
}

#[test]
fn a_written_choice_without_weight_does_not_happen() {
    let mut dice =
        Dice::from_script(Script::parse("store fate 3 1\nstore fate 3 2\nstore fate 3 7").expect("log"));
    assert_eq!(dice.weighted(Stream::Store, "fate", &[1, 0, 1]), 0);
    assert_eq!(dice.weighted(Stream::Store, "fate", &[1, 0, 1]), 2);
    assert_eq!(dice.weighted(Stream::Store, "fate", &[1, 0, 1]), 0);
}

#[test]
fn a_log_may_repeat_a_choice_and_say_when() {
    let mut dice =
        Dice::from_script(Script::parse("clock[3] rate 10 0*2\nclock[3] rate 10 4 # 1.5 s").expect("log"));
    let drawn: Vec<u64> = (0..4).map(|_| dice.below(Stream::Clock(3), "rate", 10)).collect();
    assert_eq!(drawn, [0, 0, 4, 0]);
}

#[test]
fn an_unknown_stream_and_an_endless_repeat_are_bad_lines() {
    for line in ["clock[9] rate 10 1", "weather rain 2 1", "store fate 3 0*99999999999", "store fate x 1"] {
        assert!(Script::parse(line).expect_err(line).starts_with("line 1 of the decision log is "), "{line}");
    }
}

#[test]
fn the_calm_pause_is_the_longest_and_the_calm_deviation_none() {
    let mut calm = Dice::from_script(Script::default());
    assert_eq!(calm.pause(Stream::Crash, "pause", 60), 60);
    assert_eq!(calm.around(Stream::Clock(0), "rate", 200), 0);
    let mut dice = Dice::from_seed(4);
    let drawn: Vec<(u64, i64)> = (0..1_000)
        .map(|_| (dice.pause(Stream::Crash, "pause", 3), dice.around(Stream::Clock(0), "rate", 2)))
        .collect();
    for expected in 1..=3 {
        assert!(drawn.iter().any(|(pause, _)| *pause == expected));
    }
    for expected in -2..=2 {
        assert!(drawn.iter().any(|(_, rate)| *rate == expected));
    }
    assert!(drawn.iter().all(|(pause, rate)| (1..=3).contains(pause) && (-2..=2).contains(rate)));
}

#[test]
fn a_log_that_says_little_and_means_too_much_is_refused() {
    let line = "store latency 7 0*6000000\n";
    assert!(Script::parse(line).is_ok());
    let refused = Script::parse(&line.repeat(2)).expect_err("12 million choices");
    assert!(refused.contains("line 2"), "{refused}");
}
