//! Every limit of the engine, each with its reason. All are part of the documented contract.

/// One input, output, message, Attribute, local, event or checkpoint: 1 MiB. Larger things belong into
/// a store of the application's own, with a reference here.
pub const VALUE_BYTES: usize = 1 << 20;
/// Everything one call or one method result carries, encoded: 8 MiB, so that a decision always fits
/// into an entry (D-56) together with what it changes.
pub const REQUEST_BYTES: usize = 8 << 20;
/// A Flow ID, request ID, name, instance key, condition ID, encoding: 255 bytes, so that every key
/// stays far below what any local store takes.
pub const NAME_BYTES: usize = 255;
/// A reason, error type, error detail: 16 KiB. Longer ones are cut where a Worker sends them.
pub const TEXT_BYTES: usize = 16 << 10;
/// Movements of one decision, conditions of one Wait, publications, writes: 10,000.
pub const ITEMS: usize = 10_000;
/// A page of a listing.
pub const PAGE_SIZE: u32 = 1_000;
/// Any duration: 100 years, in milliseconds. Nothing that is later can overflow a timestamp.
pub const DURATION_MS: u64 = 100 * 366 * 24 * 3_600 * 1_000;
/// Active Step executions of one run: 20,000, so that closing it fits into an entry.
pub const ACTIVE_STEPS: usize = 20_000;
/// A Step input up to this size stands in the Step's record, which is written at every change of its phase.
pub const INLINE_INPUT_BYTES: usize = 1 << 10;
/// What one input decides is cut into decisions of about this size: 2 MiB, so that the
/// largest single part of one still fits into an entry with it.
pub const DECISION_BYTES: usize = 2 << 20;
/// Tasks on one Worker stream.
pub const STREAM_SLOTS: u32 = 10_000;
/// The Step type under which a timeout handler runs. No Step of an application may begin with `$`.
pub const TIMEOUT_HANDLER_STEP: &str = "$timeoutHandler";
/// One attempt of a method, unless its options say otherwise: 2 h.
pub const METHOD_TIMEOUT_MS: u64 = 2 * 3_600 * 1_000;
/// A closed run is kept for so long, unless the start says otherwise: 7 days.
pub const RETENTION_MS: u64 = 7 * 24 * 3_600 * 1_000;
/// A Worker stream is pinged when nothing came from it for so long (D-21).
pub const PING_INTERVAL_MS: u64 = 5_000;
/// A Worker stream is dead when nothing came from it for so long (D-21).
pub const PING_TIMEOUT_MS: u64 = 15_000;
/// After the cancel request of a drain a result is still accepted for so long (D-21).
pub const DRAIN_GRACE_MS: u64 = 5_000;
/// All Attributes of one run: 4 MiB, so that a first-attempt snapshot fits into an entry (D-56).
pub const ATTRIBUTES_BYTES: u64 = 4 << 20;
/// All pending Channel messages of one run: 8 MiB, so that a Wait that takes them all fits into an entry.
pub const MESSAGES_BYTES: u64 = 8 << 20;
/// A cooperative stop waits for running attempts for so long.
pub const CLOSING_MS: u64 = 30_000;
/// Skips of timers of Steps that do not wait yet, per run.
pub const REMEMBERED_SKIPS: usize = 1_000;
/// Runs kept in memory; few under test, so that scripts cross the border. Everything else is read again when it is needed.
pub const LOADED_RUNS: usize = if cfg!(test) { 64 } else { 4_096 };
/// Timers kept in memory (few under test, so that scripts cross the border): those that are due next.
pub const NEAR_TIMERS: usize = if cfg!(test) { 64 } else { 16_384 };
/// Timers fired, and method calls recovered, in one decision: keeps entries and pauses short.
pub const BATCH: usize = 512;
/// Keys of an expired run deleted in one decision.
pub const DELETED_KEYS: usize = 10_000;
