//! The runs in memory. Any of them can be dropped at any time: what it decided stands in the overlay
//! until it stands in the store.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::limits;
use super::run::{LoadError, Run};
use super::state::StateRead;
use crate::ids::{Position, RunId};

#[derive(Debug, Default)]
pub(super) struct Runs {
    loaded: BTreeMap<RunId, Loaded>,
    /// Runs that the current input may have changed.
    touched: BTreeSet<RunId>,
    uses: u64,
}

#[derive(Debug)]
struct Loaded {
    run: Run,
    last_use: u64,
}

impl Runs {
    /// How many are in memory.
    pub(super) fn len(&self) -> usize {
        self.loaded.len()
    }

    /// A run, to read. It is loaded if need be; what it reads then may depend on everything up to `gathered`.
    pub(super) fn read(
        &mut self,
        id: RunId,
        state: &impl StateRead,
        gathered: Position,
    ) -> Result<&mut Run, LoadError> {
        self.uses += 1;
        let last_use = self.uses;
        match self.loaded.entry(id) {
            alloc::collections::btree_map::Entry::Occupied(entry) => {
                let loaded = entry.into_mut();
                loaded.last_use = last_use;
                Ok(&mut loaded.run)
            }
            alloc::collections::btree_map::Entry::Vacant(entry) => {
                let run = Run::load(id, state, gathered)?;
                Ok(&mut entry.insert(Loaded { run, last_use }).run)
            }
        }
    }

    /// A run, to change.
    pub(super) fn touch(
        &mut self,
        id: RunId,
        state: &impl StateRead,
        gathered: Position,
    ) -> Result<&mut Run, LoadError> {
        self.read(id, state, gathered)?;
        self.touched.insert(id);
        Ok(self.loaded_mut(id).expect("it was just read"))
    }

    /// Adds a run that was just created.
    pub(super) fn insert(&mut self, run: Run) {
        self.uses += 1;
        self.touched.insert(run.id);
        self.loaded.insert(run.id, Loaded { run, last_use: self.uses });
    }

    pub(super) fn remove(&mut self, id: RunId) {
        self.touched.remove(&id);
        self.loaded.remove(&id);
    }

    pub(super) fn loaded(&self, id: RunId) -> Option<&Run> {
        self.loaded.get(&id).map(|loaded| &loaded.run)
    }

    pub(super) fn loaded_mut(&mut self, id: RunId) -> Option<&mut Run> {
        self.loaded.get_mut(&id).map(|loaded| &mut loaded.run)
    }

    pub(super) fn touched(&self) -> Vec<RunId> {
        self.touched.iter().copied().collect()
    }

    pub(super) fn forget_touched(&mut self) {
        self.touched.clear();
    }

    /// Drops the half that was not used for the longest time, once there are too many.
    pub(super) fn evict(&mut self) {
        if self.loaded.len() <= limits::LOADED_RUNS {
            return;
        }
        let mut uses: Vec<u64> = self.loaded.values().map(|loaded| loaded.last_use).collect();
        let middle = uses.len() / 2;
        let (_, oldest_kept, _) = uses.select_nth_unstable(middle);
        let oldest_kept = *oldest_kept;
        self.loaded.retain(|_, loaded| loaded.last_use >= oldest_kept);
    }
}
