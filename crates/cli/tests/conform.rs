//! `headend conform` finds the faults of small faulty proxies, and none in a proxy that has none.
#![cfg(target_os = "linux")]

#[path = "support/faulty.rs"]
mod faulty;
#[path = "conform/messages.rs"]
mod messages;

use std::io::{self, Write};
use std::net::{Shutdown, TcpListener};
use std::process::Command;
use std::thread;

use faulty::{Flaw, Proxy, Tongue, faults};
use serde_json::Value;

#[test]
fn a_proxy_without_a_flaw_passes_every_behaviour() {
    let matrix = Proxy::start(Tongue::Bare, Flaw::None).conform(&[], &["--schedules", "270"]);
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
        let matrix = Proxy::start(Tongue::Bare, flaw)
            .conform(&["half-close-both", "half-close-under-load"], &["--schedules", "16"]);
        let found = [faults(&matrix, "half-close-both"), faults(&matrix, "half-close-under-load")].concat();
        assert!(found.contains(&name), "{flaw:?}: {matrix:#}");
    }
}

#[test]
fn a_reset_that_becomes_an_end_is_found_wherever_it_starts() {
    let behaviours = ["reset-by-client", "reset-by-server", "reset-when-idle", "reset-at-once-server"];
    let matrix = Proxy::start(Tongue::Bare, Flaw::EndsWhereItShouldReset).conform(&behaviours, &["--schedules", "40"]);
    for behaviour in behaviours {
        assert_eq!(faults(&matrix, behaviour), ["reset-became-end"], "{behaviour}: {matrix:#}");
    }
}

#[test]
fn ends_that_take_the_other_direction_along_or_are_never_passed_are_found() {
    let behaviours = ["half-close-client", "half-close-server", "late-end"];
    let matrix = Proxy::start(Tongue::Bare, Flaw::ClosesBothOnHalfClose).conform(&behaviours, &["--schedules", "15"]);
    for behaviour in behaviours {
        assert!(faults(&matrix, behaviour).contains(&"half-close-became-close"), "{behaviour}: {matrix:#}");
    }
    let matrix =
        Proxy::start(Tongue::Bare, Flaw::NeverPassesEnds).conform(&["half-close-client"], &["--schedules", "5"]);
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
        // More than four sockets hold; the less there is to write, the less a busy machine can interrupt it for a second.
        let more = ["--schedules", "8", "--held-max", "32MB"];
        let matrix = Proxy::start(Tongue::Bare, flaw).conform(&["stalled-client", "stalled-server"], &more);
        // Not in each: whether a proxy's write blocks is up to the kernel's buffers as well, which grow as it sees fit.
        let found = [faults(&matrix, "stalled-client"), faults(&matrix, "stalled-server")].concat();
        assert!(found.contains(&name), "{flaw:?}: {matrix:#}");
    }
}

#[test]
fn a_fault_is_repeated_by_its_seed_alone_and_may_be_allowed() {
    let proxy = Proxy::start(Tongue::Bare, Flaw::ClosesBothOnHalfClose);
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
fn where_no_proxy_listens_or_none_that_connects_the_run_ends_soon_and_says_why() {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    let nobody = free.local_addr().expect("its address").to_string();
    drop(free);
    let garbage = speaker(b"garbage\r\n\r\n");
    let ssh = speaker(b"SSH-2.0-OpenSSH_9.2\r\n");
    let cases = [
        (&nobody, "http", "a proxy that listens there"),
        (&garbage, "http", "got \"garbage\""),
        (&ssh, "http", "closed before its answer ended, after \"SSH-2.0-OpenSSH_9.2\\r\\n\""),
        (&ssh, "socks5", "expected an answer of SOCKS5, got [83, 83]"),
        (&ssh, "absolute", "no connection arrived at the server"),
    ];
    for (address, way, expected) in cases {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headend"));
        let output =
            command.args(["conform", address, "--way", way, "--schedules", "100000", "--patience", "3s"]).output();
        let output = output.expect("the binary runs");
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{way}: {text}");
        assert!(text.contains(expected), "{way}: {text}");
    }
}

#[test]
fn a_server_that_cannot_listen_where_it_should_is_told_with_what_would_be_right() {
    let proxy = speaker(b"");
    // 192.0.2.0/24 is nobody's (RFC 5737).
    let cases = [
        (["--way", "http", "--origin-address", "192.0.2.77"], "an address of this machine"),
        (["--way", "forward", "--origin-address", &proxy], "no other process listens"),
    ];
    for (arguments, expected) in cases {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headend"));
        let output = command.args(["conform", &proxy]).args(arguments).output().expect("the binary runs");
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains(expected), "{text}");
    }
}

/// The address of a server that says this to everybody, whatever it hears, and ends its direction.
fn speaker(words: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address").to_string();
    thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            thread::spawn(move || {
                // Whoever hears it may have gone. What it says is read, or closing would reset the connection.
                let _ = client.write_all(words).and_then(|()| client.shutdown(Shutdown::Write));
                let _ = io::copy(&mut client, &mut io::sink());
            });
        }
    });
    address
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
