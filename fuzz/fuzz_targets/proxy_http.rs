//! Heads of requests to an HTTP proxy.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[allow(dead_code, reason = "each reader has a target of its own")]
#[path = "../proxy.rs"]
mod proxy;

fuzz_target!(|bytes: &[u8]| proxy::http(bytes));
