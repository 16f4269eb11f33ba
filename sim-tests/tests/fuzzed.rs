//! Replays the committed corpora of `fuzz/` through the bodies of its targets, on stable Rust.

use std::fs;
use std::path::Path;

use dexzd_sim_tests::fuzzed::TARGETS;

#[test]
fn every_committed_fuzz_input_passes() {
    let corpora =
        Path::new(&std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../fuzz/corpus");
    for (target, body) in TARGETS {
        let folder = fs::read_dir(corpora.join(target)).unwrap_or_else(|error| panic!("{target}: {error}"));
        let mut inputs: Vec<_> = folder.map(|entry| entry.expect("a readable folder").path()).collect();
        inputs.sort();
        assert!(!inputs.is_empty(), "{target} has no corpus");
        for input in inputs {
            // The test's output names the input that panics.
            println!("{}", input.display());
            body(&fs::read(&input).expect("a readable file"));
        }
    }
}

/// What libFuzzer begins with when it has nothing: a quick look that needs no corpus.
#[test]
fn every_fuzz_target_takes_short_made_up_inputs() {
    let mut state = 1_u64;
    for (_, body) in TARGETS {
        body(&[]);
        for round in 0..300 {
            let length = round % 97;
            let bytes: Vec<u8> = (0..length)
                .map(|_| {
                    state =
                        state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    state.to_be_bytes()[0]
                })
                .collect();
            body(&bytes);
        }
    }
}
