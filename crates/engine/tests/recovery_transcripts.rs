//! Transcripts of a sender packet by packet: slow start, fast retransmit, partial acknowledgements, SACK recovery, back-off.
//! Each transcript has an expectation beside it that does not depend on the transcript.

mod support;

use std::fmt::Write as _;

use headend_engine::cable::{Cable, CableConfig};
use headend_engine::cc::{Algorithm, reno};
use headend_engine::link::loss::List;
use headend_engine::tcp::personality::{DelayedAck, EraRules, Headers, Personality, Recovery};
use headend_engine::time::Time;
use headend_engine::units::Bytes;
use support::{Talker, connect, established, run};

const MSS: u64 = 1460;

/// A sender of the 1990s without delayed ACKs at the other end: packets are easy to count.
fn plain(window: u64) -> Personality {
    let bsd = Personality::bsd_reno_1996();
    Personality {
        headers: Headers::Uncounted,
        send_buffer: Bytes::new(window * MSS),
        receive_buffer: Bytes::new(window * MSS),
        delayed_ack: DelayedAck { segments: 1, ..bsd.delayed_ack },
        ..bsd
    }
}

/// The personality with an algorithm of today, RFC rules, and a fine clock.
fn modern(recovery: Recovery, window: u64) -> Personality {
    let modern = if recovery == Recovery::RackTlp { Personality::linux() } else { Personality::sack() };
    let plain = plain(window);
    Personality {
        recovery,
        controller: Algorithm::Reno(reno::Parameters),
        sack: matches!(recovery, Recovery::Sack | Recovery::RackTlp),
        window_scaling: true,
        timestamps: false,
        era: EraRules::RFC,
        rto: modern.rto,
        limited_transmit: true,
        ..plain
    }
}

/// Sends `packets` over the papers' cable, which loses the transmissions with these numbers, counted from 1.
fn transfer(personality: &Personality, packets: u64, lost: &[u64]) -> Talker {
    let (left, right) = established(personality, personality, packets * MSS);
    let config = CableConfig { down_loss: Some(Box::new(List::new(lost.to_vec()))), ..CableConfig::papers() };
    let mut graph = connect(left, right, Box::new(Cable::new(config)));
    run(&mut graph, Time::from_nanos(600_000_000_000), |nodes| {
        nodes[0].talker().connection.acknowledged().get() == packets * MSS
    });
    assert_eq!(graph.nodes()[2].talker().received, packets * MSS, "every byte arrives");
    let node = graph.into_nodes().swap_remove(0);
    match node {
        support::Piece::Talker(talker) => *talker,
        support::Piece::Other(_) => unreachable!("the first node is the sender"),
    }
}

/// The numbers of the packets that a sender sent, counted from 1, in order.
fn sent(talker: &Talker) -> Vec<u64> {
    talker.sent.iter().filter_map(|(_, s)| Some(talker.connection.offset_of(s)? / MSS + 1)).collect()
}

/// Time [ms], what was heard or sent by packet number, and the window after it where it changed [packets].
fn transcript(talker: &Talker) -> String {
    let isn = 0xffff_f000_u32;
    let heard = talker.heard.iter().map(|(time, s)| {
        let sacks: Vec<String> = s
            .options
            .sack
            .as_slice()
            .iter()
            .map(|&(left, right)| {
                let packet = |seq: u32| u64::from(seq.wrapping_sub(isn) - 1) / MSS + 1;
                format!("{}..{}", packet(left), packet(right) - 1)
            })
            .collect();
        let next = u64::from(s.ack.wrapping_sub(isn) - 1) / MSS + 1;
        let sacks = if sacks.is_empty() { String::new() } else { format!(" sack {}", sacks.join(" ")) };
        (*time, 0, format!("<- ack {next}{sacks}"))
    });
    let sent = talker.sent.iter().zip(sent(talker)).map(|((time, _), packet)| (*time, 1, format!("-> {packet}")));
    let window = talker
        .cwnd
        .iter()
        .map(|(time, cwnd)| (*time, 2, format!("   cwnd {}.{:02}", cwnd / MSS, cwnd % MSS * 100 / MSS)));
    let mut lines: Vec<_> = heard.chain(sent).chain(window).collect();
    lines.sort_by_key(|(time, kind, _)| (*time, *kind));
    let mut text = String::from("time [ms]  packet number | window [packets]\n");
    for (time, _, line) in lines {
        let micros = time.as_nanos() / 1000;
        writeln!(text, "{:>6}.{:03}  {line}", micros / 1000, micros % 1000).expect("a string takes it");
    }
    text
}

#[test]
fn slow_start_adds_a_segment_per_ack_and_stops_at_the_peers_window() {
    let talker = transfer(&plain(64), 60, &[]);
    let windows: Vec<u64> = talker.cwnd.iter().map(|&(_, cwnd)| cwnd / MSS).collect();
    assert_eq!(windows, (1..=61).collect::<Vec<_>>(), "one more after each of 60 ACKs, from 1");
    assert_eq!(talker.connection.counters().retransmits, 0);
    insta::assert_snapshot!(transcript(&transfer(&plain(64), 15, &[])));
}

#[test]
fn reno_retransmits_on_the_third_duplicate_and_halves_its_window() {
    let talker = transfer(&plain(16), 40, &[17]);
    let counters = talker.connection.counters();
    assert_eq!((counters.fast_retransmits, counters.timeouts, counters.retransmits), (1, 0, 1));
    // The window of 16 is halved to 8 and grows from there by one a round trip.
    let least = talker.cwnd.iter().skip_while(|&&(_, cwnd)| cwnd < 16 * MSS).map(|&(_, cwnd)| cwnd).min();
    assert_eq!(least, Some(8 * MSS));
    insta::assert_snapshot!(transcript(&talker));
}

#[test]
fn tahoe_restarts_from_one_segment_after_fast_retransmit() {
    let personality = Personality { recovery: Recovery::Tahoe, ..plain(16) };
    let talker = transfer(&personality, 40, &[17]);
    let counters = talker.connection.counters();
    assert_eq!((counters.fast_retransmits, counters.timeouts), (1, 0));
    assert!(talker.cwnd.windows(2).any(|w| w[0].1 > 8 * MSS && w[1].1 == MSS), "the window falls to one segment");
}

#[test]
fn newreno_repairs_three_losses_one_a_round_trip_without_a_timeout() {
    let talker = transfer(&modern(Recovery::NewReno, 20), 60, &[21, 24, 27]);
    let counters = talker.connection.counters();
    assert_eq!((counters.fast_retransmits, counters.timeouts, counters.retransmits), (1, 0, 3));
    let numbers = sent(&talker);
    let again: Vec<(Time, u64)> = talker
        .sent
        .iter()
        .zip(&numbers)
        .enumerate()
        .filter(|(i, (_, number))| numbers[..*i].contains(number))
        .map(|(_, ((time, _), number))| (*time, *number))
        .collect();
    assert_eq!(again.iter().map(|&(_, number)| number).collect::<Vec<_>>(), [21, 24, 27]);
    for pair in again.windows(2) {
        let gap = (pair[1].0 - pair[0].0).as_millis();
        assert!((20..45).contains(&gap), "a round trip between partial ACKs, not {gap} ms");
    }
    insta::assert_snapshot!(transcript(&talker));
}

#[test]
fn sack_repairs_three_losses_within_a_round_trip_of_each_other() {
    for recovery in [Recovery::Sack, Recovery::RackTlp] {
        let talker = transfer(&modern(recovery, 20), 60, &[21, 24, 27]);
        let counters = talker.connection.counters();
        assert_eq!((counters.fast_retransmits, counters.timeouts, counters.retransmits), (1, 0, 3), "{recovery:?}");
        let numbers = sent(&talker);
        let again: Vec<Time> =
            (0..numbers.len()).filter(|&i| numbers[..i].contains(&numbers[i])).map(|i| talker.sent[i].0).collect();
        let spread = (again[2] - again[0]).as_millis();
        assert!(spread < 20, "{recovery:?}: all three leave within {spread} ms");
        insta::assert_snapshot!(format!("three_losses_{recovery:?}"), transcript(&talker));
    }
}

#[test]
fn without_sack_at_the_peer_a_selective_sender_is_newreno() {
    let peerless = |recovery| Personality { sack: false, ..modern(recovery, 20) };
    let newreno = transcript(&transfer(&modern(Recovery::NewReno, 20), 60, &[21, 24, 27]));
    assert_eq!(transcript(&transfer(&peerless(Recovery::Sack), 60, &[21, 24, 27])), newreno);
}

#[test]
fn a_tail_loss_probe_repairs_the_last_packet_long_before_the_timer() {
    let talker = transfer(&modern(Recovery::RackTlp, 20), 20, &[20]);
    let counters = talker.connection.counters();
    assert_eq!((counters.tail_loss_probes, counters.timeouts), (1, 0));
    let sack = transfer(&modern(Recovery::Sack, 20), 20, &[20]);
    assert_eq!((sack.connection.counters().tail_loss_probes, sack.connection.counters().timeouts), (0, 1));
    assert!(talker.last_ack < sack.last_ack);
    insta::assert_snapshot!(transcript(&talker));
}

#[test]
fn a_packet_lost_again_and_again_is_sent_again_ever_more_slowly() {
    // Packet 1 and its first four retransmissions: 3, 6, 12 and 24 s before the fifth, on the unmeasured clock of 1996.
    let talker = transfer(&plain(6), 3, &[1, 2, 3, 4]);
    let times: Vec<u64> = talker.sent.iter().take(5).map(|(time, _)| time.as_nanos() / 1_000_000_000).collect();
    assert_eq!(times, [0, 3, 9, 21, 45], "s");
    assert_eq!(talker.connection.counters().timeouts, 4);
    insta::assert_snapshot!(transcript(&talker));
}

/// Tuning paper, Figure 16: a congestion window of 8 packets, well below the socket buffer; 11 and 14 are lost.
#[test]
fn figure_16_threshold_three_times_out_on_packet_14_and_one_does_not() {
    let window_of_8 = Personality { initial_ssthresh_segments: Some(8), ..plain(40) };
    let normal = transfer(&window_of_8, 30, &[11, 14]);
    let counters = normal.connection.counters();
    assert_eq!((counters.fast_retransmits, counters.timeouts), (1, 1), "fast retransmit of 11, time-out of 14");
    let duplicates_of_14 =
        normal.heard.iter().filter(|(_, s)| s.ack == 0xffff_f001_u32.wrapping_add(13 * MSS as u32)).count() - 1;
    assert_eq!(duplicates_of_14, 2, "one too few, as the paper's text says");
    let talker = transfer(&Personality { dupack_threshold: 1, ..window_of_8 }, 30, &[11, 14]);
    let counters = talker.connection.counters();
    assert_eq!((counters.fast_retransmits, counters.timeouts, counters.retransmits), (2, 0, 2));
    insta::assert_snapshot!("figure_16_fast_retransmit", transcript(&normal));
    insta::assert_snapshot!("figure_16_super_fast_retransmit", transcript(&talker));
}

#[test]
fn a_probe_that_was_not_needed_costs_no_window() {
    // The receiver sits on the last ACK for 400 ms: the probe repeats the last packet, and a D-SACK says that it had come.
    let sender = Personality { initial_window_segments: Some(2), ..modern(Recovery::RackTlp, 20) };
    let receiver = Personality {
        delayed_ack: DelayedAck {
            segments: 2,
            timeout: headend_engine::time::Duration::from_millis(400),
            ..sender.delayed_ack
        },
        ..sender.clone()
    };
    let (left, right) = established(&sender, &receiver, 21 * MSS);
    let mut graph = connect(left, right, Box::new(Cable::new(CableConfig::papers())));
    run(&mut graph, Time::from_nanos(10_000_000_000), |_| false);
    let talker = graph.nodes()[0].talker();
    let snapshot = talker.connection.snapshot().expect("an open connection");
    assert!(talker.connection.counters().tail_loss_probes >= 1, "the case has a probe");
    assert_eq!(talker.connection.counters().timeouts, 0);
    assert_eq!(snapshot.ssthresh, Bytes::MAX, "no congestion was seen");
}
