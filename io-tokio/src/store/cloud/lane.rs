//! A thread of its own for everything that one store does on the network (lesson 10).

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::mpsc::sync_channel;
use std::thread;

use tokio::runtime::Builder;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

type Job = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Threads for what blocks by nature: the resolution of names.
const BLOCKING_THREADS: usize = 4;

/// One thread with a runtime. It ends with its last owner.
pub(super) struct Lane {
    jobs: UnboundedSender<Job>,
}

impl Lane {
    /// # Errors
    ///
    /// Out of threads, memory or file descriptors.
    pub(super) fn start() -> io::Result<Self> {
        let runtime =
            Builder::new_current_thread().enable_all().max_blocking_threads(BLOCKING_THREADS).build()?;
        let (jobs, mut inbox) = unbounded_channel::<Job>();
        thread::Builder::new().name("dexzd-store".to_owned()).spawn(move || {
            runtime.block_on(async move {
                while let Some(job) = inbox.recv().await {
                    tokio::spawn(job);
                }
            });
            // A name that is still being resolved has nobody left who asks.
            runtime.shutdown_background();
        })?;
        Ok(Self { jobs })
    }

    /// Runs the future there and waits for its end. It is never cut short from outside: a caller that must
    /// not wait is on a thread of its own. None if the future panicked.
    pub(super) fn run<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let (answer, answered) = sync_channel(1);
        let job = Box::pin(async move {
            let _ = answer.send(future.await);
        });
        self.jobs.send(job).ok()?;
        answered.recv().ok()
    }
}
