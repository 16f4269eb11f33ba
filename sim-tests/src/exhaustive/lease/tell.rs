//! A way through the model, in words: the same events once more, with the names that things had.

use super::Bounds;
use super::world::{Event, World};

pub(super) fn tell(bounds: &Bounds, events: &[Event]) -> Vec<String> {
    let mut world = World::new(bounds);
    world.settle(bounds, false);
    events
        .iter()
        .map(|&event| {
            world.story = Some(Vec::new());
            world.happen(bounds, event);
            let story = world.story.take().unwrap_or_default();
            world.settle(bounds, false);
            if story.is_empty() { format!("({event:?})") } else { story.join("; ") }
        })
        .collect()
}
