//! Threads for requests of which one may hang without delaying another.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// More requests at a time wait for one another. The core has a few on their way; the rest are given up and
/// hang still, each for as long as the store's own limits let it.
const LARGEST_CREW: usize = 64;

type Job = Box<dyn FnOnce() + Send>;

/// As many threads as there ever were requests at a time. They end with the crew; one that hangs ends when
/// its request does.
pub(super) struct Crew {
    name: &'static str,
    jobs: Sender<Job>,
    waiting: Arc<Mutex<Receiver<Job>>>,
    /// Given out and not done.
    open: Arc<AtomicUsize>,
    threads: usize,
}

impl Crew {
    pub(super) fn new(name: &'static str) -> Self {
        let (jobs, waiting) = mpsc::channel();
        Self { name, jobs, waiting: Arc::new(Mutex::new(waiting)), open: Arc::default(), threads: 0 }
    }

    /// Has a thread do this. If none can be had it waits for one that is there, and is dropped if there is
    /// none at all: whoever waits for an answer asks again.
    pub(super) fn submit(&mut self, job: impl FnOnce() + Send + 'static) {
        let open = self.open.fetch_add(1, Ordering::AcqRel) + 1;
        if open > self.threads && self.threads < LARGEST_CREW {
            match self.add_thread() {
                Ok(()) => self.threads += 1,
                Err(error) => tracing::warn!(%error, "no thread for a request to the log"),
            }
        }
        if self.threads == 0 {
            self.open.fetch_sub(1, Ordering::AcqRel);
            return;
        }
        self.jobs.send(Box::new(job)).expect("the crew itself holds the other end");
    }

    fn add_thread(&self) -> io::Result<()> {
        let (waiting, open) = (Arc::clone(&self.waiting), Arc::clone(&self.open));
        thread::Builder::new().name(self.name.to_owned()).spawn(move || {
            loop {
                // The lock is held while waiting: one thread waits for a job, the others for the lock.
                let job = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
                let Ok(job) = job else {
                    return;
                };
                job();
                open.fetch_sub(1, Ordering::AcqRel);
            }
        })?;
        Ok(())
    }
}
