//! Endpoints on the loopback: connections and streams as applications have them.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use headend_socket::{Config, Connection, Ended, Endpoint, Fate, Identity, Occupancy, PublicKey, Refused};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

fn server() -> (Endpoint, PublicKey) {
    let identity = Identity::generate();
    let key = identity.public();
    (Endpoint::server(loopback(), identity, Box::new(|_| true), Config::default()).unwrap(), key)
}

async fn pair() -> (Endpoint, Connection, Connection) {
    let (server, key) = server();
    let client = Endpoint::client(loopback(), Identity::generate(), Config::default()).unwrap();
    let connection = timeout(PATIENCE, client.connect(server.address(), &key)).await.expect("in time").unwrap();
    let accepted = timeout(PATIENCE, server.accept()).await.expect("in time").unwrap();
    (server, accepted, connection)
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + (at >> 9)) as u8).collect()
}

#[tokio::test]
async fn streams_carry_bytes_both_ways_and_end_one_half_at_a_time() {
    let (_server, accepted, connection) = pair().await;
    let echo = tokio::spawn(async move {
        while let Ok(mut stream) = accepted.accept().await {
            tokio::spawn(async move {
                let mut all = Vec::new();
                stream.read_to_end(&mut all).await.unwrap();
                stream.write_all(&all).await.unwrap();
                stream.shutdown().await.unwrap();
                stream.sent().await.unwrap();
            });
        }
    });
    let mut clients = Vec::new();
    for len in [0, 1, 70_000, 3_000_000] {
        let mut stream = connection.open().await.unwrap();
        clients.push(tokio::spawn(async move {
            let bytes = pattern(len);
            stream.write_all(&bytes).await.unwrap();
            stream.shutdown().await.unwrap();
            let mut all = Vec::new();
            stream.read_to_end(&mut all).await.unwrap();
            assert!(all == bytes, "{len} bytes come back as they were");
        }));
    }
    for client in clients {
        timeout(PATIENCE, client).await.expect("in time").unwrap();
    }
    connection.close(99, "done");
    timeout(PATIENCE, echo).await.expect("the server hears of the end").unwrap();
}

#[tokio::test]
async fn the_end_of_a_connection_is_told_with_its_reason() {
    let (_server, accepted, connection) = pair().await;
    let mut stream = connection.open().await.unwrap();
    stream.write_all(b"hello").await.unwrap();
    let mut other = timeout(PATIENCE, accepted.accept()).await.expect("in time").unwrap();
    accepted.close(80, "enough");
    let mut byte = [0];
    let error = timeout(PATIENCE, stream.read(&mut byte)).await.expect("in time").unwrap_err();
    assert!(error.to_string().contains("enough"), "{error}");
    let why = timeout(PATIENCE, connection.ended()).await.expect("in time");
    assert_eq!(why, Ended::Peer { code: 80, reason: "enough".to_owned() });
    assert!(other.write_all(b"more").await.is_err());
}

#[tokio::test]
async fn a_dropped_stream_is_reset_and_never_looks_whole() {
    let (_server, accepted, connection) = pair().await;
    let mut stream = connection.open().await.unwrap();
    stream.write_all(b"a part").await.unwrap();
    let mut other = timeout(PATIENCE, accepted.accept()).await.expect("in time").unwrap();
    let mut part = [0; 6];
    timeout(PATIENCE, other.read_exact(&mut part)).await.expect("in time").unwrap();
    drop(stream);
    let error = timeout(PATIENCE, other.read(&mut part)).await.expect("in time").unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn frames_come_whole_and_their_sender_hears_of_it() {
    let (_server, accepted, connection) = pair().await;
    // Long enough for a busy machine: what is lost leaves again until then.
    let deadline = Instant::now() + PATIENCE;
    let tickets: Vec<_> =
        [0, 1, 5_000, 300_000].map(|len| connection.send_frame(&pattern(len), deadline).unwrap()).into();
    let mut lengths = Vec::new();
    while lengths.len() < tickets.len() {
        let frame = timeout(PATIENCE, accepted.read_frame()).await.expect("in time").unwrap();
        assert!(frame == pattern(frame.len()), "{} bytes come as they were", frame.len());
        lengths.push(frame.len());
    }
    lengths.sort_unstable();
    assert_eq!(lengths, [0, 1, 5_000, 300_000]);
    let mut acknowledged = Vec::new();
    while acknowledged.len() < tickets.len() {
        let (ticket, fate) = timeout(PATIENCE, connection.fate()).await.expect("in time").unwrap();
        if fate != Fate::Sent {
            assert_eq!(fate, Fate::Acknowledged);
            acknowledged.push(ticket);
        }
    }
    assert!(tickets.iter().all(|ticket| acknowledged.contains(ticket)));
    assert_eq!(connection.occupancy(), Occupancy::default());
    assert!(connection.rate().is_some_and(|rate| rate.get() > 0));
    let refused = connection.send_frame(&vec![0; 5_000_000], deadline).unwrap_err();
    assert!(matches!(refused, Refused::TooLong { .. }), "{refused}");
}

#[tokio::test]
async fn a_closed_endpoint_neither_connects_nor_accepts() {
    let (server, key) = server();
    let client = Endpoint::client(loopback(), Identity::generate(), Config::default()).unwrap();
    client.close(0, "");
    let refused = timeout(PATIENCE, client.connect(server.address(), &key)).await.expect("at once").unwrap_err();
    assert_eq!(refused, Ended::Here);
    server.close(0, "");
    assert!(timeout(PATIENCE, server.accept()).await.expect("at once").is_none());
}

#[test]
fn nobody_waits_for_an_endpoint_whose_runtime_has_ended() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let driven = runtime();
    let (server, accepted, connection) = driven.block_on(pair());
    let mut stream = driven.block_on(connection.open()).unwrap();
    drop(driven);
    runtime().block_on(async {
        for one in [&connection, &accepted] {
            let why = timeout(PATIENCE, one.ended()).await.expect("in time");
            assert!(matches!(why, Ended::Failed(_)), "{why}");
        }
        let error = timeout(PATIENCE, stream.read(&mut [0])).await.expect("in time").unwrap_err();
        assert!(error.to_string().contains("its runtime has ended"), "{error}");
        assert!(timeout(PATIENCE, server.accept()).await.expect("in time").is_none());
        timeout(PATIENCE, server.closed()).await.expect("in time");
    });
}
