//! The kernel's FAST computes what the engine's does: the arithmetic of `bpf/`, compiled for this machine, over the engine's
//! vectors and over chance. (`fast/kernel/tests.rs` has the kernel itself run the vectors.)

#[path = "support/c_law.rs"]
mod c_law;

use headend_engine::cc::fast::Parameters;
use headend_engine::cc::fast::law::{Heard, Law};
use headend_engine::rng::Rng;

const VECTORS: &str = include_str!("../../engine/src/cc/fast/vectors.csv");
/// The events in the order of `enum fast_event`.
const EVENTS: [&str; 6] = ["start", "ack", "halve", "restart", "undo", "begin"];

/// A row: event, alpha, gamma, rounds, now, round trip, acknowledged, recovering, limited, to window, to threshold, check.
struct Row {
    line: usize,
    given: [u64; 12],
    cwnd: u64,
    ssthresh: u64,
}

fn rows() -> Vec<Row> {
    let row = |(number, text): (usize, &str)| {
        let cells: Vec<&str> = text.split(',').collect();
        let line = number + 1;
        let event = EVENTS.iter().position(|event| *event == cells[4]);
        let event = event.unwrap_or_else(|| panic!("line {line}: {:?} is no event", cells[4])) as u64;
        // What a row leaves out is 0, which is no round trip.
        let value = |column: usize| cells[column].parse().unwrap_or(0);
        let (cwnd, ssthresh) = (value(12), value(13));
        // A start says its window in the columns of what comes of it.
        let to = if event == 0 { (cwnd, ssthresh) } else { (value(10), value(11)) };
        let given = [
            event,
            value(1),
            value(2),
            value(3),
            value(5),
            value(6),
            value(7),
            value(8),
            value(9),
            to.0,
            to.1,
            value(14),
        ];
        Row { line, given, cwnd, ssthresh }
    };
    VECTORS.lines().enumerate().skip(1).map(row).collect()
}

#[test]
fn the_c_of_the_kernel_s_fast_gives_the_engine_s_windows() {
    let Some(program) = c_law::compile("fast_law", "vectors", &[]) else { return };
    let rows = rows();
    let given: Vec<[u64; 12]> = rows.iter().map(|row| row.given).collect();
    for (row, answer) in rows.iter().zip(c_law::answers(&program, &given)) {
        assert_eq!(answer, [row.cwnd, row.ssthresh], "line {} of the vectors", row.line);
    }
    assert!(rows.len() > 500, "{} rows", rows.len());
}

/// A number of up to so many bits, of any size alike.
fn some(rng: &mut Rng, bits_max: u64) -> u64 {
    let bits = rng.below(bits_max + 1);
    1 + rng.below(1 << bits)
}

#[test]
fn rust_and_c_agree_on_whatever_may_happen_to_a_connection() {
    const SEED: u64 = 2_004;
    let Some(program) = c_law::compile("fast_law", "chance", &[]) else { return };
    let mut rng = Rng::named(SEED, "fast");
    let mut given = Vec::new();
    let mut expected = Vec::new();
    for _ in 0..200 {
        let parameters = Parameters {
            alpha_packets: if rng.below(4) == 0 { Parameters::ALPHA_BY_RATE } else { some(&mut rng, 20) as u32 },
            gamma_percent: 1 + rng.below(100) as u32,
            update_rounds: 1 + rng.below(4) as u32,
            check_seconds: rng.below(3) as u32,
        };
        // From loopbacks to satellites, and beyond what is taken for a round trip.
        let base = some(&mut rng, 28);
        let mut now_us = rng.below(1 << 50);
        let mut law = Law::new(parameters, 1 + rng.below(100), u64::MAX);
        for event in 0..200 {
            now_us += rng.below(base);
            let heard = Heard {
                now_us,
                rtt_us: (rng.below(10) > 0).then(|| base + rng.below(2 * base)),
                acked: rng.below(60),
                is_recovering: rng.below(10) == 0,
                is_window_limited: rng.below(10) > 0,
            };
            let to = (some(&mut rng, 24), 1 + some(&mut rng, 24));
            let kind = match event {
                0 => 0,
                1 if rng.below(2) == 0 => 5,
                _ => 1 + rng.below(60).saturating_sub(56),
            };
            let start = (law.cwnd, law.ssthresh);
            match kind {
                0 => {}
                1 => law.on_ack(heard),
                2 => law.halve(now_us),
                3 => law.restart(now_us, to.0, to.1),
                4 => law.undo(to.0.min(1 << 22), to.1),
                _ => law.begin(base),
            }
            let to = match kind {
                0 => start,
                4 => (to.0.min(1 << 22), to.1),
                _ => to,
            };
            let Parameters { alpha_packets, gamma_percent, update_rounds, check_seconds } = parameters;
            let [alpha, gamma, rounds, check] =
                [alpha_packets, gamma_percent, update_rounds, check_seconds].map(u64::from);
            let flags = [heard.is_recovering, heard.is_window_limited].map(u64::from);
            let rtt_us = if kind == 5 { base } else { heard.rtt_us.unwrap_or(0) };
            given.push([
                kind,
                alpha,
                gamma,
                rounds,
                now_us,
                rtt_us,
                heard.acked,
                flags[0],
                flags[1],
                to.0,
                to.1,
                check,
            ]);
            expected.push([law.cwnd, law.ssthresh]);
        }
    }
    for (number, (answer, expected)) in c_law::answers(&program, &given).into_iter().zip(expected).enumerate() {
        assert_eq!(answer, expected, "event {number} of seed {SEED}: {:?}", given[number]);
    }
}
