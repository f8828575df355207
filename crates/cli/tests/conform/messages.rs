//! Proxies that serve requests for whole URLs, and proxies that pass on PROXY headers.

use std::process::Command;

use crate::faulty::{Flaw, Proxy, Tongue, faults};

#[test]
fn a_proxy_without_a_flaw_passes_with_requests_and_with_headers() {
    let matrix = Proxy::start(Tongue::Absolute, Flaw::None).conform(&[], &["--schedules", "160"]);
    assert_eq!((&matrix["failed"], &matrix["not_applicable"]), (&0.into(), &0.into()), "{matrix:#}");
    let matrix = Proxy::start(Tongue::Introduced, Flaw::None).conform(&[], &["--schedules", "140"]);
    assert_eq!(matrix["failed"], 0, "{matrix:#}");
    assert!(matrix["passed"].as_u64().expect("a number") >= 130, "all but the refusals apply: {matrix:#}");
}

/// Runs schedules of a behaviour, and looks for a fault among theirs.
fn finds(tongue: Tongue, flaw: Flaw, behaviour: &str, fault: &str) {
    // What shows by waiting shows each time.
    let schedules = if behaviour == "wrong-header" { "2" } else { "20" };
    let matrix = Proxy::start(tongue, flaw).conform(&[behaviour], &["--schedules", schedules]);
    assert!(faults(&matrix, behaviour).contains(&fault), "{flaw:?}: {fault} in {matrix:#}");
}

#[test]
fn answers_and_bodies_that_are_cut_off_changed_or_made_whole_are_found() {
    for (flaw, behaviour, fault) in [
        (Flaw::DropsTheLastBytes, "get", "bytes-missing"),
        (Flaw::FlipsABit, "post", "bytes-changed"),
        (Flaw::EndsWhereItShouldReset, "cut-by-server", "reset-became-end"),
        (Flaw::NeverPassesEnds, "post", "end-not-passed"),
    ] {
        finds(Tongue::Absolute, flaw, behaviour, fault);
    }
}

#[test]
fn a_message_that_nobody_reads_on_must_not_hold_up_others() {
    let proxy = Proxy::start(Tongue::Absolute, Flaw::ServesOneAtATime);
    let matrix = proxy.conform(&["stalled-client", "stalled-server"], &["--schedules", "12"]);
    // Not in each: whether a proxy's write blocks is up to the kernel's buffers as well.
    let found = [faults(&matrix, "stalled-client"), faults(&matrix, "stalled-server")].concat();
    assert!(found.contains(&"other-connection-blocked"), "{matrix:#}");
}

#[test]
fn requests_that_arrive_changed_are_found() {
    for (flaw, behaviour, fault) in [
        (Flaw::KeepsAbsoluteForm, "get", "request-changed"),
        (Flaw::TakesHeadForGet, "head", "request-changed"),
        (Flaw::DropsAField, "fields", "request-changed"),
        (Flaw::KeepsWhatIsItsOwn, "fields", "field-not-removed"),
    ] {
        finds(Tongue::Absolute, flaw, behaviour, fault);
    }
}

#[test]
fn headers_that_are_dropped_forged_doubled_or_taken_whatever_they_say_are_found() {
    for (flaw, behaviour, fault) in [
        (Flaw::DropsTheHeader, "to-server", "client-not-told"),
        (Flaw::NamesItself, "to-client", "client-wrong"),
        (Flaw::LeavesTheHeaderTwice, "to-server", "bytes-changed"),
        (Flaw::TakesAnyHeader, "wrong-header", "header-not-refused"),
    ] {
        finds(Tongue::Introduced, flaw, behaviour, fault);
    }
}

#[test]
fn what_a_way_in_does_not_have_is_a_wrong_request() {
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
