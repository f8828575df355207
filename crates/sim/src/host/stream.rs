//! Streams of datagrams: a source that sends packets at a rate, and a sink that counts what arrives.

use headend_engine::node::Port;
use headend_engine::packet::{Body, Class, DATAGRAM_HEADERS, Ecn, Endpoint, Packet};
use headend_engine::time::{Duration, Time};
use headend_engine::units::{Bytes, Rate};

use super::media::{Media, Role};

/// One end of a stream of datagrams, or of frames.
#[derive(Debug)]
pub(crate) enum Stream {
    Source(Source),
    Sink(Sink),
    Media(Box<Media>),
}

impl Stream {
    /// The time at which it has something to do; `Time::MAX` if it has not.
    pub(crate) fn next(&self) -> Time {
        match self {
            Stream::Source(source) => source.next(),
            Stream::Sink(_) => Time::MAX,
            Stream::Media(media) => media.wake,
        }
    }

    /// True for an end that sends what its application makes.
    pub(crate) fn is_source(&self) -> bool {
        match self {
            Stream::Source(_) => true,
            Stream::Sink(_) => false,
            Stream::Media(media) => matches!(media.role, Role::Source(_)),
        }
    }
}

/// The end that sends.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) peer: Endpoint,
    pub(crate) out: Port,
    pub(crate) start: Time,
    pub(crate) rate: Rate,
    pub(crate) packet: Bytes,
    /// The time for which it sends before each pause; `None` if it never pauses.
    pub(crate) on: Option<Duration>,
    pub(crate) off: Duration,
    /// The time at which the next packet leaves.
    next: Time,
    sent: u64,
}

/// The end that receives.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sink {
    pub(crate) packets: u64,
    pub(crate) bytes: Bytes,
}

impl Source {
    pub(crate) fn new(peer: Endpoint, out: Port, start: Time, rate: Rate, packet: Bytes) -> Source {
        Source { peer, out, start, rate, packet, on: None, off: Duration::ZERO, next: start, sent: 0 }
    }

    /// The same source, but sending only for `on` before each pause of `off`.
    pub(crate) fn pulsed(self, on: Option<Duration>, off: Duration) -> Source {
        Source { on, off, ..self }
    }

    /// The time at which the next packet leaves.
    pub(crate) fn next(&self) -> Time {
        self.next
    }

    /// Packets sent so far.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// The packet that is due, from the stream at `src`.
    pub(crate) fn send(&mut self, id: u64, src: Endpoint) -> Packet {
        self.sent += 1;
        self.next += self.rate.time_for(self.packet);
        if let Some(on) = self.on {
            let cycle = (on + self.off).as_nanos();
            let at = self.next.since(self.start).as_nanos();
            if at % cycle >= on.as_nanos() {
                self.next = self.start + Duration::from_nanos((at / cycle + 1) * cycle);
            }
        }
        let len = self.packet.get() as u32;
        Packet { id, src, dst: self.peer, len, class: Class::Unmarked, ecn: Ecn::NotEct, body: Body::Opaque }
    }
}

impl Sink {
    /// Bytes of data that arrived, without headers.
    pub(crate) fn payload(&self) -> Bytes {
        self.bytes.saturating_sub(Bytes::new(DATAGRAM_HEADERS * self.packets))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_leave_at_the_rate_and_only_while_it_is_on() {
        let end = Endpoint::default();
        let start = Time::ZERO + Duration::from_millis(3);
        let steady = Source::new(end, Port(0), start, Rate::mbit(8), Bytes::new(1_000));
        let mut pulsed = steady.pulsed(Some(Duration::from_millis(10)), Duration::from_millis(10));
        let mut times = Vec::new();
        while pulsed.next() < start + Duration::from_secs(1) {
            times.push(pulsed.next().since(start).as_nanos() / 1_000_000);
            assert_eq!(pulsed.send(0, end).len, 1_000);
        }
        assert_eq!(times.len(), 500, "half of a thousand milliseconds");
        assert!(times.iter().all(|ms| ms % 20 < 10));
    }
}
