//! Chooses the packets that a trunk drops when it cannot send as fast as its users (thesis s3.6, principles P1 to P3).

use std::collections::BTreeMap;

use crate::link::queue::red::Law;
use crate::link::queue::red::Thresholds;
use crate::packet::{Endpoint, Packet};
use crate::rng::Rng;
use crate::time::{Duration, Time};
use crate::units::{Bytes, Chance, Rate};

/// The least K, whatever its formula says: as many later packets as fast retransmit needs to see a loss (RFC 5681: three
/// duplicate ACKs), for "the threshold K should not be too small".
const EXEMPT_MIN: u64 = 3;

/// The silence after which any flow is forgotten; one without exemption is forgotten as soon as it is not active. It is longer
/// than any sender waits for a time-out before it sends again (RFC 6298 s2.5: 60 s at least).
const FORGOTTEN: Duration = Duration::from_secs(64);
/// The number of flows below which nobody looks for those to forget.
const FLOWS_MIN: usize = 64;

/// P1: bytes that a trunk's buffer needs, RTTup TrunkBW / 2: what is in the network when the trunk halves its rate.
pub fn required_room(rtt_upper: Duration, trunk: Rate) -> Bytes {
    let bits = u128::from(trunk.get()) * u128::from(rtt_upper.as_nanos()) / 1_000_000_000;
    Bytes::new(u64::try_from(bits / 16).unwrap_or(u64::MAX))
}

/// K: packets of a flow that pass after one was dropped, half of those that it sends until it is as fast as it was:
/// (3/8) w^2 / 2 with w = `window` / `flows`, the window of each user flow if the trunk's is shared evenly.
pub fn exempt_packets(window: u64, flows: u64) -> u64 {
    let flows = u128::from(flows.max(1));
    let packets = 3 * u128::from(window) * u128::from(window) / (16 * flows * flows);
    u64::try_from(packets).unwrap_or(u64::MAX).max(EXEMPT_MIN)
}

/// The state of the trunk when its control TCP found a loss.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shrinking {
    pub(crate) now: Time,
    /// The control TCP's window at that time, in packets of a VMSS.
    pub(crate) window: u64,
}

/// Drops early (P2), and no second packet of a flow before it has recovered from the first (P3).
#[derive(Debug)]
pub struct Fair {
    law: Law,
    /// A flow that has sent nothing for so long is not active.
    idle: Duration,
    flows: BTreeMap<(Endpoint, Endpoint), Flow>,
    /// The number of flows from which on those to forget are looked for.
    flows_max: usize,
    /// K: packets of a flow that pass after one was dropped.
    exempt: u64,
}

#[derive(Clone, Copy, Debug)]
struct Flow {
    seen: Time,
    /// Packets that pass before one may be dropped again.
    exempt: u64,
}

impl Fair {
    /// Drops by chance from `threshold` waiting packets on, more and more up to all at `most`; a flow is active until it has
    /// sent nothing for `rtt_upper`, the longest round trip of users.
    ///
    /// # Panics
    /// If `threshold` is not below `most`.
    pub fn new(threshold: u64, most: u64, rtt_upper: Duration, rng: Rng) -> Fair {
        assert!(threshold < most, "drops begin before the buffer is full: {threshold} of {most}");
        let thresholds = Thresholds {
            min: threshold,
            max: most,
            max_chance: Chance::ALWAYS,
            weight_bits: 0,
            departure: Duration::from_millis(1),
        };
        Fair {
            law: Law::new(thresholds, rng),
            idle: rtt_upper,
            flows: BTreeMap::new(),
            flows_max: FLOWS_MIN,
            exempt: EXEMPT_MIN,
        }
    }

    pub(crate) fn trunk_shrank(&mut self, Shrinking { now, window }: Shrinking) {
        let idle = self.idle;
        self.forget(now);
        let active = self.flows.values().filter(|flow| now.since(flow.seen) <= idle).count();
        self.exempt = exempt_packets(window, active as u64);
    }

    /// Drops the records of flows that are gone, so that they never number more than twice those that are not.
    fn forget(&mut self, now: Time) {
        let idle = self.idle;
        self.flows.retain(|_, flow| {
            let silent = now.since(flow.seen);
            silent <= idle || flow.exempt > 0 && silent <= FORGOTTEN
        });
        self.flows_max = FLOWS_MIN.max(2 * self.flows.len());
    }

    /// True if this packet may wait, where `waiting` packets do already and there is room or not; counts it for its flow.
    pub(crate) fn admits(&mut self, now: Time, packet: &Packet, waiting: u64, has_room: bool) -> bool {
        if self.flows.len() >= self.flows_max {
            self.forget(now);
        }
        let flow = self.flows.entry((packet.src, packet.dst)).or_insert(Flow { seen: now, exempt: 0 });
        flow.seen = now;
        if flow.exempt > 0 && has_room {
            flow.exempt -= 1;
            return true;
        }
        let dropped = self.law.strikes(now, waiting) || !has_room;
        if dropped {
            flow.exempt = self.exempt;
        }
        !dropped
    }

    /// The present K.
    pub fn exempt(&self) -> u64 {
        self.exempt
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Body, Class};

    fn packet(flow: u16) -> Packet {
        let (src, dst) = (Endpoint { node: 0, port: flow }, Endpoint { node: 1, port: flow });
        Packet { id: 0, src, dst, len: 1_500, class: Class::Unmarked, body: Body::Opaque }
    }

    fn fair() -> Fair {
        Fair::new(10, 100, Duration::from_millis(200), Rng::named(1, "trunk"))
    }

    #[test]
    fn the_buffer_holds_what_a_halved_trunk_has_too_much() {
        assert_eq!(required_room(Duration::from_millis(100), Rate::mbit(10)), Bytes::new(62_500));
    }

    #[test]
    fn k_is_half_of_what_a_flow_sends_until_it_is_as_fast_as_before() {
        // Ten flows in a window of 160: 16 packets each, and 3/8 16^2 / 2 = 48.
        assert_eq!(exempt_packets(160, 10), 48);
        assert_eq!(exempt_packets(2, 10), EXEMPT_MIN);
    }

    #[test]
    fn below_the_threshold_nothing_is_dropped() {
        let mut fair = fair();
        assert!((0..1_000).all(|_| fair.admits(Time::ZERO, &packet(1), 9, true)));
    }

    #[test]
    fn after_a_drop_a_flow_is_spared_for_k_packets_and_others_are_not() {
        let mut fair = fair();
        for flow in 0..4 {
            assert!(fair.admits(Time::ZERO, &packet(flow), 0, true));
        }
        fair.trunk_shrank(Shrinking { now: Time::ZERO, window: 64 });
        assert_eq!(fair.exempt(), 48, "four flows are active");
        assert!(!fair.admits(Time::ZERO, &packet(1), 100, true));
        assert!((0..48).all(|_| fair.admits(Time::ZERO, &packet(1), 99, true)));
        assert!(!fair.admits(Time::ZERO, &packet(1), 100, true));
        assert!(!fair.admits(Time::ZERO, &packet(2), 100, true));
        assert!(!fair.admits(Time::ZERO, &packet(1), 100, false), "a full buffer spares nobody");
    }

    #[test]
    fn flows_that_are_gone_are_forgotten_dropped_packets_or_not() {
        let mut fair = fair();
        // A new flow each millisecond, each second one of which loses a packet and never comes back.
        for ms in 0..200_000_u64 {
            let now = Time::ZERO + Duration::from_millis(ms);
            let (src, dst) = (Endpoint { node: (ms >> 16) as u16, port: ms as u16 }, Endpoint { node: 9, port: 80 });
            fair.admits(now, &Packet { src, dst, ..packet(0) }, if ms % 2 == 0 { 100 } else { 0 }, true);
        }
        // Half of those of 64 s, and all of the last 200 ms; at most twice as many before somebody looks.
        assert!(fair.flows.len() <= 2 * 32_300, "{} flows are remembered", fair.flows.len());
        fair.trunk_shrank(Shrinking { now: Time::ZERO + Duration::from_secs(300), window: 64 });
        assert_eq!(fair.flows.len(), 0);
    }

    #[test]
    fn a_flow_silent_during_its_time_out_is_spared_when_it_comes_back() {
        let mut fair = fair();
        assert!(!fair.admits(Time::ZERO, &packet(1), 100, true));
        let later = Time::ZERO + Duration::from_secs(30);
        fair.trunk_shrank(Shrinking { now: later, window: 16 });
        assert!((0..EXEMPT_MIN).all(|_| fair.admits(later, &packet(1), 99, true)));
        assert!(!fair.admits(later, &packet(1), 100, true));
    }

    #[test]
    fn a_flow_that_has_long_been_silent_does_not_count() {
        let mut fair = fair();
        fair.admits(Time::ZERO, &packet(1), 0, true);
        let later = Time::ZERO + Duration::from_secs(1);
        fair.admits(later, &packet(2), 0, true);
        fair.trunk_shrank(Shrinking { now: later, window: 16 });
        assert_eq!(fair.exempt(), 48);
    }
}
