//! The readers of a proxy's clients, on the bytes that fuzzing kept (`make fuzz`).

use std::fs;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;

use headend_engine::rng::Rng;

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

/// Inputs made from those of the corpus: bytes changed, taken out, put in, and pieces of two joined.
fn mutate(target: &str, seed: u64, holds: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let mut paths: Vec<_> = fs::read_dir(&folder).expect("the corpus").flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let corpus: Vec<Vec<u8>> = paths.iter().map(|path| fs::read(path).expect("it can be read")).collect();
    let mut rng = Rng::named(seed, target);
    let mut below = |bound: usize| rng.below(bound as u64) as usize;
    for case in 0..CASES {
        let mut bytes = corpus[below(corpus.len())].clone();
        for _ in 0..=below(6) {
            let at = below(bytes.len() + 1);
            match below(5) {
                0 if at < bytes.len() => bytes[at] = below(256) as u8,
                1 if at < bytes.len() => drop(bytes.remove(at)),
                2 => bytes.insert(at, b" \r\n:,/\0\x05"[below(8)]),
                3 => {
                    let other = &corpus[below(corpus.len())];
                    bytes.truncate(at);
                    bytes.extend_from_slice(&other[below(other.len())..]);
                }
                _ => {
                    let piece = bytes[at..(at + below(20)).min(bytes.len())].to_vec();
                    bytes.splice(at..at, piece);
                }
            }
        }
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| holds(&bytes)));
        assert!(outcome.is_ok(), "{target}, seed {seed}, case {case}: {}", bytes.escape_ascii());
    }
}

const CASES: u32 = 20_000;

#[test]
fn random_changes_of_the_corpus_are_read_as_they_must_be() {
    mutate("proxy_http", 1, proxy::http);
    mutate("proxy_socks5", 1, proxy::socks5);
    mutate("proxy_protocol", 1, proxy::proxy_protocol);
}
