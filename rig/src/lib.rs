//! What tests and benchmarks stand on. No part of the product.
//!
//! - [`Bucket`]: an object store in memory that speaks S3's protocol and takes as long as it is told
//! - [`Server`]: moto and Azurite, which others wrote by the same protocols
//! - [`Proxy`]: between a client and any of them, to delay, lose and forge
//! - [`tools`]: programs of others, and where they are

pub mod bucket;
pub mod proxy;
pub mod servers;
pub mod tools;

pub use bucket::Bucket;
pub use proxy::Proxy;
pub use servers::Server;
