//! These put programs into the running kernel: they need root and say so where they are skipped.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;

use super::*;
use crate::socket::kernel_names;

/// A name that no other test or process has.
fn name(of: &str) -> String {
    format!("hb{of}_{}", std::process::id())
}

fn can_load() -> bool {
    let missing = super::super::missing();
    if let Some(text) = &missing {
        eprintln!("skipped: {text}");
    }
    missing.is_none()
}

fn is_there(name: &str) -> bool {
    kernel_names().iter().any(|known| known == name)
}

#[test]
fn a_controller_is_kept_found_and_removed() {
    if !can_load() {
        return;
    }
    let name = name("k");
    let loaded = Loaded::load(&name).unwrap();
    assert!(is_there(&name), "{:?}", kernel_names());
    loaded.keep(&name).unwrap();
    assert!(installed().unwrap().contains(&name));
    remove(&name).unwrap();
    assert!(!is_there(&name), "{:?}", kernel_names());
    assert!(remove(&name).unwrap_err().to_string().contains("headend cc list"));
}

#[test]
fn connections_carry_data_and_leave_nothing() {
    if !can_load() {
        return;
    }
    let name = name("c");
    let loaded = Loaded::load(&name).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    for _ in 0..200 {
        let mut client = TcpStream::connect(address).unwrap();
        rustix::net::sockopt::set_tcp_congestion(client.as_fd(), &name).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let sender = std::thread::spawn(move || client.write_all(&[7; 100_000]));
        let mut received = Vec::new();
        server.read_to_end(&mut received).unwrap();
        sender.join().unwrap().unwrap();
        assert_eq!(received.len(), 100_000);
    }
    drop(loaded);
    assert!(!is_there(&name), "{:?}", kernel_names());
}
