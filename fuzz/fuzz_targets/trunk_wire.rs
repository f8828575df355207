//! Datagrams and messages of a trunk's peers: what is read is written as it was.
#![no_main]

use headend_host::trunk::wire::{Datagram, Message};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    Datagram::read(bytes);
    if let Some(message) = Message::read(bytes) {
        let mut again = Vec::new();
        message.write(&mut again);
        assert_eq!(again, bytes);
    }
});
