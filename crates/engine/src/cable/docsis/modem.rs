//! A modem's upstream half: what waits, what it has asked for, and its back-off.

use std::collections::VecDeque;

use super::books::Books;
use super::config::{self, REQUEST_SLOTS_MAX, RETRIES_MAX};
use super::frame::{self, FRAGMENT, MAC_HEADER};
use super::shaper::Bucket;
use crate::packet::Packet;
use crate::rng::Rng;
use crate::room;
use crate::time::Time;
use crate::units::Bytes;

/// The request that the headend has of a modem. There is one request at a time for a service flow (RFIv1.1, "Requests").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestState {
    /// The modem asks for nothing, for nothing waits.
    Silent,
    /// The modem waits for a request opportunity, or to hear that its request collided.
    Contends,
    /// The headend has its request for so many packets.
    Asked(usize),
}

/// The size of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ask {
    pub(super) packets: usize,
    /// MAC bytes of all packets asked for.
    pub(super) bytes: u64,
    /// Ethernet bytes: what rates are counted in.
    pub(super) rated: u64,
}

#[derive(Debug)]
pub(super) struct UpstreamModem {
    pub(super) spec: config::Modem,
    pub(super) state: RequestState,
    pub(super) queue: VecDeque<(Time, Packet)>,
    queued_bytes: u64,
    /// Packets in the air: sent, and not whole at the headend.
    air: VecDeque<(Time, Packet)>,
    pub(super) bucket: Option<Bucket>,
    /// The time at which the MAP was made that granted it last.
    pub(super) granted_at: Option<Time>,
    pub(super) books: Books,
    rng: Rng,
    /// Requests lost in a row for what it asks now.
    lost: u32,
}

impl UpstreamModem {
    pub(super) fn new(spec: config::Modem, rng: Rng) -> UpstreamModem {
        UpstreamModem {
            state: RequestState::Silent,
            queue: VecDeque::new(),
            queued_bytes: 0,
            air: VecDeque::new(),
            bucket: spec.up.map(Bucket::new),
            granted_at: None,
            books: Books::default(),
            rng,
            lost: 0,
            spec,
        }
    }

    /// Takes a packet from the subscriber, or drops it.
    pub(super) fn takes(&mut self, now: Time, packet: &Packet) -> bool {
        self.books.arrives(now, packet);
        let bytes = self.queued_bytes + u64::from(packet.len);
        let fits = Bytes::new(bytes) <= self.spec.up_buffer;
        if fits {
            self.queued_bytes = bytes;
            room::for_one_more(&mut self.queue);
            self.queue.push_back((now, *packet));
        } else {
            self.books.drops(now, now, packet);
        }
        fits
    }

    /// The request that it would make for what waits behind the first `skip` packets: as many whole packets as fit, and one in any
    /// case.
    pub(super) fn ask(&self, skip: usize, channel: &config::Channel) -> Ask {
        let mut ask = Ask { packets: 0, bytes: 0, rated: 0 };
        for (_, packet) in self.queue.iter().skip(skip) {
            let bytes = ask.bytes + frame::upstream(packet, self.spec.piggyback);
            // Two packets make a concatenation, which has a header of its own.
            let whole = bytes + if ask.packets > 0 { MAC_HEADER } else { 0 };
            let fits = if self.spec.fragmentation {
                fragmented_slots(channel, whole, self.spec.burst_max) <= REQUEST_SLOTS_MAX
            } else {
                Bytes::new(whole) <= self.spec.burst_max && channel.burst_slots(whole) <= REQUEST_SLOTS_MAX
            };
            if ask.packets > 0 && !(fits && self.spec.concatenation) {
                break;
            }
            ask = Ask { packets: ask.packets + 1, bytes, rated: ask.rated + frame::ethernet(packet) };
        }
        if ask.packets > 1 {
            ask.bytes += MAC_HEADER;
        }
        ask
    }

    /// The time at which the entry of its calendar begins in which it may be granted next.
    pub(super) fn next_entry(&self) -> Time {
        let entry = self.spec.grant_calendar.as_nanos();
        match self.granted_at {
            Some(granted) if entry > 0 => Time::from_nanos((granted.as_nanos() / entry + 1) * entry),
            _ => Time::ZERO,
        }
    }

    /// The first `packets` leave as one burst.
    pub(super) fn transmits(&mut self, packets: usize) {
        for (entered, packet) in self.queue.drain(..packets) {
            self.queued_bytes -= u64::from(packet.len);
            self.air.push_back((entered, packet));
        }
        self.lost = 0;
    }

    /// The next packet of a burst that has arrived.
    pub(super) fn arrived(&mut self, now: Time) -> Packet {
        let (entered, packet) = self.air.pop_front().expect("a burst arrives that was sent");
        self.books.delivers(now, entered, &packet);
        packet
    }

    /// The number of request opportunities that it lets pass: uniform in its window, which doubles with every request lost, up to
    /// the end of the range (RFIv1.1, "Contention Resolution Overview").
    pub(super) fn back_off(&mut self, channel: &config::Channel) -> u64 {
        let exponent = (channel.backoff_start + self.lost).min(channel.backoff_end);
        if exponent == 0 { 0 } else { self.rng.below(1 << exponent) }
    }

    /// Notes that the modem's request collided, and that it has heard so. After too many, what it asked for is discarded.
    pub(super) fn lost_request(&mut self, now: Time, channel: &config::Channel) {
        self.lost += 1;
        if self.lost > RETRIES_MAX {
            self.lost = 0;
            for _ in 0..self.ask(0, channel).packets {
                let (entered, packet) = self.queue.pop_front().expect("what it asked for waits");
                self.queued_bytes -= u64::from(packet.len);
                self.books.drops(now, entered, &packet);
            }
        }
    }
}

/// MAC bytes of each burst in which `bytes` are sent, if a burst has at most `burst_max`: one as it is, or fragments.
pub(super) fn pieces(bytes: u64, burst_max: Bytes) -> impl Iterator<Item = u64> {
    let is_whole = Bytes::new(bytes) <= burst_max;
    let room = if is_whole { bytes.max(1) } else { burst_max.get().saturating_sub(FRAGMENT).max(1) };
    let overhead = if is_whole { 0 } else { FRAGMENT };
    (0..bytes.div_ceil(room)).map(move |piece| (bytes - piece * room).min(room) + overhead)
}

fn fragmented_slots(channel: &config::Channel, bytes: u64, burst_max: Bytes) -> u64 {
    pieces(bytes, burst_max).map(|piece| channel.burst_slots(piece)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragments_carry_all_bytes_and_each_its_own_header() {
        let max = Bytes::new(1_600);
        assert_eq!(pieces(1_600, max).collect::<Vec<_>>(), [1_600]);
        // 1584 bytes of data each, and the rest.
        assert_eq!(pieces(3_200, max).collect::<Vec<_>>(), [1_600, 1_600, 32 + 16]);
    }
}
