//! Scripts against a whole engine: every behaviour of concepts.md and requirements.md that one node can
//! show, named after its number.

mod build;
mod driver;
mod sweep;

mod channel_model;
mod crashes;
mod decisions;
mod failover;
mod large;
mod reading;
mod retries;
mod starts;
mod streams;
mod waits;
