//! The kernel's Backfill computes what the engine's does: the arithmetic of `bpf/`, compiled for this machine, and the
//! engine's are given the same connections by chance, and have the same windows and paces after every event.

#[path = "support/c_law.rs"]
mod c_law;

use headend_engine::cc::backfill::Guard;
use headend_engine::cc::backfill::law::{Heard, Law};
use headend_engine::rng::Rng;

/// An event: its kind, two numbers (window and threshold, what is in the network and whether it is repeated, time-outs and
/// initial window), a number without meaning, and what was heard.
type Event = [u64; 15];
/// CUBIC's window, the filling one, what may be in flight, and the pace.
type Answer = [u64; 4];

/// A line and what happens on it, as the law hears of it.
struct Line {
    base_us: u64,
    queue_us: u64,
    rate: u64,
    loss_in: u64,
}

impl Line {
    fn some(rng: &mut Rng) -> Line {
        let base_us = 1 << (8 + rng.below(14));
        let fast = 10 + rng.below(20);
        Line { base_us, queue_us: base_us >> rng.below(6), rate: 1 + rng.below(1 << fast), loss_in: 1 << rng.below(9) }
    }

    fn ack(&self, rng: &mut Rng, law: &Law, now_us: u64, delivered: u64) -> Heard {
        let acked = rng.below(5);
        let in_flight = law.cwnd(now_us).saturating_sub(rng.below(3));
        let una = delivered + acked - rng.below(acked + 1);
        Heard {
            now_us,
            rtt_us: if rng.below(8) == 0 { 0 } else { self.base_us + rng.below(self.queue_us + 1) },
            acked,
            lost: if rng.below(self.loss_in) == 0 { rng.below(4) } else { 0 },
            delivered: delivered + acked,
            prior_delivered: delivered.saturating_sub(in_flight),
            una,
            sent: una + in_flight,
            rate: if rng.below(10) == 0 { 0 } else { self.rate / (1 + rng.below(4)) },
            is_app_limited: rng.below(20) == 0,
            is_window_limited: rng.below(10) > 0,
        }
    }
}

#[test]
fn rust_and_c_agree_on_whatever_may_happen_to_a_connection() {
    const SEED: u64 = 2_026;
    let Some(program) = c_law::compile("backfill_law", "chance", &["-Wno-unknown-pragmas"]) else { return };
    let mut rng = Rng::named(SEED, "backfill");
    let mut events: Vec<Event> = Vec::new();
    let mut expected: Vec<Answer> = Vec::new();
    let mut led = [0; 2];
    for _ in 0..300 {
        let path = Line::some(&mut rng);
        let (mut now_us, mut delivered) = (1 + rng.below(1 << 40), 0);
        let (initial, threshold) = (1 + rng.below(20), if rng.below(4) == 0 { rng.below(100) + 2 } else { u64::MAX });
        let mut law = Law::new(Guard::None, initial, threshold);
        let mut event = [0; 15];
        (event[1], event[2], event[4]) = (initial, threshold, now_us);
        for step in 0..600 {
            if step > 0 {
                now_us += rng.below(path.base_us / 4 + 2);
                event = [0; 15];
                event[4] = now_us;
                match rng.below(200) {
                    0 => {
                        let (pipe, is_repeated) = (rng.below(50), rng.below(2));
                        law.on_timeout(pipe, is_repeated == 1);
                        event[..3].copy_from_slice(&[2, pipe, is_repeated]);
                    }
                    1 => {
                        let timeouts = rng.below(4);
                        law.on_idle(timeouts, initial);
                        event[..3].copy_from_slice(&[3, timeouts, initial]);
                    }
                    2 => {
                        law.undo();
                        event[0] = 4;
                    }
                    _ => {
                        let heard = path.ack(&mut rng, &law, now_us, delivered);
                        delivered = heard.delivered;
                        law.on_ack(heard);
                        event[0] = 1;
                        let Heard { rtt_us, acked, lost, prior_delivered, una, sent, rate, .. } = heard;
                        event[5..13].copy_from_slice(&[
                            rtt_us,
                            acked,
                            lost,
                            delivered,
                            prior_delivered,
                            una,
                            sent,
                            rate,
                        ]);
                        event[13..].copy_from_slice(&[heard.is_app_limited, heard.is_window_limited].map(u64::from));
                    }
                }
            }
            led[usize::from(law.fill > law.claim)] += 1;
            events.push(event);
            expected.push([law.claim, law.fill, law.cwnd(now_us), law.pace(now_us)]);
        }
    }
    let answers: Vec<Answer> = c_law::answers(&program, &events);
    assert_eq!(answers.len(), expected.len());
    for (number, (answer, expected)) in answers.into_iter().zip(expected).enumerate() {
        assert_eq!(answer, expected, "event {number} of seed {SEED}: {:?}", events[number]);
    }
    assert!(led.iter().all(|count| *count > 10_000), "each window led: {led:?}");
}
