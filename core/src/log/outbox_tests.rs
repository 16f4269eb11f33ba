use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;

fn released(outbox: &mut Outbox<u8, u32>, durable: u64) -> Vec<u32> {
    outbox.release(Position(durable)).collect()
}

#[test]
fn d_048_an_item_leaves_when_its_position_is_durable() {
    let mut outbox = Outbox::new();
    outbox.push_alone(Position(5), 1);
    outbox.push_alone(Position(3), 2);
    outbox.push_alone(Position(0), 3);
    assert_eq!(released(&mut outbox, 0), vec![3]);
    assert_eq!(released(&mut outbox, 2), vec![]);
    assert_eq!(released(&mut outbox, 5), vec![2, 1]);
    assert!(outbox.is_empty());
}

#[test]
fn d_048_nothing_overtakes_within_a_lane() {
    let mut outbox = Outbox::new();
    outbox.push(1, Position(5), 1);
    outbox.push(1, Position(0), 2);
    outbox.push(2, Position(0), 3);
    assert_eq!(released(&mut outbox, 4), vec![3]);
    assert_eq!(released(&mut outbox, 5), vec![1, 2]);
    outbox.push(1, Position(0), 4);
    assert_eq!(released(&mut outbox, 5), vec![4]);
}

#[test]
fn d_048_what_was_not_fetched_stays_in_front() {
    let mut outbox = Outbox::new();
    outbox.push(1, Position(5), 1);
    outbox.push(1, Position(5), 2);
    assert_eq!(outbox.release(Position(7)).next(), Some(1));
    outbox.push(1, Position(0), 3);
    assert_eq!(released(&mut outbox, 7), vec![2, 3]);
}

proptest! {
    #[test]
    fn d_048_every_item_leaves_once_in_its_lanes_order_and_never_early(
        pushes in proptest::collection::vec((0..3u8, 0..20u64, 0..8u64), 0..60),
    ) {
        let mut outbox = Outbox::new();
        let mut durable = 0;
        let mut left: Vec<usize> = Vec::new();
        for (index, (lane, after, advance)) in pushes.iter().enumerate() {
            outbox.push(*lane, Position(*after), index);
            durable += advance / 5;
            left.extend(outbox.release(Position(durable)));
            for index in &left {
                prop_assert!(pushes[*index].1 <= durable);
            }
        }
        left.extend(outbox.release(Position(u64::MAX)));
        prop_assert!(outbox.is_empty());
        prop_assert!(outbox.lanes.is_empty());
        for lane in 0..3 {
            let expected: Vec<usize> =
                (0..pushes.len()).filter(|index| pushes[*index].0 == lane).collect();
            let got: Vec<usize> =
                left.iter().copied().filter(|index| pushes[*index].0 == lane).collect();
            prop_assert_eq!(got, expected);
        }
    }
}
