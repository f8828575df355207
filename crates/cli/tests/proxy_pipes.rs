//! Bytes that flow go through pipes: what the proxy promises of bytes that it holds is true of those in a pipe.

#![cfg(target_os = "linux")]

#[path = "support/operated.rs"]
mod operated;
#[path = "support/proxied.rs"]
mod proxied;

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use operated::{ADMIN, admin, status, status_when};
use proxied::{PATIENCE, Proxy, Tongue, noise, reset, rest_of, server_and_client};

/// More than the buffers on the way take, where the reader's is kept small.
const LONG: usize = 48 << 20;

/// The bytes that wait in pipes of the process.
fn in_pipes(pid: u32) -> u64 {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).expect("it runs");
    let pipes = descriptors.filter_map(|entry| {
        let path = entry.ok()?.path();
        fs::read_link(&path).ok()?.to_str()?.starts_with("pipe:").then_some(path)
    });
    // Its output is one as well, which cannot be opened for reading by its other end, and holds nothing.
    pipes.filter_map(|path| rustix::io::ioctl_fionread(File::open(path).ok()?).ok()).sum()
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "never: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Keeps a socket from taking more than a little that nobody reads, however much the host lets it grow.
fn keep_small(client: &TcpStream) {
    socket2::SockRef::from(client).set_recv_buffer_size(64 << 10).expect("a connected socket");
}

/// Writes until the connection ends, and returns how it ended.
fn pour_without_end(mut to: TcpStream) -> thread::JoinHandle<ErrorKind> {
    let bytes = noise(7, 1 << 20);
    thread::spawn(move || {
        loop {
            if let Err(error) = to.write_all(&bytes) {
                return error.kind();
            }
        }
    })
}

/// Writes [`LONG`] bytes, or until the connection ends.
fn pour(mut to: TcpStream) -> thread::JoinHandle<Result<(), ErrorKind>> {
    thread::spawn(move || to.write_all(&noise(7, LONG)).map_err(|error| error.kind()))
}

#[test]
fn a_reader_that_stalls_keeps_no_pipe_and_loses_no_byte() {
    let mut proxy = Proxy::start(ADMIN);
    let look = admin(&mut proxy);
    let pid = proxy.process_id();
    let (server, mut client) = server_and_client(&proxy, Tongue::Forward);
    keep_small(&client);
    let writer = pour(server.try_clone().unwrap());
    until("bytes wait in a pipe", || in_pipes(pid) > 0);
    let held = status_when(look, "", |status| status["busiest"][0]["local"]["held_bytes"].as_u64() > Some(0));
    assert!(held["busiest"][0]["local"]["held_bytes"].as_u64() <= Some(256_000), "no more than is allowed: {held:#}");
    until("they are copied out of it", || in_pipes(pid) == 0);
    let still = status(look, "");
    assert!(still["busiest"][0]["local"]["held_bytes"].as_u64() > Some(0), "and still held: {still:#}");
    let mut got = vec![0; LONG];
    client.read_exact(&mut got).unwrap();
    assert!(got == noise(7, LONG), "every byte, in its place");
    writer.join().unwrap().unwrap();
    drop(server);
    assert!(rest_of(&mut client).is_empty());
}

#[test]
fn bytes_of_a_reset_connection_stay_out_of_the_next_ones() {
    let proxy = Proxy::start_with("workers = 1", "");
    let pid = proxy.process_id();
    for round in 0..100 {
        let (server, client) = server_and_client(&proxy, Tongue::Forward);
        keep_small(&client);
        let writer = pour_without_end(server);
        until("bytes wait in a pipe", || in_pipes(pid) > 0);
        reset(client);
        let end = writer.join().unwrap();
        assert!(matches!(end, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe), "round {round}: {end:?}");
        until("the pipes are empty", || in_pipes(pid) == 0);
    }
    let (server, mut client) = server_and_client(&proxy, Tongue::Forward);
    let writer = pour(server.try_clone().unwrap());
    let mut got = vec![0; LONG];
    client.read_exact(&mut got).unwrap();
    assert!(got == noise(7, LONG), "nothing of the others");
    writer.join().unwrap().unwrap();
}

#[test]
fn a_half_close_comes_after_what_is_in_the_pipe() {
    let proxy = Proxy::start("");
    let pid = proxy.process_id();
    let (mut server, client) = server_and_client(&proxy, Tongue::Forward);
    let writer = pour(client.try_clone().unwrap());
    until("bytes wait in a pipe", || in_pipes(pid) > 0);
    let reader = thread::spawn(move || (rest_of(&mut server), server));
    writer.join().unwrap().unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let (got, mut server) = reader.join().unwrap();
    assert!(got == noise(7, LONG), "{} bytes of {LONG}", got.len());
    server.write_all(b"and back").unwrap();
    drop(server);
    let mut client = client;
    assert_eq!(rest_of(&mut client), b"and back");
}

#[test]
fn an_urgent_byte_in_a_flow_crosses_in_its_place() {
    let proxy = Proxy::start("");
    let (server, mut client) = server_and_client(&proxy, Tongue::Forward);
    let writer = thread::spawn(move || {
        let mut server = server;
        let bytes = noise(3, 1 << 20);
        for _ in 0..40 {
            server.write_all(&bytes).unwrap();
            assert_eq!(socket2::SockRef::from(&server).send_out_of_band(b"!").unwrap(), 1);
        }
    });
    let mut expected = noise(3, 1 << 20);
    expected.push(b'!');
    for round in 0..40 {
        let mut got = vec![0; expected.len()];
        client.read_exact(&mut got).unwrap();
        assert!(got == expected, "round {round}");
    }
    assert!(rest_of(&mut client).is_empty());
    writer.join().unwrap();
}

#[test]
fn more_readers_stall_than_there_are_pipes_and_others_go_on() {
    let proxy = Proxy::start("");
    let stalled: Vec<_> = (0..80)
        .map(|_| {
            let (server, client) = server_and_client(&proxy, Tongue::Forward);
            (pour_without_end(server), client)
        })
        .collect();
    let (server, mut client) = server_and_client(&proxy, Tongue::Forward);
    let writer = pour(server);
    let mut got = vec![0; LONG];
    client.read_exact(&mut got).unwrap();
    assert!(got == noise(7, LONG));
    writer.join().unwrap().unwrap();
    for (writer, client) in stalled {
        reset(client);
        let _ = writer.join().unwrap();
    }
}
