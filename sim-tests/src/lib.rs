//! sim-tests
