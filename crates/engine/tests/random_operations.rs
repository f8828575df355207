//! Whatever the network does to packets and in whatever order the applications act, the receiver reads what the sender
//! wrote: nothing lost, duplicated or reordered, across the wrap of the sequence numbers. proptest prints the failing
//! case, which holds its seed.

mod support;

use headend_engine::tcp::connection::{Connection, PairedEnd, State};
use headend_engine::tcp::personality::{EraRules, Personality};
use headend_engine::time::{Duration, Time};
use headend_engine::units::Bytes;
use proptest::prelude::*;
use support::chaos::{Chaos, Harm};
use support::{Talker, connect, run};

#[derive(Clone, Debug)]
struct Case {
    left: &'static str,
    right: &'static str,
    era: EraRules,
    bytes_out: u64,
    bytes_back: u64,
    isn: u32,
    handshake: bool,
    harm: Harm,
    seed: u64,
    buffer: u64,
    dupacks: u32,
}

fn case() -> impl Strategy<Value = Case> {
    let names: Vec<&'static str> = Personality::ALL.iter().map(|(name, _)| *name).collect();
    let eras: Vec<EraRules> = EraRules::ALL.iter().map(|(_, era)| *era).collect();
    let harm = (0u32..300, 0u32..100, 0u32..300).prop_map(|(loss, duplication, reordering)| Harm {
        loss_permille: loss,
        duplication_permille: duplication,
        reordering_permille: reordering,
    });
    (
        prop::sample::select(names.clone()),
        prop::sample::select(names),
        prop::sample::select(eras),
        0u64..200_000,
        0u64..60_000,
        // Close to the wrap, so that most cases cross it.
        prop_oneof![(u32::MAX - 100_000)..=u32::MAX, any::<u32>()],
        any::<bool>(),
        harm,
        any::<u64>(),
        prop_oneof![Just(8_760u64), 2_000u64..100_000],
        prop_oneof![Just(3u32), 1u32..6],
    )
        .prop_map(|(left, right, era, bytes_out, bytes_back, isn, handshake, harm, seed, buffer, dupacks)| Case {
            left,
            right,
            era,
            bytes_out,
            bytes_back,
            isn,
            handshake,
            harm,
            seed,
            buffer,
            dupacks,
        })
}

fn personality(name: &str, case: &Case) -> Personality {
    let named = Personality::named(name).expect("a known name");
    Personality {
        era: case.era,
        send_buffer: Bytes::new(case.buffer),
        receive_buffer: Bytes::new(case.buffer),
        dupack_threshold: case.dupacks,
        ..named
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, max_shrink_iters: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_byte_arrives_once_and_in_order_and_both_ends_close(case in case()) {
        let (left, right) = (personality(case.left, &case), personality(case.right, &case));
        let (a, b) = if case.handshake {
            (Connection::connect(&left, case.isn, Duration::ZERO), Connection::listen(&right, !case.isn, Duration::ZERO))
        } else {
            Connection::pair(
                PairedEnd { personality: &left, isn: case.isn, clock_phase: Duration::ZERO },
                PairedEnd { personality: &right, isn: !case.isn, clock_phase: Duration::ZERO },
            )
        };
        let mut left = Talker::new(&left, a, case.bytes_out);
        let mut right = Talker::new(&right, b, case.bytes_back);
        (left.close_after, right.close_after) = (true, true);
        let mut graph = connect(left, right, Box::new(Chaos::new(case.seed, case.harm)));
        let limit = Time::from_nanos(20_000 * 1_000_000_000);
        run(&mut graph, limit, |_| false);
        let (left, right) = (graph.nodes()[0].talker(), graph.nodes()[2].talker());
        // RFC 1122 s4.2.3.5 lets a connection give up after many losses in a row, and a FIN that is repeated after TIME-WAIT
        // has ended is answered with a RST: neither may happen on a path that loses little, nor lose a byte unnoticed.
        let faults = [left.connection.fault(), right.connection.fault()];
        if faults.iter().any(Option::is_some) {
            prop_assert!(case.harm.loss_permille >= 100, "{faults:?} at {} permille", case.harm.loss_permille);
            prop_assert!(right.received <= case.bytes_out && left.received <= case.bytes_back);
            prop_assert!(left.connection.acknowledged().get() <= right.received);
            return Ok(());
        }
        prop_assert_eq!(right.received, case.bytes_out, "bytes to the right");
        prop_assert_eq!(left.received, case.bytes_back, "bytes to the left");
        // The last ACKs may all be lost until the other end's TIME-WAIT is over; then a RST answers the repeated FIN, and the
        // sender cannot know that everything had arrived.
        let acknowledged = left.connection.acknowledged().get();
        let reset = left.heard.last().is_some_and(|(_, segment)| segment.flags.rst);
        prop_assert!(acknowledged <= case.bytes_out);
        prop_assert!(acknowledged == case.bytes_out || reset, "{acknowledged} acknowledged");
        prop_assert!(left.connection.is_peer_closed() && right.connection.is_peer_closed(), "both FINs arrive");
        for talker in [left, right] {
            prop_assert!(
                matches!(talker.connection.state(), State::Closed | State::TimeWait),
                "{:?} after both ends closed", talker.connection.state()
            );
        }
    }
}
