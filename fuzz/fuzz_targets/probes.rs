#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| transect_fuzz::probes(bytes));
