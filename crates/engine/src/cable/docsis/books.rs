//! The counts of one direction of a modem.

use crate::link::Stats;
use crate::packet::{Discard, Packet};
use crate::time::{Duration, Time};
use crate::units::Bytes;

/// The books of one direction: a packet is inside from its arrival until it is delivered at the far end.
#[derive(Clone, Debug, Default)]
pub(super) struct Books {
    stats: Stats,
    since: Time,
    bytes: u64,
    /// The times at which those inside arrived, summed: Little's law is checked with it.
    entered_ns: u128,
    pub(super) discards: Option<Vec<Discard>>,
}

impl Books {
    fn account(&mut self, now: Time) {
        self.stats.occupancy += u128::from(self.stats.inside) * u128::from(now.since(self.since).as_nanos());
        self.since = now;
    }

    pub(super) fn arrives(&mut self, now: Time, packet: &Packet) {
        self.account(now);
        self.stats.arrived += 1;
        self.stats.arrived_bytes += u64::from(packet.len);
        self.stats.inside += 1;
        self.bytes += u64::from(packet.len);
        self.entered_ns += u128::from(now.as_nanos());
        self.stats.queued_max = self.stats.queued_max.max(self.stats.inside);
        self.stats.queued_bytes_max = self.stats.queued_bytes_max.max(self.bytes);
    }

    fn leaves(&mut self, now: Time, entered: Time, packet: &Packet) {
        self.account(now);
        self.stats.inside -= 1;
        self.bytes -= u64::from(packet.len);
        self.entered_ns -= u128::from(entered.as_nanos());
        self.stats.sojourn += u128::from((now - entered).as_nanos());
    }

    pub(super) fn delivers(&mut self, now: Time, entered: Time, packet: &Packet) {
        self.leaves(now, entered, packet);
        self.stats.served += 1;
        self.stats.delivered += 1;
        self.stats.delivered_bytes += u64::from(packet.len);
    }

    pub(super) fn drops(&mut self, now: Time, entered: Time, packet: &Packet) {
        self.leaves(now, entered, packet);
        self.stats.dropped += 1;
        self.stats.dropped_bytes += u64::from(packet.len);
        if let Some(discards) = &mut self.discards {
            discards.push(Discard { time: now, lost: false, packet: *packet });
        }
    }

    pub(super) fn busy(&mut self, span: Duration) {
        self.stats.busy += span;
    }

    pub(super) fn stats(&self) -> Stats {
        self.stats.clone()
    }

    pub(super) fn backlog(&self) -> (u64, Bytes) {
        (self.stats.inside, Bytes::new(self.bytes))
    }

    /// Checks the books at the end of a run and returns the counters.
    pub(super) fn close(&mut self, now: Time) -> Stats {
        self.account(now);
        let stats = &self.stats;
        assert_eq!(
            stats.arrived,
            stats.delivered + stats.dropped + stats.inside,
            "every packet that came to a modem was delivered or dropped, or is inside: {stats:?}"
        );
        let under_way = u128::from(stats.inside) * u128::from(now.as_nanos()) - self.entered_ns;
        assert_eq!(
            stats.occupancy,
            stats.sojourn + under_way,
            "Little's law: occupancy over time is the sum of sojourns: {stats:?}"
        );
        stats.clone()
    }
}
