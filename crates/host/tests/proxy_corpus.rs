//! The readers of a proxy's clients, on the bytes that fuzzing kept (`make fuzz`).

use std::fs;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;

#[path = "../../../fuzz/proxy.rs"]
mod proxy;

fn replay(target: &str, holds: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let mut count = 0;
    for entry in fs::read_dir(&folder).expect("the corpus is in the tree") {
        let path = entry.expect("its entries can be listed").path();
        let bytes = fs::read(&path).expect("it can be read");
        // The whole, and every beginning of it: bytes come in pieces.
        for len in 0..=bytes.len().min(2_000) {
            let outcome = panic::catch_unwind(AssertUnwindSafe(|| holds(&bytes[..len])));
            assert!(outcome.is_ok(), "{}: its first {len} bytes", path.display());
        }
        holds(&bytes);
        count += 1;
    }
    assert!(count >= 6, "{}: {count} inputs are no corpus", folder.display());
}

#[test]
fn heads_of_http_requests_are_read_as_they_must_be() {
    replay("proxy_http", proxy::http);
}

#[test]
fn conversations_in_socks_are_read_as_they_must_be() {
    replay("proxy_socks5", proxy::socks5);
}

#[test]
fn headers_of_the_proxy_protocol_are_read_as_they_must_be() {
    replay("proxy_protocol", proxy::proxy_protocol);
}
