//! What tests and benchmarks stand on. No part of the product.
//!
//! [`Bucket`] is an object store in memory that speaks S3's protocol and takes as long as it is told.

pub mod bucket;

pub use bucket::Bucket;
