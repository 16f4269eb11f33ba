//! The real machines of `dexzd-core`, explored exhaustively: every order of everything that may happen to
//! two processes, a store and their clocks (simulation.md, section 5).
//!
//! ```text
//! search       breadth first over any model; the shortest way to whatever is wrong
//! fingerprint  128 bits that stand for one state
//! lease        Candidate, Holder and Release over one lease object
//! log          Startup and Appender over one log, without a clock
//! ```
//!
//! A model owns real machines. After each event it renames whatever is only a name (request ids,
//! nonces, versions, epochs, absolute time), so that states which behave alike for ever become one, and
//! the closure is finite without a bound on time, epochs or restarts. `docs/exhaustive.md` has the results.

pub mod fingerprint;
pub mod lease;
pub mod log;
pub mod search;
