//! Equal states become equal: what can have no effect any more is forgotten, and names become short.

use dexzd_core::ids::{Epoch, RequestId};
use dexzd_core::names::{Named, Names};
use dexzd_core::time::Instant;

use super::{Answer, BEGIN, Process, Request, Role, Stored, What, World};
use crate::exhaustive::lease::Bounds;
use crate::exhaustive::lease::renaming::{Renaming, Walk};

impl World {
    /// Forgets what can have no effect any more; with `rename`, also which names things have.
    pub(in crate::exhaustive::lease) fn settle(&mut self, bounds: &Bounds, rename: bool) {
        let ids = self.processes.iter().map(|process| process.id).collect();
        let mut names = Renaming::new(self.now, bounds, ids);
        names.awaited = self.awaited();
        for (index, process) in self.processes.iter_mut().enumerate() {
            names.process = index;
            process.name(&mut names);
        }
        let lease = self.lease.as_ref().map(|lease| lease.version);
        self.requests.retain(|it| {
            let key = (it.process, it.id);
            match &it.what {
                What::Read => !it.told,
                What::Write { .. } if it.answer.is_some() => !it.told && names.named.contains(&key),
                What::Write { expected, .. } => {
                    *expected == lease || !it.told && names.current.contains(&key)
                }
            }
        });
        // An answer that nobody would hear is no answer.
        for request in &mut self.requests {
            request.told |= !names.named.contains(&(request.process, request.id));
        }
        self.requests.sort_by_key(|it| (it.process, it.told, it.id));
        for lease in self.lease.iter() {
            names.alive.push(lease.record.nonce);
            names.alive_versions.push(lease.version);
        }
        for request in &self.requests {
            if let What::Write { record, .. } = &request.what {
                names.alive.push(record.nonce);
            }
            match &request.answer {
                None | Some(Answer::Found(None)) => {}
                Some(Answer::Done(version)) => names.alive_versions.push(*version),
                Some(Answer::Found(Some(lease))) => {
                    names.alive.push(lease.record.nonce);
                    names.alive_versions.push(lease.version);
                }
            }
        }
        if !rename {
            return;
        }
        names.awaited = self.awaited();
        names.epoch = self.lease.as_ref().map_or(Epoch(0), |lease| lease.record.epoch);
        names.walk = Walk::Collect;
        self.rename(&mut names);
        names.rank();
        self.rename(&mut names);
        self.now = BEGIN;
    }

    fn awaited(&self) -> Vec<(usize, RequestId)> {
        self.requests.iter().filter(|it| !it.told).map(|it| (it.process, it.id)).collect()
    }

    fn rename(&mut self, names: &mut Renaming) {
        for (index, process) in self.processes.iter_mut().enumerate() {
            names.process = index;
            process.name(names);
        }
        if let Some(lease) = &mut self.lease {
            lease.name(names);
        }
        for request in &mut self.requests {
            request.name(names);
        }
        names.past_epoch(&mut self.acquired);
        names.past_epoch(&mut self.released);
    }
}

impl Stored {
    fn name(&mut self, names: &mut Renaming) {
        names.record(&mut self.record);
        names.version_number(&mut self.version);
    }
}

impl Request {
    fn name(&mut self, names: &mut Renaming) {
        if !self.told {
            names.request_number(self.process, &mut self.id.0);
        } else if names.walk == Walk::Rewrite {
            self.id = RequestId(0);
        }
        if let What::Write { expected, record } = &mut self.what {
            names.record(record);
            if let Some(version) = expected {
                names.version_number(version);
            }
        }
        match &mut self.answer {
            None | Some(Answer::Found(None)) => {}
            Some(Answer::Done(version)) => names.version_number(version),
            Some(Answer::Found(Some(lease))) => lease.name(names),
        }
    }
}

impl Process {
    pub(super) fn name(&mut self, names: &mut dyn Names) {
        match &mut self.role {
            Role::Candidate(candidate) => candidate.name(names),
            Role::Holder(holder) => holder.name(names),
            Role::Release { release, .. } => release.name(names),
            Role::None => {}
        }
        if let Some(before) = &mut self.before {
            before.name(names);
        }
        names.process(&mut self.id);
        if self.open_until > Instant::ZERO {
            names.deadline(&mut self.open_until);
        }
    }
}
