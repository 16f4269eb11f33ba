//! The Worker against a fake server, in virtual time.

mod calls;
mod definition;
mod drain;
mod failover;
mod fixture;
mod streams;
