//! Proxies that are to pass on bare streams.

use headend_conform::Trial;

use crate::faulty::{Flaw, Proxy, Tongue, faults, run};

#[test]
fn a_proxy_without_a_flaw_passes_every_behaviour() {
    let matrix = Proxy::start(Tongue::Bare, Flaw::None).matrix(&[], 300);
    assert_eq!(matrix.failed(), 0, "{matrix:#?}");
    let passed = matrix.sum(|row| row.passed);
    assert!(passed >= 270, "what does not apply to this way in is two behaviours of 30: {matrix:#?}");
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
        let matrix = Proxy::start(Tongue::Bare, flaw).matrix(&["half-close-both", "half-close-under-load"], 16);
        let found = [faults(&matrix, "half-close-both"), faults(&matrix, "half-close-under-load")].concat();
        assert!(found.contains(&name), "{flaw:?}: {matrix:#?}");
    }
}

#[test]
fn a_reset_that_becomes_an_end_is_found_wherever_it_starts() {
    let behaviours = ["reset-by-client", "reset-by-server", "reset-when-idle", "reset-at-once-server"];
    let matrix = Proxy::start(Tongue::Bare, Flaw::EndsWhereItShouldReset).matrix(&behaviours, 40);
    for behaviour in behaviours {
        assert_eq!(faults(&matrix, behaviour), ["reset-became-end"], "{behaviour}: {matrix:#?}");
    }
}

#[test]
fn ends_that_close_both_directions_or_are_never_passed_are_found() {
    let behaviours = ["half-close-client", "half-close-server", "late-end"];
    let matrix = Proxy::start(Tongue::Bare, Flaw::ClosesBothOnHalfClose).matrix(&behaviours, 15);
    for behaviour in behaviours {
        assert!(faults(&matrix, behaviour).contains(&"half-close-became-close"), "{behaviour}: {matrix:#?}");
    }
    let matrix = Proxy::start(Tongue::Bare, Flaw::NeverPassesEnds).matrix(&["half-close-client"], 5);
    assert_eq!(faults(&matrix, "half-close-client"), ["end-not-passed"], "{matrix:#?}");
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
        let trial = Proxy::start(Tongue::Bare, flaw).trial(&["stalled-client", "stalled-server"], 8);
        let matrix = run(Trial { held_bytes_max: 32_000_000, ..trial });
        // Not in each: whether a proxy's write blocks is up to the kernel's buffers as well, which grow as it sees fit.
        let found = [faults(&matrix, "stalled-client"), faults(&matrix, "stalled-server")].concat();
        assert!(found.contains(&name), "{flaw:?}: {matrix:#?}");
    }
}

#[test]
fn a_connection_that_fails_beside_a_stalled_one_is_not_blocked_by_it() {
    let matrix = Proxy::start(Tongue::Bare, Flaw::TakesOnlyOne).matrix(&["stalled-client"], 1);
    assert_eq!(faults(&matrix, "stalled-client"), ["no-connection"], "{matrix:#?}");
}

#[test]
fn an_urgent_byte_that_is_left_out_is_missed() {
    let matrix = Proxy::start(Tongue::Bare, Flaw::DropsUrgentBytes).matrix(&["urgent"], 8);
    assert!(faults(&matrix, "urgent").contains(&"bytes-missing"), "{matrix:#?}");
}

#[test]
fn a_seed_alone_repeats_a_fault_which_may_be_allowed() {
    let proxy = Proxy::start(Tongue::Bare, Flaw::ClosesBothOnHalfClose);
    let trial = |seed| Trial { schedules: vec![seed], ..proxy.trial(&[], 1) };
    let found = proxy.matrix(&["half-close-at-once-client"], 3);
    let (_, tally) = found.rows().next().expect("a row");
    let seed = tally.faults["half-close-became-close"].seeds[0];
    let again = run(trial(seed));
    assert_eq!(faults(&again, "half-close-at-once-client"), ["half-close-became-close"], "{again:#?}");
    let allowed = run(Trial { allowed: vec!["half-close-became-close".to_owned()], ..trial(seed) });
    assert_eq!((allowed.failed(), allowed.sum(|row| row.allowed)), (0, 1), "{allowed:#?}");
}
