//! Log lines on stderr, written by a thread of their own: whoever says something never waits for a
//! terminal or a pipe that nobody reads. Values of applications and credentials are never logged.

use std::io::{self, IsTerminal as _, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::cli::LogFormat;

/// Lines that may wait for a slow stderr; the next ones are dropped and counted.
const WAITING_LINES: usize = 8_192;
/// At the end the last lines get so long to leave.
const FLUSH_LIMIT: Duration = Duration::from_secs(1);
/// What is logged, unless `DEX_LOG` says otherwise.
const DEFAULT_FILTER: &str = "info,h2=warn,hyper=warn,tonic=warn,tower=warn";
/// The environment variable with a filter, as in `DEX_LOG=debug`.
const FILTER_VARIABLE: &str = "DEX_LOG";

enum Message {
    Line(Vec<u8>),
    Close(SyncSender<()>),
}

/// The way to the log. A clone is the same log.
#[derive(Clone)]
pub(crate) struct Log {
    lines: SyncSender<Message>,
    dropped: Arc<AtomicU64>,
}

impl Log {
    /// Starts the writing thread and makes this the log of the whole process.
    ///
    /// # Errors
    ///
    /// The operating system gives no thread.
    pub(crate) fn start(format: LogFormat) -> io::Result<Self> {
        let (lines, waiting) = sync_channel(WAITING_LINES);
        std::thread::Builder::new()
            .name("dexzd-log-lines".to_owned())
            .spawn(move || write_lines(&waiting))?;
        let log = Self { lines, dropped: Arc::default() };
        let filter =
            EnvFilter::try_from_env(FILTER_VARIABLE).unwrap_or_else(|_| EnvFilter::new(DEFAULT_FILTER));
        let builder =
            tracing_subscriber::fmt().with_env_filter(filter).with_target(false).with_writer(log.clone());
        // A second log in one process exists in tests only; the first one stays.
        let _ = match format {
            LogFormat::Text => tracing::subscriber::set_global_default(
                builder.with_ansi(io::stderr().is_terminal()).finish(),
            ),
            LogFormat::Json => {
                tracing::subscriber::set_global_default(builder.json().flatten_event(true).finish())
            }
        };
        Ok(log)
    }

    /// How many lines were dropped because stderr was too slow.
    #[must_use]
    pub(crate) fn dropped_lines(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Waits until everything said so far is written, though not for ever. Nothing is written after it,
    /// so that the last words of the process are the last.
    pub(crate) fn close(&self) {
        let (done, closed) = sync_channel(1);
        // A full queue means that stderr hangs: then the rest is lost.
        if self.lines.try_send(Message::Close(done)).is_ok() {
            let _ = closed.recv_timeout(FLUSH_LIMIT);
        }
    }
}

fn write_lines(waiting: &Receiver<Message>) {
    while let Ok(message) = waiting.recv() {
        match message {
            Message::Line(line) => {
                // Nobody can be told that stderr is gone.
                let _ = io::stderr().write_all(&line);
            }
            Message::Close(done) => {
                let _ = done.try_send(());
                return;
            }
        }
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = LineWriter<'a>;

    fn make_writer(&'a self) -> LineWriter<'a> {
        LineWriter { log: self, line: Vec::new() }
    }
}

/// Gathers one line and sends it when it is dropped.
pub(crate) struct LineWriter<'a> {
    log: &'a Log,
    line: Vec<u8>,
}

impl Write for LineWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.line.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for LineWriter<'_> {
    fn drop(&mut self) {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            return;
        }
        match self.log.lines.try_send(Message::Line(line)) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                self.log.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}
