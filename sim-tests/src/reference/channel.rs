//! Channels: FIFO queues of values, one per name and instance.

use std::collections::BTreeMap;

use dexzd_core::engine::{Key, Value};
use dexzd_core::ids::MessageId;

/// All queues of one run.
#[derive(Clone, Default, Debug)]
pub struct Channels {
    queues: BTreeMap<Key, Vec<(Option<MessageId>, Value)>>,
}

impl Channels {
    /// Puts a message at the end. The ID is known where a client heard it.
    pub fn publish(&mut self, channel: &Key, id: Option<MessageId>, value: Value) {
        self.queues.entry(channel.clone()).or_default().push((id, value));
    }

    /// How many messages are pending.
    #[must_use]
    pub fn size(&self, channel: &Key) -> usize {
        self.queues.get(channel).map_or(0, Vec::len)
    }

    /// Takes so many from the front, as far as there are any.
    pub fn take(&mut self, channel: &Key, count: usize) -> Vec<Value> {
        let Some(queue) = self.queues.get_mut(channel) else {
            return Vec::new();
        };
        let count = count.min(queue.len());
        queue.drain(..count).map(|(_, value)| value).collect()
    }

    /// Deletes a message by its ID; false if it is not pending.
    pub fn delete(&mut self, channel: &Key, id: MessageId) -> bool {
        let Some(queue) = self.queues.get_mut(channel) else {
            return false;
        };
        let place = queue.iter().position(|(known, _)| *known == Some(id));
        place.map(|place| queue.remove(place)).is_some()
    }

    /// Unconsumed messages vanish when the Flow closes.
    pub fn clear(&mut self) {
        self.queues.clear();
    }

    /// What is pending, without empty Channels.
    #[must_use]
    pub fn pending(&self) -> BTreeMap<Key, Vec<Value>> {
        let values = |queue: &Vec<(_, Value)>| queue.iter().map(|(_, value)| value.clone()).collect();
        let filled = self.queues.iter().filter(|(_, queue)| !queue.is_empty());
        filled.map(|(channel, queue)| (channel.clone(), values(queue))).collect()
    }
}
