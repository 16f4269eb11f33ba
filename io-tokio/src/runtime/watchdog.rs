//! The watchdog: ends a process that outlives its lease, whatever hangs (D-32, lesson 14).

use std::io::{self, Write as _};
use std::sync::{Arc, Condvar, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use dexzd_core::time::Instant;

use crate::clock::Clock;
use crate::exit::exit_at_once;

/// D-32: a process that ended so has a last line too. A process that was frozen for longer than its lease and 5 s
/// meets its watchdog before anything else.
const LAST_WORDS: &str = "dex-server-zd stopped: lease_expired: the lease ended 5 s ago and this process had not: it was \
                          frozen, or something in it hangs; see docs/errors/lease_expired.md\n";
/// Who reads stderr may hang too.
const FOR_LAST_WORDS: Duration = Duration::from_millis(200);

/// Armed with an instant, it calls `exit` then, which is [`exit_now`] outside of tests. Its thread lives as long as the process.
#[derive(Clone)]
pub(super) struct Watchdog {
    shared: Arc<Shared>,
}

struct Shared {
    exit_at: Mutex<Option<Instant>>,
    changed: Condvar,
}

impl Watchdog {
    pub(super) fn start(clock: Arc<Clock>, exit: fn()) -> io::Result<Self> {
        let shared = Arc::new(Shared { exit_at: Mutex::new(None), changed: Condvar::new() });
        let watched = Arc::clone(&shared);
        thread::Builder::new()
            .name("dexzd-watchdog".to_owned())
            .spawn(move || watch(&watched, &clock, exit))?;
        Ok(Self { shared })
    }

    /// Replaces the order before.
    pub(super) fn set(&self, exit_at: Option<Instant>) {
        *self.shared.exit_at.lock().unwrap_or_else(PoisonError::into_inner) = exit_at;
        self.shared.changed.notify_one();
    }
}

fn watch(shared: &Shared, clock: &Clock, exit: fn()) {
    let mut exit_at = shared.exit_at.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        exit_at = match *exit_at {
            None => shared.changed.wait(exit_at).unwrap_or_else(PoisonError::into_inner),
            Some(at) => {
                let rest = at.saturating_since(clock.now().instant);
                if rest.is_zero() {
                    exit();
                    return;
                }
                shared.changed.wait_timeout(exit_at, rest).unwrap_or_else(PoisonError::into_inner).0
            }
        };
    }
}

/// Ends the process, whatever hangs.
pub(super) fn exit_now() {
    say_why();
    exit_at_once(1)
}

/// On a thread of its own, which keeps stderr to itself from then on: no line comes after the last one.
fn say_why() {
    let (done, said) = mpsc::channel();
    let speaker = thread::Builder::new().name("dexzd-last-words".to_owned()).spawn(move || {
        let mut stderr = io::stderr().lock();
        // Nobody can be told that stderr is gone.
        let _ = stderr.write_all(LAST_WORDS.as_bytes());
        let _ = done.send(());
        loop {
            thread::park();
        }
    });
    if speaker.is_ok() {
        let _ = said.recv_timeout(FOR_LAST_WORDS);
    }
}
