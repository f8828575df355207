//! Rates at which the network delivers: a sample with every acknowledgement
//! ([draft-cheng-iccrg-delivery-rate-estimation-00](https://datatracker.ietf.org/doc/html/draft-cheng-iccrg-delivery-rate-estimation-00)).
//!
//! Each segment remembers, when it leaves, how much had been delivered by then and when. Once it is delivered itself, what
//! came in between is a rate: bytes over the longer of the time in which they left and the time in which they were
//! acknowledged. Names are the draft's, with `C.` the estimator's and `P.` a segment's.

use std::collections::VecDeque;

use crate::cc::{Lost, RateSample};
use crate::room;
use crate::time::{Duration, Time};
use crate::units::{Bytes, Rate};

/// The connection's state.
#[derive(Debug, Default)]
pub(crate) struct DeliveryRate {
    /// C.delivered: bytes delivered so far, by acknowledgement or SACK.
    delivered: u64,
    /// C.delivered_time: when that last grew.
    delivered_time: Time,
    /// C.first_sent_time: when the segment left that was delivered last, or the flight began.
    first_sent: Time,
    /// C.app_limited: once more than this is delivered, samples are of the network again; 0 if they are now.
    app_limited: u64,
    /// Segments that are sent and not cumulatively acknowledged, ascending and without gaps.
    segments: VecDeque<Departure>,
    /// The shortest round trip, below which no sample spans a flight.
    rtt_min: Option<Duration>,
    /// C.lost: bytes found lost so far, as far as it was told.
    lost: u64,
}

/// A segment's state, as of when it was last sent.
#[derive(Clone, Copy, Debug)]
struct Departure {
    start: u64,
    end: u64,
    sent: Time,
    first_sent: Time,
    delivered: u64,
    delivered_time: Time,
    /// P.tx_in_flight: bytes in flight once it had left, itself included.
    in_flight: u64,
    /// P.lost: bytes that had been found lost by then.
    lost: u64,
    is_app_limited: bool,
    is_delivered: bool,
}

/// The segment among those newly delivered that was sent last (UpdateRateSample).
#[derive(Clone, Copy, Debug)]
struct Newest {
    segment: Departure,
    send_elapsed: Duration,
}

impl DeliveryRate {
    /// `start..end` leaves now, and makes it `in_flight` bytes (SendPacket).
    pub(crate) fn on_sent(&mut self, now: Time, start: u64, end: u64, resend: bool, in_flight: u64) {
        if self.segments.is_empty() {
            // A flight begins: no time before it counts.
            self.first_sent = now;
            self.delivered_time = now;
        }
        let segment = Departure {
            start,
            end,
            sent: now,
            first_sent: self.first_sent,
            delivered: self.delivered,
            delivered_time: self.delivered_time,
            in_flight,
            lost: self.lost,
            is_app_limited: self.app_limited > 0,
            is_delivered: false,
        };
        if !resend {
            room::for_one_more(&mut self.segments);
            self.segments.push_back(segment);
            return;
        }
        let first = self.segments.partition_point(|known| known.end <= start);
        for known in self.segments.range_mut(first..).take_while(|known| known.start < end) {
            if !known.is_delivered {
                *known = Departure { start: known.start, end: known.end, ..segment };
            }
        }
        if let Some(last) = self.segments.back().map(|last| last.end)
            && last < end
        {
            // Old data and new in one segment.
            self.segments.push_back(Departure { start: last, ..segment });
        }
    }

    /// `start..end` was found lost. The answer says what was known when it left.
    pub(crate) fn on_lost(&mut self, now: Time, start: u64, end: u64) -> Option<Lost> {
        self.lost += end - start;
        let at = self.segments.partition_point(|known| known.end <= start);
        let segment = self.segments.get(at)?;
        Some(Lost {
            now,
            start,
            end,
            delivered: Bytes::new(self.delivered),
            sent_in_flight: Bytes::new(segment.in_flight),
            lost_since: Bytes::new(self.lost - segment.lost),
            is_app_limited: segment.is_app_limited,
        })
    }

    /// So many bytes were found lost, one knows not where.
    pub(crate) fn on_bytes_lost(&mut self, lost: u64) {
        self.lost += lost;
    }

    /// The application had no more to send than was in the network, `in_flight` bytes.
    pub(crate) fn on_app_limited(&mut self, in_flight: u64) {
        self.app_limited = (self.delivered + in_flight).max(1);
    }

    /// An acknowledgement up to `una` with these SACK blocks, and perhaps a round trip (GenerateRateSample).
    /// What the estimator does not know of, losses and what is in flight, is for the caller to fill in.
    pub(crate) fn on_ack(&mut self, now: Time, una: u64, sacks: &[(u64, u64)], rtt: Option<Duration>) -> RateSample {
        self.rtt_min = self.rtt_min.into_iter().chain(rtt).min();
        let before = self.delivered;
        let mut newest = None;
        for &(left, right) in sacks {
            let first = self.segments.partition_point(|known| known.start < left);
            for index in first..self.segments.len() {
                if self.segments[index].end > right {
                    break;
                }
                self.deliver(now, index, &mut newest);
            }
        }
        while let Some(first) = self.segments.front()
            && first.start < una
        {
            let first = *first;
            if first.end > una {
                // The rest of a segment stays, with the same history.
                if !first.is_delivered {
                    self.delivered += una - first.start;
                    self.delivered_time = now;
                }
                self.segments[0].start = una;
                break;
            }
            self.deliver(now, 0, &mut newest);
            self.segments.pop_front();
        }
        if self.app_limited > 0 && self.delivered > self.app_limited {
            self.app_limited = 0;
        }
        let prior = newest.map_or(self.delivered, |newest| newest.segment.delivered);
        let rate = newest.and_then(|newest| {
            let ack_elapsed = now.since(newest.segment.delivered_time);
            let interval = newest.send_elapsed.max(ack_elapsed);
            let spans_a_flight = self.rtt_min.is_none_or(|least| interval >= least);
            (spans_a_flight && interval > Duration::ZERO).then(|| rate_of(self.delivered - prior, interval))
        });
        RateSample {
            now,
            delivered: Bytes::new(self.delivered),
            prior_delivered: Bytes::new(prior),
            acked: Bytes::new(self.delivered - before),
            rate,
            rtt,
            is_app_limited: newest.is_some_and(|newest| newest.segment.is_app_limited),
            runs_dry: self.app_limited > 0,
            sent_in_flight: Bytes::new(newest.map_or(0, |newest| newest.segment.in_flight)),
            lost_since: Bytes::new(newest.map_or(0, |newest| self.lost - newest.segment.lost)),
            lost: Bytes::ZERO,
            lost_so_far: Bytes::ZERO,
            in_flight: Bytes::ZERO,
            prior_in_flight: Bytes::ZERO,
            una,
            sent: 0,
        }
    }

    /// Forgets segments before `end`, which will be neither delivered nor sent again.
    pub(crate) fn forget_before(&mut self, end: u64) {
        while self.segments.front().is_some_and(|first| first.end <= end) {
            self.segments.pop_front();
        }
    }

    fn deliver(&mut self, now: Time, index: usize, newest: &mut Option<Newest>) {
        let segment = &mut self.segments[index];
        if std::mem::replace(&mut segment.is_delivered, true) {
            return;
        }
        self.delivered += segment.end - segment.start;
        self.delivered_time = now;
        let is_newer = newest.is_none_or(|known| {
            (segment.delivered, segment.sent, segment.end)
                > (known.segment.delivered, known.segment.sent, known.segment.end)
        });
        if is_newer {
            *newest = Some(Newest { segment: *segment, send_elapsed: segment.sent.since(segment.first_sent) });
            self.first_sent = segment.sent;
        }
    }
}

fn rate_of(delivered: u64, interval: Duration) -> Rate {
    let bits = u128::from(delivered) * 8_000_000_000 / u128::from(interval.as_nanos());
    Rate::bit(u64::try_from(bits).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Time {
        Time::from_nanos(n * 1_000_000)
    }

    #[test]
    fn a_steady_stream_is_sampled_at_its_rate() {
        let mut rate = DeliveryRate::default();
        for n in 0..30 {
            if let Some(first) = u64::checked_sub(n, 10) {
                let sample = rate.on_ack(ms(10 * n), 1_001 + first * 1_000, &[], Some(Duration::from_millis(100)));
                assert_eq!((sample.acked, sample.delivered), (Bytes::new(1_000), Bytes::new(1_000 * (first + 1))));
                // What left before anything was delivered is measured from when the flight began.
                let delivered = sample.delivered.get() - sample.prior_delivered.get();
                let expected = if first < 10 { delivered * 8_000 / (100 + 10 * first) } else { 800_000 };
                assert_eq!(sample.rate, Some(Rate::bit(expected)), "segment {first}");
            }
            rate.on_sent(ms(10 * n), 1 + n * 1_000, 1_001 + n * 1_000, false, 0);
        }
    }

    #[test]
    fn acknowledgements_in_a_bunch_are_no_faster_than_what_was_sent() {
        let mut rate = DeliveryRate::default();
        for n in 0..20 {
            rate.on_sent(ms(10 * n), 1 + n * 1_000, 1_001 + n * 1_000, false, 0);
        }
        rate.on_ack(ms(100), 1_001, &[], Some(Duration::from_millis(100)));
        let sample = rate.on_ack(ms(291), 20_001, &[], Some(Duration::from_millis(101)));
        let limit = 8 * 19_000 * 1_000 / 190;
        assert!(sample.rate.expect("a sample").get() <= limit, "{sample:?}");
    }

    #[test]
    fn a_sack_delivers_once_and_a_later_acknowledgement_of_the_same_nothing() {
        let mut rate = DeliveryRate::default();
        for n in 0..3 {
            rate.on_sent(ms(n), 1 + n * 1_000, 1_001 + n * 1_000, false, 0);
        }
        let sample = rate.on_ack(ms(100), 1, &[(1_001, 3_001)], None);
        assert_eq!((sample.acked, sample.delivered), (Bytes::new(2_000), Bytes::new(2_000)));
        rate.on_sent(ms(101), 1, 1_001, true, 0);
        let sample = rate.on_ack(ms(200), 3_001, &[], None);
        assert_eq!((sample.acked, sample.delivered), (Bytes::new(1_000), Bytes::new(3_000)));
        assert_eq!(sample.prior_delivered, Bytes::new(2_000), "as of when it was sent again");
    }

    #[test]
    fn a_sender_without_data_marks_its_samples_until_all_is_delivered() {
        let mut rate = DeliveryRate::default();
        rate.on_sent(ms(0), 1, 1_001, false, 0);
        rate.on_app_limited(1_000);
        rate.on_sent(ms(10), 1_001, 2_001, false, 0);
        assert!(!rate.on_ack(ms(100), 1_001, &[], None).is_app_limited, "sent before");
        assert!(rate.on_ack(ms(110), 2_001, &[], None).is_app_limited);
        rate.on_sent(ms(120), 2_001, 3_001, false, 0);
        assert!(!rate.on_ack(ms(220), 3_001, &[], None).is_app_limited, "all that was out then has arrived");
    }

    #[test]
    fn what_takes_less_than_a_round_trip_gives_no_rate() {
        let mut rate = DeliveryRate::default();
        rate.on_sent(ms(0), 1, 1_001, false, 0);
        rate.on_ack(ms(100), 1_001, &[], Some(Duration::from_millis(100)));
        // Sent again before anything can have arrived, and then the path has become shorter.
        rate.on_sent(ms(1_000), 1_001, 2_001, false, 0);
        rate.on_sent(ms(1_050), 1_001, 2_001, true, 0);
        assert_eq!(rate.on_ack(ms(1_060), 2_001, &[], None).rate, None);
    }
}
