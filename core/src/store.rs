//! What an object store can answer, in the classes that matter to the core (D-9).
//!
//! The shell maps what its client library says to these; the core decides what follows.

use minicbor::{Decode, Encode};

use crate::ids::Blob;

/// The store's name for one state of one object: an `ETag`, a generation, a counter.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Encode, Decode)]
#[cbor(transparent)]
pub struct Version(#[n(0)] pub Blob);

/// How a conditional write ended.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Encode, Decode)]
pub enum WriteOutcome {
    /// It landed and the object now has this version.
    #[n(0)]
    Done {
        /// The new version.
        #[n(0)]
        version: Version,
    },
    /// 412, 304, 409, 404: only a read can tell what that means.
    #[n(1)]
    Refused,
    /// Time-out, connection error, 5xx, throttling, expired credentials: it may have landed.
    #[n(2)]
    Transient {
        /// Retry-After, in milliseconds.
        #[n(0)]
        retry_after_ms: Option<u64>,
    },
    /// 401, 403, missing bucket, malformed, 501.
    #[n(3)]
    Permanent,
    /// This machine's own disk failed (D-33).
    #[n(4)]
    LocalFailure,
    /// The path of `dev.lock` no longer names the locked file (D-45).
    #[n(5)]
    LockReplaced,
}

/// How a read ended. Body, version and stamp come from one response (D-50).
#[derive(Clone, PartialEq, Eq, Hash, Debug, Encode, Decode)]
pub enum ReadOutcome {
    /// The object is there.
    #[n(0)]
    Found {
        /// Its version.
        #[n(0)]
        version: Version,
        /// Its content.
        #[n(1)]
        body: Blob,
        /// The store's stamp of its last write, in milliseconds since the Unix epoch, where it has one.
        #[n(2)]
        stamp_ms: Option<u64>,
    },
    /// There is no such object.
    #[n(1)]
    Missing,
    /// As for writes.
    #[n(2)]
    Transient {
        /// Retry-After, in milliseconds.
        #[n(0)]
        retry_after_ms: Option<u64>,
    },
    /// As for writes.
    #[n(3)]
    Permanent,
    /// As for writes.
    #[n(4)]
    LocalFailure,
}
