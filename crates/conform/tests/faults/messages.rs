//! Proxies that serve requests for whole URLs, and proxies that pass on PROXY headers.

use crate::faulty::{Flaw, Proxy, Tongue, faults};

#[test]
fn a_proxy_without_a_flaw_passes_with_requests_and_with_headers() {
    let matrix = Proxy::start(Tongue::Absolute, Flaw::None).matrix(&[], 160);
    assert_eq!((matrix.failed(), matrix.sum(|row| row.not_applicable)), (0, 0), "{matrix:#?}");
    let matrix = Proxy::start(Tongue::Introduced, Flaw::None).matrix(&[], 140);
    assert_eq!(matrix.failed(), 0, "{matrix:#?}");
    assert!(matrix.sum(|row| row.passed) >= 130, "all but the refusals apply: {matrix:#?}");
}

/// Runs schedules of a behaviour, and looks for a fault among theirs.
fn finds(tongue: Tongue, flaw: Flaw, behaviour: &str, fault: &str) {
    // What shows by waiting shows each time.
    let schedules = if behaviour == "wrong-header" { 2 } else { 20 };
    let matrix = Proxy::start(tongue, flaw).matrix(&[behaviour], schedules);
    assert!(faults(&matrix, behaviour).contains(&fault), "{flaw:?}: {fault} in {matrix:#?}");
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
    let matrix = proxy.matrix(&["stalled-client", "stalled-server"], 12);
    // Not in each: whether a proxy's write blocks is up to the kernel's buffers as well.
    let found = [faults(&matrix, "stalled-client"), faults(&matrix, "stalled-server")].concat();
    assert!(found.contains(&"other-connection-blocked"), "{matrix:#?}");
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
fn headers_dropped_forged_doubled_or_taken_unread_are_found() {
    for (flaw, behaviour, fault) in [
        (Flaw::DropsTheHeader, "to-server", "client-not-told"),
        (Flaw::NamesItself, "to-client", "client-wrong"),
        (Flaw::LeavesTheHeaderTwice, "to-server", "bytes-changed"),
        (Flaw::TakesAnyHeader, "wrong-header", "header-not-refused"),
    ] {
        finds(Tongue::Introduced, flaw, behaviour, fault);
    }
}
