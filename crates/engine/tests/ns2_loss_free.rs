//! Transfers without media loss over the papers' cable path equal ns-2's: time, packets, time-outs and fast retransmits,
//! modem-buffer overruns included. The curves are in `python/headend/papers/reference/ns2`.

mod support;

use headend_engine::cable::{Cable, CableConfig};
use headend_engine::tcp::personality::{DelayedAck, EraRules, Headers, Personality};
use headend_engine::time::{Duration, Time};
use headend_engine::units::{Bytes, Capacity};
use support::{connect, established, run};

const CURVES: &[(&str, &str)] = &[
    ("fig03", include_str!("../../../python/headend/papers/reference/ns2/p1_fig03.csv")),
    ("fig04", include_str!("../../../python/headend/papers/reference/ns2/p1_fig04.csv")),
    ("fig08", include_str!("../../../python/headend/papers/reference/ns2/p1_fig08.csv")),
    ("fig12", include_str!("../../../python/headend/papers/reference/ns2/p1_fig12.csv")),
    ("fig14", include_str!("../../../python/headend/papers/reference/ns2/p1_fig14.csv")),
    ("fig15", include_str!("../../../python/headend/papers/reference/ns2/p1_fig15.csv")),
];

/// One row of a reference curve.
struct Row<'a> {
    names: &'a str,
    values: &'a str,
}

impl Row<'_> {
    fn text(&self, name: &str) -> &str {
        let column = self.names.split(',').position(|known| known == name).expect("the curve has the column");
        self.values.split(',').nth(column).expect("the row has the column")
    }

    fn number(&self, name: &str) -> f64 {
        let text = self.text(name);
        text.parse().unwrap_or_else(|_| panic!("{name} is a number and not {text:?}"))
    }
}

/// The quantities by which ns-2 and the engine are compared.
#[derive(Debug, PartialEq)]
struct Transfer {
    seconds: f64,
    segments: u64,
    timeouts: u64,
    fast_retransmits: u64,
}

fn transfer(row: &Row<'_>) -> Transfer {
    let bsd = Personality::bsd_reno_1996();
    let era = match row.text("sim") {
        "ns2" => EraRules::NS_2_35,
        "ns96" => EraRules::NS_1996,
        other => panic!("no rules are known for {other}"),
    };
    let mss = row.number("wire_B") as u64;
    let window = Bytes::new(mss * row.number("win_pkts") as u64);
    let personality = Personality {
        mss: Bytes::new(mss),
        headers: Headers::Uncounted,
        initial_window_segments: Some(row.number("iw") as u32),
        send_buffer: window,
        receive_buffer: window,
        dupack_threshold: row.number("numdup") as u32,
        delayed_ack: DelayedAck { segments: 1 + row.number("delack") as u32, ..bsd.delayed_ack },
        era,
        ..bsd
    };
    let whole = (row.number("bytes") as u64).div_ceil(mss) * mss;
    let (left, right) = established(&personality, &personality, whole);
    let modem_buffer = match row.text("cmq") {
        "" => Capacity::Unlimited,
        packets => Capacity::Packets(packets.parse().expect("a number of packets")),
    };
    let delay = Duration::from_nanos((row.number("rtt_s") * 1e9) as u64 / 2);
    let cable = Cable::new(CableConfig { modem_buffer, delay, ..CableConfig::papers() });
    let mut graph = connect(left, right, Box::new(cable));
    run(&mut graph, Time::from_nanos(3_600_000_000_000), |nodes| {
        nodes[0].talker().connection.acknowledged().get() == whole
    });
    let (left, right) = (graph.nodes()[0].talker(), graph.nodes()[2].talker());
    assert_eq!(right.received, whole, "every byte arrives");
    let counters = left.connection.counters();
    Transfer {
        seconds: right.last_data.as_secs_f64(),
        segments: counters.segments,
        timeouts: counters.timeouts,
        fast_retransmits: counters.fast_retransmits,
    }
}

#[test]
fn transfers_without_media_loss_equal_ns_2_to_the_packet() {
    let mut compared = 0;
    for (figure, curve) in CURVES {
        let (names, rows) = curve.split_once('\n').expect("a header line");
        for values in rows.lines() {
            let row = Row { names, values };
            let clean = row.number("dloss") == 0.0 && row.number("uloss") == 0.0;
            // A full segment whose headers are counted is another size on the wire than in the stream.
            let headers = row.text("series").contains("wire 1500")
                || row.text("series").contains("wire 552")
                || row.text("series").contains("wire 296");
            if !clean || headers || row.number("nconn") != 1.0 || row.text("sim") == "ns2mod" {
                continue;
            }
            compared += 1;
            let ours = transfer(&row);
            let ns2 = Transfer {
                seconds: row.number("mean_T_s"),
                segments: row.number("sent_mean") as u64,
                timeouts: row.number("timeouts_mean") as u64,
                fast_retransmits: row.number("fastrtx_mean") as u64,
            };
            let case = format!("{figure}: {}, {}, x = {}", row.text("sim"), row.text("series"), row.text("x"));
            assert!((ours.seconds - ns2.seconds).abs() < 2e-5 * ns2.seconds, "{case}: {ours:?} against {ns2:?}");
            assert_eq!(Transfer { seconds: ns2.seconds, ..ours }, ns2, "{case}");
        }
    }
    assert!(compared > 700, "the curves hold hundreds of such rows, compared were {compared}");
}
