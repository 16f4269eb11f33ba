//! A reference model of Channels, written from concepts.md 1.6 and 1.8: publications, deletions and
//! waiters in any order, with crashes in between, against a queue that anybody can check by eye.

use std::collections::BTreeMap;
use std::format;
use std::string::String;
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::build::*;
use super::driver::{Given, World};
use crate::engine::*;
use crate::ids::MessageId;

#[derive(Clone, Debug)]
enum Action {
    /// A client publishes so many messages.
    Publish { channel: usize, count: usize },
    /// A client deletes the pending message at this place, if there is one.
    Delete { channel: usize, place: usize },
    /// The next Step begins to wait.
    Wait { channel: usize, least: u32, more: u32 },
    /// The node dies; everything acknowledged survives.
    Crash,
}

const CHANNELS: [&str; 2] = ["a", "b"];
const STEPS: usize = 12;

/// What the document says.
#[derive(Default)]
struct Model {
    queues: BTreeMap<usize, Vec<(MessageId, String)>>,
    /// Step number, Channel, at least, at most; in the order in which they began to wait.
    waiters: Vec<(u32, usize, usize, usize)>,
    /// What each Step that went on was told.
    told: BTreeMap<u32, String>,
}

impl Model {
    fn serve(&mut self) {
        let mut still_waiting = Vec::new();
        for (step, channel, least, most) in core::mem::take(&mut self.waiters) {
            let queue = self.queues.entry(channel).or_default();
            if queue.len() < least {
                still_waiting.push((step, channel, least, most));
                continue;
            }
            let count = queue.len().min(most);
            let taken: Vec<String> = queue.drain(..count).map(|(_, text)| text).collect();
            self.told.insert(step, taken.join(","));
        }
        self.waiters = still_waiting;
    }
}

fn any_action() -> impl Strategy<Value = Action> {
    prop_oneof![
        4 => (0..2_usize, 1..4_usize).prop_map(|(channel, count)| Action::Publish { channel, count }),
        1 => (0..2_usize, 0..4_usize).prop_map(|(channel, place)| Action::Delete { channel, place }),
        4 => (0..2_usize, 0..4_u32, 0..3_u32)
            .prop_map(|(channel, least, more)| Action::Wait { channel, least, more }),
        1 => Just(Action::Crash),
    ]
}

/// A world in which `STEPS` Steps run their WaitFor.
fn world_with_waiters() -> World {
    let mut world = World::new();
    let worker = world.worker_with(100, &["Split", "Ask"], false);
    world.start("f", step("Split"));
    let split = world.task(worker);
    let movements = vec![waiting_step("Ask"); STEPS];
    world.execute_done(&split, DecisionKind::GoTo(movements));
    world
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn concepts_1_8_channels_agree_with_a_queue_that_anybody_can_check(
        actions in proptest::collection::vec(any_action(), 1..40),
    ) {
        let mut world = world_with_waiters();
        let mut model = Model::default();
        let mut told_by_engine: BTreeMap<u32, String> = BTreeMap::new();
        let mut wait_fors: Vec<Given> = Vec::new();
        let mut published = 0;
        for action in actions {
            collect(&mut world, &mut wait_fors, &mut told_by_engine);
            match action {
                Action::Publish { channel, count } => {
                    let texts: Vec<String> = (0..count).map(|place| format!("{}", published + place)).collect();
                    published += count;
                    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
                    let ids = world.publish("f", CHANNELS[channel], &texts);
                    let messages = ids.into_iter().zip(texts.iter().map(|text| String::from(*text)));
                    model.queues.entry(channel).or_default().extend(messages);
                }
                Action::Delete { channel, place } => {
                    let queue = model.queues.entry(channel).or_default();
                    if place < queue.len() {
                        let (id, _) = queue.remove(place);
                        let request_id = world.request_id();
                        let call = Call::DeleteMessages {
                            request_id,
                            target: target("f"),
                            channel: key(CHANNELS[channel]),
                            messages: vec![id],
                        };
                        prop_assert_eq!(world.ask(call), Ok(Answer::Done));
                    }
                }
                Action::Wait { channel, least, more } => {
                    if wait_fors.is_empty() {
                        continue;
                    }
                    let task = wait_fors.remove(0);
                    let most = (least + more).max(1);
                    world.wait_for_done(&task, until(bounded(CHANNELS[channel], Some(least), Some(most))));
                    model.waiters.push((task.step.number, channel, least as usize, most as usize));
                }
                Action::Crash => {
                    world.crash();
                    wait_fors.clear();
                    world.worker_with(100, &["Ask"], false);
                    world.advance_ms(200_000);
                }
            }
            model.serve();
            for (channel, name) in CHANNELS.into_iter().enumerate() {
                let expected: Vec<String> = model
                    .queues
                    .get(&channel)
                    .map(|queue| queue.iter().map(|(_, text)| text.clone()).collect())
                    .unwrap_or_default();
                prop_assert_eq!(world.pending("f", name), expected);
            }
            collect(&mut world, &mut wait_fors, &mut told_by_engine);
            prop_assert_eq!(&told_by_engine, &model.told);
            world.sweep();
        }
    }
}

/// Sorts the tasks of the newest stream: WaitFors to be answered, Executes that say what was consumed. An
/// Execute that is repeated after a crash is told the same again.
fn collect(world: &mut World, wait_fors: &mut Vec<Given>, told_by_engine: &mut BTreeMap<u32, String>) {
    let Some(stream) = world.open_streams().last().copied() else {
        return;
    };
    while let Some(task) = world.try_task(stream) {
        match task.method {
            Method::WaitFor => wait_fors.push(task),
            Method::Execute => {
                let text = told(&task).concat();
                let before = told_by_engine.insert(task.step.number, text.clone());
                assert!(before.is_none_or(|before| before == text), "{} is told two things", task.step);
            }
        }
    }
}
