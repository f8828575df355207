//! Datagrams and frames of a socket's peers: what is read is written as it was.
#![no_main]

use headend_socket::frame::Frames;
use headend_socket::wire::Datagram;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    Datagram::read(bytes);
    let mut again = Vec::new();
    for frame in Frames::new(bytes) {
        match frame {
            Ok(frame) => frame.write(&mut again),
            Err(_) => break,
        }
    }
    assert!(bytes.starts_with(&again));
});
