//! What the fuzz target `wire_frames` feeds: bytes as any client or Worker could send them (fuzz/README.md).
//!
//! Only in tests and behind the feature `fuzzed`, which nothing that is shipped asks for.

use dexzd_proto as proto;
use prost::Message;

use crate::convert::{self, Invalid};

/// The first byte chooses the message, the rest is the message: it is converted or refused with the path of a
/// field, and never panics.
pub fn wire_frames(bytes: &[u8]) {
    let Some((kind, message)) = bytes.split_first() else {
        return;
    };
    match kind % 14 {
        0 => check(message, convert::start_flow),
        1 => check(message, convert::stop_flow),
        2 => check(message, convert::publish),
        3 => check(message, convert::delete_messages),
        4 => check(message, convert::write_attributes),
        5 => check(message, convert::skip_timer),
        6 => check(message, convert::update_config),
        7 => check(message, convert::describe),
        8 => check(message, convert::state),
        9 => check(message, convert::history),
        10 => check(message, convert::wait_for_event),
        11 => check(message, convert::wait_for_flow),
        12 => check(message, convert::wait_for_step),
        _ => check(message, |frame: proto::WorkerFrame| convert::worker_frame(usize::from(*kind), frame)),
    }
}

/// What prost cannot read never reaches us; what we refuse is refused by the name of a field and a rule.
fn check<M: Message + Default, T>(bytes: &[u8], convert: impl Fn(M) -> Result<T, Invalid>) {
    if let Ok(message) = M::decode(bytes)
        && let Err(invalid) = convert(message)
    {
        assert!(!invalid.field.is_empty() && !invalid.rule.is_empty(), "{invalid:?}");
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    #[test]
    fn every_committed_wire_frame_passes() {
        let package = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it");
        let corpus = Path::new(&package).join("../fuzz/corpus/wire_frames");
        let inputs: Vec<_> = std::fs::read_dir(&corpus)
            .unwrap_or_else(|error| panic!("{}: {error}", corpus.display()))
            .map(|entry| entry.expect("a readable folder").path())
            .collect();
        assert!(!inputs.is_empty(), "there is a corpus");
        for input in inputs {
            let bytes = std::fs::read(&input).expect("a readable file");
            let passes = std::panic::catch_unwind(|| super::wire_frames(&bytes)).is_ok();
            assert!(passes, "{} panics", input.display());
        }
    }
}
