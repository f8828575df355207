//! A sampler of the sides' rates, round trips and retransmissions, once a second; it keeps the last minutes.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Instant, SystemTime};

use headend_engine::relay::Side;
use headend_host::proxy::books::{Books, FlowPage};
use headend_host::socket::Info;

use crate::metrics::unix_seconds;

pub(super) const SIDES: [Side; 2] = [Side::Local, Side::Remote];

/// Samples that are kept: five minutes.
const SAMPLES_MAX: usize = 300;
/// Connections whose TCP is asked in one second; the others have their turn in the next. An answer takes about a
/// microsecond of the kernel's time.
const ASKED_MAX: usize = 1_000;
/// Connections that are listed under one lock of the books.
const CHUNK: usize = 256;

/// Looks at the books once a second.
pub(super) struct Sampler {
    known: HashMap<u64, Known>,
    samples: VecDeque<Sample>,
    last: Option<(Instant, Totals)>,
    next: u64,
    /// The connection whose TCP was asked last.
    asked: u64,
}

/// A connection as it was when it was looked at last.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    bytes: Bytes,
    rates: Rates,
    srtt_ns: [u64; 2],
    round: u64,
}

/// Bytes since the start of something, by side.
#[derive(Clone, Copy, Debug, Default)]
struct Bytes {
    read: [u64; 2],
    written: [u64; 2],
}

/// Bits a second, by side.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rates {
    pub(super) read_bps: [u64; 2],
    pub(super) written_bps: [u64; 2],
}

#[derive(Clone, Copy, Debug)]
struct Totals {
    bytes: Bytes,
    segments: [u64; 2],
    retransmits: [u64; 2],
    accepted: u64,
}

/// A second.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) number: u64,
    pub(super) time_unix_s: f64,
    pub(super) rates: Rates,
    pub(super) open: usize,
    pub(super) accepted_per_s: f64,
    /// Segments with data that were retransmissions, of all; `None` if there were none.
    pub(super) retransmitted: [Option<f64>; 2],
    /// Medians and ninety-fifth percentiles of connections' smoothed round trips; `None` without any.
    pub(super) rtt_p50_s: [Option<f64>; 2],
    pub(super) rtt_p95_s: [Option<f64>; 2],
    pub(super) memory_bytes: u64,
    pub(super) spool_bytes: u64,
}

impl Sampler {
    pub(super) fn new() -> Sampler {
        Sampler { known: HashMap::new(), samples: VecDeque::new(), last: None, next: 0, asked: 0 }
    }

    /// Samples that came after number `after`, oldest first; all for `None`.
    pub(super) fn after(&self, after: Option<u64>) -> impl Iterator<Item = &Sample> {
        self.samples.iter().filter(move |sample| after.is_none_or(|after| sample.number > after))
    }

    pub(super) fn latest(&self) -> Option<&Sample> {
        self.samples.back()
    }

    /// The rates of a connection in the last second.
    pub(super) fn rates(&self, flow: u64) -> Rates {
        self.known.get(&flow).map(|known| known.rates).unwrap_or_default()
    }

    /// Takes a sample.
    pub(super) fn sample(&mut self, books: &Books) {
        let now = Instant::now();
        let seconds = self.last.map(|(then, _)| now.duration_since(then).as_secs_f64()).filter(|s| *s > 0.0);
        self.ask(books);
        for flow in all(books) {
            let known = self.known.entry(flow.id).or_default();
            let bytes = Bytes::of(&flow.read, &flow.written);
            known.rates = bytes.since(&known.bytes, seconds.unwrap_or(1.0));
            (known.bytes, known.round) = (bytes, self.next);
        }
        self.known.retain(|_, known| known.round == self.next);
        let totals = Totals::of(books);
        if let (Some(seconds), Some((_, before))) = (seconds, &self.last) {
            let sample = self.compare(books, &totals, before, seconds);
            if self.samples.len() == SAMPLES_MAX {
                self.samples.pop_front();
            }
            self.samples.push_back(sample);
        }
        self.next += 1;
        self.last = Some((now, totals));
    }

    /// Asks the TCP of connections, each as often as their number allows.
    fn ask(&mut self, books: &Books) {
        let mut asked = 0;
        let mut has_wrapped = false;
        let began = self.asked;
        while asked < ASKED_MAX {
            let flows = books.flows_after(self.asked, CHUNK.min(ASKED_MAX - asked));
            let Some(last) = flows.last() else {
                if has_wrapped {
                    return;
                }
                (has_wrapped, self.asked) = (true, 0);
                continue;
            };
            self.asked = last.id;
            for flow in &flows {
                if has_wrapped && flow.id > began {
                    return;
                }
                asked += 1;
                let known = self.known.entry(flow.id).or_default();
                for side in SIDES {
                    if let Some(info) = books.sample(flow, side) {
                        known.srtt_ns[side as usize] = srtt_ns(&info);
                    }
                }
            }
        }
    }

    fn compare(&self, books: &Books, totals: &Totals, before: &Totals, seconds: f64) -> Sample {
        let share = |side: usize| {
            let sent = totals.segments[side] - before.segments[side];
            (sent > 0).then(|| (totals.retransmits[side] - before.retransmits[side]) as f64 / sent as f64)
        };
        let mut round_trips: [Vec<u64>; 2] = SIDES.map(|side| {
            self.known.values().map(|known| known.srtt_ns[side as usize]).filter(|srtt| *srtt > 0).collect()
        });
        let p50 = round_trips.each_mut().map(|srtts| quantile(srtts, 0.5));
        let p95 = round_trips.each_mut().map(|srtts| quantile(srtts, 0.95));
        Sample {
            number: self.next,
            time_unix_s: unix_seconds(SystemTime::now()),
            rates: totals.bytes.since(&before.bytes, seconds),
            open: self.known.len(),
            accepted_per_s: (totals.accepted - before.accepted) as f64 / seconds,
            retransmitted: [share(0), share(1)],
            rtt_p50_s: p50,
            rtt_p95_s: p95,
            memory_bytes: books.memory.taken(),
            spool_bytes: books.spool.taken(),
        }
    }
}

impl Bytes {
    fn of(read: &[std::sync::atomic::AtomicU64; 2], written: &[std::sync::atomic::AtomicU64; 2]) -> Bytes {
        Bytes {
            read: [0, 1].map(|side| read[side].load(Relaxed)),
            written: [0, 1].map(|side| written[side].load(Relaxed)),
        }
    }

    fn since(&self, before: &Bytes, seconds: f64) -> Rates {
        let rate = |now: u64, then: u64| ((now - then) as f64 * 8.0 / seconds) as u64;
        Rates {
            read_bps: [0, 1].map(|side| rate(self.read[side], before.read[side])),
            written_bps: [0, 1].map(|side| rate(self.written[side], before.written[side])),
        }
    }
}

impl Rates {
    /// All together, to tell the busy from the idle.
    pub(super) fn total(&self) -> u64 {
        self.read_bps.iter().chain(&self.written_bps).sum()
    }
}

impl Totals {
    fn of(books: &Books) -> Totals {
        Totals {
            bytes: Bytes::of(&books.read, &books.written),
            segments: [0, 1].map(|side: usize| books.tcp[side].segments.load(Relaxed)),
            retransmits: [0, 1].map(|side: usize| books.tcp[side].retransmits.load(Relaxed)),
            accepted: books.accepted.load(Relaxed),
        }
    }
}

/// All connections, oldest first, without holding up those who open and close them.
pub(super) fn all(books: &Books) -> impl Iterator<Item = Arc<FlowPage>> {
    let mut after = Some(0);
    std::iter::from_fn(move || {
        let flows = books.flows_after(after?, CHUNK);
        after = flows.last().map(|flow| flow.id);
        after.map(|_| flows)
    })
    .flatten()
}

fn srtt_ns(info: &Info) -> u64 {
    info.srtt.as_nanos()
}

/// The quantile of `values_ns` by the nearest rank, in seconds.
fn quantile(values_ns: &mut [u64], share: f64) -> Option<f64> {
    let last = values_ns.len().checked_sub(1)?;
    let rank = (share * last as f64).round() as usize;
    let (_, value, _) = values_ns.select_nth_unstable(rank);
    Some(*value as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_one_of_the_values_and_there_is_none_of_nothing() {
        assert_eq!(quantile(&mut [], 0.5), None);
        let mut values = [5_000_000_000, 1_000_000_000, 3_000_000_000];
        assert_eq!(quantile(&mut values, 0.5), Some(3.0));
        assert_eq!(quantile(&mut values, 0.95), Some(5.0));
    }

    #[test]
    fn a_rate_counts_bits_and_the_time_that_has_passed() {
        let before = Bytes { read: [1_000, 0], written: [0, 500] };
        let after = Bytes { read: [3_000, 0], written: [0, 1_500] };
        let rates = after.since(&before, 2.0);
        assert_eq!((rates.read_bps, rates.written_bps, rates.total()), ([8_000, 0], [0, 4_000], 12_000));
    }
}
