//! `headend conform` finds the faults of small faulty proxies, and none in a proxy that has none.
#![cfg(target_os = "linux")]

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener as StdListener};
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use socket2::SockRef;
use tokio::io::Interest;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;
use tokio::task::LocalSet;

/// What is wrong with a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    None,
    DropsTheLastBytes,
    SwapsChunks,
    RepeatsAChunk,
    FlipsABit,
    EndsWhereItShouldReset,
    ClosesBothOnHalfClose,
    NeverPassesEnds,
    WritesBeforeItReadsOn,
    ServesOneAtATime,
    NeverHoldsBack,
}

/// Connects whoever comes to one server, with a flaw. It runs until the test process ends.
struct Proxy {
    address: SocketAddr,
    server: SocketAddr,
}

impl Proxy {
    fn start(flaw: Flaw) -> Proxy {
        // A port for the server: free again at once, and bound by the command under test.
        let server = StdListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port");
        let listener = StdListener::bind("127.0.0.1:0").expect("a listener");
        let address = listener.local_addr().expect("its address");
        listener.set_nonblocking(true).expect("a listener that does not block");
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            LocalSet::new().block_on(&runtime, async move {
                let listener = TcpListener::from_std(listener).expect("a listener that does not block");
                let turn = Arc::new(Mutex::new(()));
                loop {
                    let Ok((client, _)) = listener.accept().await else { continue };
                    let turn = turn.clone();
                    tokio::task::spawn_local(async move {
                        let Ok(server) = TcpStream::connect(server).await else {
                            let _ = SockRef::from(&client).set_linger(Some(Duration::ZERO));
                            return;
                        };
                        relay(client, server, flaw, &turn).await;
                    });
                }
            });
        });
        Proxy { address, server }
    }

    /// The matrix of these behaviours, or of all.
    fn conform(&self, behaviours: &[&str], more: &[&str]) -> Value {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headend"));
        command.args(["conform", &self.address.to_string(), "--way", "forward", "--format", "json"]);
        command.args(["--origin-address", &self.server.to_string(), "--patience", "3s", "--time-limit", "60s"]);
        if !behaviours.is_empty() {
            command.args(["--behaviour", &behaviours.join(",")]);
        }
        let output = command.args(more).output().expect("the binary runs");
        let text = String::from_utf8_lossy(&output.stdout);
        let matrix: Value = serde_json::from_str(&text).unwrap_or_else(|error| {
            panic!("{error}: {text}\n{}", String::from_utf8_lossy(&output.stderr));
        });
        let is_right = matrix["failed"] == 0 && matrix["schedules_run"] == matrix["schedules_asked"];
        assert_eq!(output.status.code(), Some(i32::from(!is_right)), "the exit code tells: {matrix:#}");
        matrix
    }
}

async fn relay(client: TcpStream, server: TcpStream, flaw: Flaw, turn: &Mutex<()>) {
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let both = async { tokio::try_join!(pump(&client, &server, flaw, turn), pump(&server, &client, flaw, turn)) };
    let outcome =
        if flaw == Flaw::WritesBeforeItReadsOn { in_turns(&client, &server).await } else { both.await.map(drop) };
    if outcome.is_err() && flaw != Flaw::EndsWhereItShouldReset {
        for stream in [&client, &server] {
            let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
        }
    }
}

/// One direction, until its end.
async fn pump(from: &TcpStream, to: &TcpStream, flaw: Flaw, turn: &Mutex<()>) -> io::Result<()> {
    let mut buffer = vec![0; 16 * 1024];
    // What a flaw keeps back.
    let mut kept: Vec<u8> = Vec::new();
    let mut chunks = 0;
    loop {
        let bytes = read(from, &mut buffer).await?;
        let chunk = &mut buffer[..bytes];
        chunks += 1;
        if bytes == 0 {
            break;
        }
        match flaw {
            Flaw::DropsTheLastBytes | Flaw::SwapsChunks => {
                if flaw == Flaw::SwapsChunks && chunks % 2 == 0 {
                    write(to, chunk).await?;
                    chunk.fill(0);
                    write(to, &kept).await?;
                    kept.clear();
                } else {
                    write(to, &kept).await?;
                    kept = chunk.to_vec();
                }
            }
            Flaw::RepeatsAChunk => {
                write(to, chunk).await?;
                write(to, if chunks == 1 { chunk } else { &[] }).await?;
            }
            Flaw::FlipsABit => {
                chunk[bytes / 2] ^= 1;
                write(to, chunk).await?;
            }
            Flaw::ServesOneAtATime => {
                let _turn = turn.lock().await;
                write(to, chunk).await?;
            }
            Flaw::NeverHoldsBack => {
                kept.extend_from_slice(chunk);
                if let Ok(written) = to.try_write(&kept) {
                    kept.drain(..written);
                }
            }
            _ => write(to, chunk).await?,
        }
    }
    match flaw {
        Flaw::SwapsChunks | Flaw::NeverHoldsBack => write(to, &kept).await?,
        Flaw::ClosesBothOnHalfClose => {
            let _ = SockRef::from(from).shutdown(Shutdown::Both);
            let _ = SockRef::from(to).shutdown(Shutdown::Both);
        }
        Flaw::NeverPassesEnds => return Ok(()),
        _ => {}
    }
    let _ = SockRef::from(to).shutdown(Shutdown::Write);
    Ok(())
}

/// Both directions, one chunk after the other.
async fn in_turns(client: &TcpStream, server: &TcpStream) -> io::Result<()> {
    let mut buffers = [vec![0; 16 * 1024], vec![0; 16 * 1024]];
    let mut open = [true, true];
    while open != [false, false] {
        let [up, down] = &mut buffers;
        let (bytes, which) = tokio::select! {
            bytes = read(client, up), if open[0] => (bytes?, 0),
            bytes = read(server, down), if open[1] => (bytes?, 1),
        };
        let to = if which == 0 { server } else { client };
        if bytes == 0 {
            open[which] = false;
            let _ = SockRef::from(to).shutdown(Shutdown::Write);
        }
        write(to, &buffers[which][..bytes]).await?;
    }
    Ok(())
}

async fn read(from: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    from.async_io(Interest::READABLE, || from.try_read(buffer)).await
}

async fn write(to: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = to.async_io(Interest::WRITABLE, || to.try_write(bytes)).await?;
        bytes = &bytes[written..];
    }
    Ok(())
}

/// Names of the faults that a behaviour showed.
fn faults<'a>(matrix: &'a Value, behaviour: &str) -> Vec<&'a str> {
    let row = matrix["behaviours"].as_array().expect("rows").iter().find(|row| row["name"] == behaviour);
    let row = row.unwrap_or_else(|| panic!("{behaviour} is in {matrix:#}"));
    let faults = row["faults"].as_array().expect("a list");
    faults.iter().map(|fault| fault["name"].as_str().expect("a name")).collect()
}

#[test]
fn a_proxy_without_a_flaw_passes_every_behaviour() {
    let matrix = Proxy::start(Flaw::None).conform(&[], &["--schedules", "270"]);
    assert_eq!(matrix["failed"], 0, "{matrix:#}");
    let passed = matrix["passed"].as_u64().expect("a number");
    assert!(passed >= 240, "what does not apply to this way in is two behaviours of 27: {matrix:#}");
}

#[test]
fn bytes_that_are_lost_swapped_repeated_or_changed_are_told_apart() {
    let wrong = [
        (Flaw::DropsTheLastBytes, "bytes-missing"),
        (Flaw::SwapsChunks, "bytes-reordered"),
        (Flaw::RepeatsAChunk, "bytes-repeated"),
        (Flaw::FlipsABit, "bytes-changed"),
    ];
    for (flaw, name) in wrong {
        let matrix = Proxy::start(flaw).conform(&["half-close-both", "half-close-under-load"], &["--schedules", "16"]);
        let found = [faults(&matrix, "half-close-both"), faults(&matrix, "half-close-under-load")].concat();
        assert!(found.contains(&name), "{flaw:?}: {matrix:#}");
    }
}

#[test]
fn a_reset_that_becomes_an_end_is_found_wherever_it_starts() {
    let behaviours = ["reset-by-client", "reset-by-server", "reset-when-idle", "reset-at-once-server"];
    let matrix = Proxy::start(Flaw::EndsWhereItShouldReset).conform(&behaviours, &["--schedules", "40"]);
    for behaviour in behaviours {
        assert_eq!(faults(&matrix, behaviour), ["reset-became-end"], "{behaviour}: {matrix:#}");
    }
}

#[test]
fn ends_that_take_the_other_direction_along_or_are_never_passed_are_found() {
    let behaviours = ["half-close-client", "half-close-server", "late-end"];
    let matrix = Proxy::start(Flaw::ClosesBothOnHalfClose).conform(&behaviours, &["--schedules", "15"]);
    for behaviour in behaviours {
        assert!(faults(&matrix, behaviour).contains(&"half-close-became-close"), "{behaviour}: {matrix:#}");
    }
    let matrix = Proxy::start(Flaw::NeverPassesEnds).conform(&["half-close-client"], &["--schedules", "5"]);
    assert_eq!(faults(&matrix, "half-close-client"), ["end-not-passed"], "{matrix:#}");
}

#[test]
fn a_stalled_reader_must_hold_back_its_sender_and_nothing_else() {
    let flaws = [
        (Flaw::WritesBeforeItReadsOn, "other-direction-blocked"),
        (Flaw::ServesOneAtATime, "other-connection-blocked"),
        (Flaw::NeverHoldsBack, "not-held-back"),
    ];
    for (flaw, name) in flaws {
        let matrix = Proxy::start(flaw).conform(&["stalled-client", "stalled-server"], &["--schedules", "8"]);
        // Not in each: whether a proxy's write blocks is up to the kernel's buffers as well, which grow as it sees fit.
        let found = [faults(&matrix, "stalled-client"), faults(&matrix, "stalled-server")].concat();
        assert!(found.contains(&name), "{flaw:?}: {matrix:#}");
    }
}

#[test]
fn a_fault_is_repeated_by_its_seed_alone_and_may_be_allowed() {
    let proxy = Proxy::start(Flaw::ClosesBothOnHalfClose);
    let matrix = proxy.conform(&["half-close-at-once-client"], &["--schedules", "3", "--seed", "1000"]);
    let row = &matrix["behaviours"][0];
    let seed = row["faults"][0]["seeds"][0].as_u64().expect("a seed").to_string();
    let again = proxy.conform(&[], &["--only", "--seed", &seed]);
    assert_eq!(faults(&again, "half-close-at-once-client"), ["half-close-became-close"], "{again:#}");
    let allowed = proxy.conform(&[], &["--only", "--seed", &seed, "--allow", "half-close-became-close"]);
    assert_eq!((&allowed["failed"], &allowed["allowed"]), (&Value::from(0), &Value::from(1)), "{allowed:#}");
}

#[test]
fn without_a_proxy_the_kernel_itself_passes() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headend"));
    let output = command.args(["conform", "--way", "transparent", "--schedules", "270"]).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn a_wrong_request_says_what_would_be_right() {
    let wrong: [(&[&str], &str); 5] = [
        (&["--way", "http"], "expected the proxy's address"),
        (&["127.0.0.1:1", "--way", "transparent"], "leave the proxy's address out"),
        (&["127.0.0.1:1", "--way", "forward"], "expected the port too"),
        (&["127.0.0.1:1", "--way", "http", "--behaviour", "x"], "expected one of to-server"),
        (&["127.0.0.1:1", "--way", "http", "--patience", "1s"], "3s or more"),
    ];
    for (arguments, expected) in wrong {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headend"));
        let output = command.arg("conform").args(arguments).output().expect("the binary runs");
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
        assert!(text.contains(expected), "{arguments:?}: {text}");
    }
}
