//! Threads for requests that block: one each, and no more than so many.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Four transfers, a listing, a deletion and as much again for requests that were given up and hang: the
/// client of the store ends those some time.
const THREADS: usize = 12;

/// Starts threads.
#[derive(Clone, Default)]
pub(super) struct Workers {
    alive: Arc<AtomicUsize>,
}

impl Workers {
    /// Runs `work` on a thread of its own.
    ///
    /// # Errors
    ///
    /// There are too many already, or the operating system has none for the moment: like a store that does not
    /// answer.
    pub(super) fn start(
        &self,
        name: &'static str,
        work: impl FnOnce() + Send + 'static,
    ) -> Result<(), NoThread> {
        let alive = Alive::one_more(&self.alive).ok_or(NoThread)?;
        let started = thread::Builder::new().name(name.to_owned()).spawn(move || {
            work();
            drop(alive);
        });
        started.map(|_| ()).map_err(|_: io::Error| NoThread)
    }
}

/// The request cannot be made now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct NoThread;

/// Counts a thread for as long as it lives, a panic included.
struct Alive(Arc<AtomicUsize>);

impl Alive {
    fn one_more(count: &Arc<AtomicUsize>) -> Option<Self> {
        let alive = Self(Arc::clone(count));
        (count.fetch_add(1, Ordering::AcqRel) < THREADS).then_some(alive)
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn lesson_10_requests_that_hang_do_not_add_up_for_ever() {
        let workers = Workers::default();
        let (release, released) = mpsc::channel::<()>();
        let released = Arc::new(std::sync::Mutex::new(released));
        let (ended, end) = mpsc::channel();
        for _ in 0..THREADS {
            let (released, ended) = (Arc::clone(&released), ended.clone());
            let hangs = move || {
                let _ = released.lock().expect("no panic").recv();
                let _ = ended.send(());
            };
            workers.start("test", hangs).expect("there is one");
        }
        assert_eq!(workers.start("test", || {}), Err(NoThread));
        drop(release);
        for _ in 0..THREADS {
            end.recv().expect("they end");
        }
        while workers.alive.load(Ordering::Acquire) > 0 {
            thread::yield_now();
        }
        assert_eq!(workers.start("test", || {}), Ok(()));
    }
}
