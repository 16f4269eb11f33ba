use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;

fn released(outbox: &mut Outbox<u32>, durable: u64) -> Vec<u32> {
    outbox.release(Position(durable)).collect()
}

#[test]
fn d_048_an_item_leaves_when_its_position_is_durable() {
    let mut outbox = Outbox::new();
    outbox.push(Position(5), 1);
    outbox.push(Position(3), 2);
    outbox.push(Position(0), 3);
    assert_eq!(released(&mut outbox, 0), vec![3]);
    assert_eq!(released(&mut outbox, 2), vec![]);
    assert_eq!(released(&mut outbox, 5), vec![2, 1]);
    assert!(outbox.is_empty());
}

#[test]
fn d_048_what_was_not_fetched_stays_in_front() {
    let mut outbox = Outbox::new();
    outbox.push(Position(5), 1);
    outbox.push(Position(5), 2);
    assert_eq!(outbox.release(Position(7)).next(), Some(1));
    outbox.push(Position(0), 3);
    assert_eq!(released(&mut outbox, 7), vec![2, 3]);
}

proptest! {
    #[test]
    fn d_048_every_item_leaves_once_never_early_and_equals_in_order(
        pushes in proptest::collection::vec((0..20u64, 0..8u64), 0..60),
    ) {
        let mut outbox = Outbox::new();
        let mut durable = 0;
        let mut left: Vec<usize> = Vec::new();
        for (index, (after, advance)) in pushes.iter().enumerate() {
            outbox.push(Position(*after), index);
            durable += advance / 5;
            left.extend(outbox.release(Position(durable)));
            prop_assert!(left.iter().all(|index| pushes[*index].0 <= durable));
        }
        left.extend(outbox.release(Position(u64::MAX)));
        prop_assert!(outbox.is_empty());
        for after in 0..20 {
            let expected: Vec<usize> = (0..pushes.len()).filter(|index| pushes[*index].0 == after).collect();
            let got: Vec<usize> = left.iter().copied().filter(|index| pushes[*index].0 == after).collect();
            prop_assert_eq!(got, expected);
        }
    }
}
