#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| dexzd_server::fuzzed::wire_frames(bytes));
