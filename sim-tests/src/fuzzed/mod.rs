//! The bodies of the fuzz targets, as ordinary functions: `fuzz/` feeds them with what libFuzzer makes up, the
//! tests with the committed corpora. Each panics if a rule is broken.
//!
//! | target | what it feeds |
//! | --- | --- |
//! | `node_inputs` | [`node::node_inputs`]: the control plane with any sequence of inputs, plausible or not |
//! | `engine_inputs` | [`engine::engine_inputs`]: the data plane, likewise |
//! | `lease_record`, `log_entry`, `manifest` | [`records`]: bytes of the objects in the store |
//! | `stored_records` | [`records::stored_records`]: bytes of every record of the local store |
//! | `decision_log` | [`records::decision_log`]: the simulator's own files |

pub mod engine;
mod feed;
pub mod node;
pub mod records;

/// A target's body.
pub type Body = fn(&[u8]);

/// Every target in this crate, by the name of its corpus.
pub const TARGETS: [(&str, Body); 7] = [
    ("decision_log", records::decision_log),
    ("engine_inputs", engine::engine_inputs),
    ("lease_record", records::lease_record),
    ("log_entry", records::log_entry),
    ("manifest", records::manifest),
    ("node_inputs", node::node_inputs),
    ("stored_records", records::stored_records),
];
