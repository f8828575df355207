//! The command `headend conform`: wrong requests, exit codes, reports. What it finds is tested in `crates/conform`.
#![cfg(target_os = "linux")]

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Command;
use std::thread;

use serde_json::Value;

/// Runs `headend conform` on a proxy in the way `forward`, with its matrix as JSON; also whether it was content.
fn conform(proxy: &str, origin: &str, arguments: &[&str]) -> (Value, bool) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headend"));
    command.args(["conform", proxy, "--way", "forward", "--origin-address", origin, "--patience", "3s"]);
    let output = command.args(["--format", "json"]).args(arguments).output().expect("the binary runs");
    let matrix = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    (matrix, output.status.success())
}

#[test]
fn a_fault_fails_the_command_unless_it_is_allowed() {
    let origin = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port").to_string();
    let proxy = closer(origin.clone());
    let seen = |matrix: &Value| matrix["behaviours"][0]["faults"][0].clone();
    let (matrix, is_content) =
        conform(&proxy, &origin, &["--behaviour", "half-close-at-once-client", "--schedules", "3", "--seed", "1000"]);
    assert!(!is_content, "{matrix:#}");
    assert_eq!(seen(&matrix)["name"], "half-close-became-close", "{matrix:#}");
    let seed = seen(&matrix)["seeds"][0].as_u64().expect("a seed").to_string();
    let (again, is_content) = conform(&proxy, &origin, &["--only", "--seed", &seed]);
    assert!(!is_content && seen(&again)["name"] == "half-close-became-close", "{again:#}");
    let allowed = ["--only", "--seed", &seed, "--allow", "half-close-became-close"];
    let (allowed, is_content) = conform(&proxy, &origin, &allowed);
    assert!(is_content, "{allowed:#}");
    assert_eq!((&allowed["failed"], &allowed["allowed"]), (&Value::from(0), &Value::from(1)), "{allowed:#}");
}

/// The address of a proxy that closes both directions when the client ends one.
fn closer(origin: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address").to_string();
    thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let mut server = TcpStream::connect(&origin).expect("the server listens");
            thread::spawn(move || {
                let mut bytes = [0; 4096];
                while let Ok(1..) = client.read(&mut bytes).inspect(|&read| drop(server.write_all(&bytes[..read]))) {}
                // Either may have gone already.
                let _ = (client.shutdown(Shutdown::Both), server.shutdown(Shutdown::Both));
            });
        }
    });
    address
}

#[test]
fn without_a_proxy_the_kernel_itself_passes() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headend"));
    let output = command.args(["conform", "--way", "transparent", "--schedules", "270"]).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn without_a_proxy_that_connects_the_run_ends_soon_and_says_why() {
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
fn an_origin_address_that_cannot_be_listened_at_is_explained() {
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

#[test]
fn a_behaviour_that_a_way_in_does_not_have_is_a_wrong_request() {
    let cases: [(&[&str], &str); 3] = [
        (&["127.0.0.1:1", "--way", "absolute", "--behaviour", "turns"], "not tested in the way `absolute`"),
        (&["127.0.0.1:1", "--way", "http", "--behaviour", "wrong-header"], "not tested in the way `http`"),
        (&["--way", "transparent", "--send-proxy", "v1"], "know of no proxy"),
    ];
    for (arguments, expected) in cases {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headend"));
        let output = command.arg("conform").args(arguments).output().expect("the binary runs");
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
        assert!(text.contains(expected), "{arguments:?}: {text}");
    }
}

#[test]
fn a_disturbance_goes_on_meanwhile_and_its_failure_is_the_run_s() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let notes = folder.path().join("notes");
    let run = |command: &str| {
        let words = ["conform", "--way", "transparent", "--schedules", "60", "--every", "10ms", "--meanwhile", command];
        Command::new(env!("CARGO_BIN_EXE_headend")).args(words).output().expect("it runs")
    };
    let output = run(&format!("echo again >>{}", notes.display()));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(std::fs::read_to_string(&notes).expect("it was run").lines().count() > 1, "more than once");
    let output = run("exit 3");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("--meanwhile: exit 3"), "{said}");
}
