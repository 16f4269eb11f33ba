//! Scenarios of the engine, read as scripts.

mod driver;
mod smoke;
