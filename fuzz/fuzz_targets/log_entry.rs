#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| dexzd_sim_tests::fuzzed::records::log_entry(bytes));
