//! Chooses the packets that a trunk drops when it cannot send as fast as its users (thesis s3.6, principles P1 to P3).

use std::collections::BTreeMap;

use crate::packet::{Endpoint, Packet};
use crate::time::{Duration, Time};
use crate::units::{Bytes, Rate};

/// The least K, whatever its formula says: as many later packets as fast retransmit needs to see a loss (RFC 5681: three
/// duplicate ACKs), for "the threshold K should not be too small".
const EXEMPT_MIN: u64 = 3;

/// The least window of a flow, in packets, with which it is told: "the dropping policy should allow" fast retransmit "to work for all
/// flows whose packets are selected", and that needs three packets behind the lost one (RFC 5681 s3.2).
const WINDOW_MIN: u64 = EXEMPT_MIN + 1;

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

/// K: packets of a flow that pass after one was dropped, so many hundredths of the U = (3/8) w^2 that it sends until it is as
/// fast as it was, with w = `window` / `flows`, the window of each user flow if the trunk's is shared evenly.
pub fn exempt_packets(window: u64, flows: u64, percent: u64) -> u64 {
    let flows = u128::from(flows.max(1));
    let packets = 3 * u128::from(window) * u128::from(window) * u128::from(percent) / (800 * flows * flows);
    u64::try_from(packets).unwrap_or(u64::MAX).max(EXEMPT_MIN)
}

/// The state of the trunk when its control TCP found a loss.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shrinking {
    pub(crate) now: Time,
    /// The windows of the control TCPs before, in packets of a VMSS.
    pub(crate) window: u64,
    /// The number of control TCPs, of which one halves its window.
    pub(crate) controls: u64,
}

/// Drops a packet of each active flow for each time that the trunk halves its rate (P3), when more waits than usual (P2), and no
/// second one of a flow before it has recovered from the first.
///
/// No flow is told while they are so many that each has a window too small for fast retransmit.
///
/// Section 3.6 supposes a single control TCP. Of n, each halves a share of the trunk's window, and all flows together are to
/// lose the same share of theirs: so a loss of one of them tells one flow in n, those first that were told longest ago.
#[derive(Debug)]
pub struct Fair {
    /// Packets that may wait while no flow is told (P2).
    threshold: u64,
    /// A flow that has sent nothing for so long is not active.
    idle: Duration,
    /// K in hundredths of U.
    percent: u64,
    flows: BTreeMap<(Endpoint, Endpoint), Flow>,
    /// The number of flows from which on those to forget are looked for.
    flows_max: usize,
    /// K: packets of a flow that pass after one was dropped.
    exempt: u64,
    /// Flows that are still to be told of losses so far, in parts of one: as many as there are control TCPs.
    untold: u64,
}

#[derive(Clone, Copy, Debug)]
struct Flow {
    seen: Time,
    /// Packets that pass before one may be dropped again.
    exempt: u64,
    /// The flow is to be told that the trunk shrank.
    is_due: bool,
    told: Option<Time>,
}

impl Fair {
    /// Drops a packet of a flow that is to be told once `threshold` packets wait; a flow is active until it has sent nothing
    /// for `rtt_upper`, the longest round trip of users. K is `percent` hundredths of what a flow sends until it is as fast as
    /// before; the thesis takes 50.
    pub fn new(threshold: u64, rtt_upper: Duration, percent: u64) -> Fair {
        Fair {
            threshold,
            idle: rtt_upper,
            percent,
            flows: BTreeMap::new(),
            flows_max: FLOWS_MIN,
            exempt: EXEMPT_MIN,
            untold: 0,
        }
    }

    pub(crate) fn trunk_shrank(&mut self, Shrinking { now, window, controls }: Shrinking) {
        let idle = self.idle;
        self.forget(now);
        let mut active: Vec<_> = self.flows.values_mut().filter(|flow| now.since(flow.seen) <= idle).collect();
        self.exempt = exempt_packets(window, active.len() as u64, self.percent);
        if window < WINDOW_MIN * active.len() as u64 {
            return;
        }
        self.untold += active.len() as u64;
        let tell = self.untold / controls;
        self.untold %= controls;
        // Those that were told longest ago come first, and keep their order among themselves.
        active.retain(|flow| flow.exempt == 0 && !flow.is_due);
        active.sort_by_key(|flow| flow.told);
        for flow in active.into_iter().take(usize::try_from(tell).unwrap_or(usize::MAX)) {
            flow.is_due = true;
        }
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
        let unknown = Flow { seen: now, exempt: 0, is_due: false, told: None };
        let flow = self.flows.entry((packet.src, packet.dst)).or_insert(unknown);
        flow.seen = now;
        if flow.exempt > 0 && has_room {
            flow.exempt -= 1;
            return true;
        }
        let is_told = flow.is_due && waiting >= self.threshold;
        let dropped = is_told || !has_room;
        if dropped {
            *flow = Flow { seen: now, exempt: self.exempt, is_due: false, told: Some(now) };
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
    use crate::packet::{Body, Class, Ecn};

    fn packet(flow: u16) -> Packet {
        let (src, dst) = (Endpoint { node: 0, port: flow }, Endpoint { node: 1, port: flow });
        Packet { id: 0, src, dst, len: 1_500, class: Class::Unmarked, ecn: Ecn::NotEct, body: Body::Opaque }
    }

    fn fair() -> Fair {
        Fair::new(10, Duration::from_millis(200), 50)
    }

    fn shrank(now: Time, window: u64, controls: u64) -> Shrinking {
        Shrinking { now, window, controls }
    }

    /// The flows of these of which a packet is dropped while 50 wait.
    fn told(fair: &mut Fair, flows: std::ops::Range<u16>) -> Vec<u16> {
        flows.filter(|&flow| !fair.admits(Time::ZERO, &packet(flow), 50, true)).collect()
    }

    #[test]
    fn the_buffer_holds_what_a_halved_trunk_has_too_much() {
        assert_eq!(required_room(Duration::from_millis(100), Rate::mbit(10)), Bytes::new(62_500));
    }

    #[test]
    fn k_is_half_of_what_a_flow_sends_until_it_is_as_fast_as_before() {
        // Ten flows in a window of 160: 16 packets each, and 3/8 16^2 / 2 = 48.
        assert_eq!(exempt_packets(160, 10, 50), 48);
        assert_eq!(exempt_packets(160, 10, 100), 96);
        assert_eq!(exempt_packets(2, 10, 50), EXEMPT_MIN);
    }

    #[test]
    fn nothing_is_dropped_that_has_room_while_the_trunk_does_not_shrink() {
        let mut fair = fair();
        assert!((0..1_000).all(|_| fair.admits(Time::ZERO, &packet(1), 99, true)));
        assert!(!fair.admits(Time::ZERO, &packet(1), 100, false));
    }

    #[test]
    fn each_active_flow_is_told_once_when_the_trunk_shrinks_and_much_waits() {
        let mut fair = fair();
        assert_eq!(told(&mut fair, 0..4), []);
        fair.trunk_shrank(shrank(Time::ZERO, 64, 1));
        assert!((0..4).all(|flow| fair.admits(Time::ZERO, &packet(flow), 9, true)), "below the threshold");
        assert_eq!(told(&mut fair, 0..5), [0, 1, 2, 3], "and not one that has come since");
        assert_eq!(told(&mut fair, 0..5), []);
    }

    #[test]
    fn of_several_control_tcps_each_tells_its_share_of_the_flows_in_turn() {
        let mut fair = fair();
        told(&mut fair, 0..6);
        for expected in [&[0][..], &[1, 2], &[3], &[4, 5]] {
            fair.trunk_shrank(shrank(Time::ZERO, 32, 4));
            assert_eq!(told(&mut fair, 0..6), expected);
        }
    }

    #[test]
    fn flows_with_windows_too_small_for_fast_retransmit_are_not_told() {
        let mut fair = fair();
        told(&mut fair, 0..6);
        fair.trunk_shrank(shrank(Time::ZERO, 23, 1));
        assert_eq!(told(&mut fair, 0..6), []);
    }

    #[test]
    fn after_a_drop_a_flow_is_spared_for_k_packets_and_others_are_not() {
        let mut fair = fair();
        told(&mut fair, 0..4);
        fair.trunk_shrank(shrank(Time::ZERO, 64, 1));
        assert_eq!(fair.exempt(), 48, "four flows are active");
        assert!(!fair.admits(Time::ZERO, &packet(1), 99, true));
        fair.trunk_shrank(shrank(Time::ZERO, 64, 1));
        assert!((0..48).all(|_| fair.admits(Time::ZERO, &packet(1), 99, true)));
        assert!(fair.admits(Time::ZERO, &packet(1), 99, true), "it was not to be told again so soon");
        fair.trunk_shrank(shrank(Time::ZERO, 64, 1));
        assert!(!fair.admits(Time::ZERO, &packet(1), 99, true));
        assert!(!fair.admits(Time::ZERO, &packet(2), 99, true));
        assert!(!fair.admits(Time::ZERO, &packet(1), 100, false), "a full buffer spares nobody");
    }

    #[test]
    fn flows_that_are_gone_are_forgotten_dropped_packets_or_not() {
        let mut fair = fair();
        // A new flow each millisecond, each second one of which loses a packet and never comes back.
        for ms in 0..200_000_u64 {
            let now = Time::ZERO + Duration::from_millis(ms);
            let (src, dst) = (Endpoint { node: (ms >> 16) as u16, port: ms as u16 }, Endpoint { node: 9, port: 80 });
            fair.admits(now, &Packet { src, dst, ..packet(0) }, 100, ms % 2 == 1);
        }
        // Half of those of 64 s, and all of the last 200 ms; at most twice as many before somebody looks.
        assert!(fair.flows.len() <= 2 * 32_300, "{} flows are remembered", fair.flows.len());
        fair.trunk_shrank(shrank(Time::ZERO + Duration::from_secs(300), 64, 1));
        assert_eq!(fair.flows.len(), 0);
    }

    #[test]
    fn a_flow_silent_during_its_time_out_is_spared_when_it_comes_back() {
        let mut fair = fair();
        assert!(!fair.admits(Time::ZERO, &packet(1), 100, false));
        let later = Time::ZERO + Duration::from_secs(30);
        fair.trunk_shrank(shrank(later, 16, 1));
        assert_eq!(fair.flows.values().next().map(|flow| flow.exempt), Some(EXEMPT_MIN));
        assert!((0..=EXEMPT_MIN).all(|_| fair.admits(later, &packet(1), 99, true)));
    }

    #[test]
    fn a_flow_that_has_long_been_silent_does_not_count() {
        let mut fair = fair();
        fair.admits(Time::ZERO, &packet(1), 0, true);
        let later = Time::ZERO + Duration::from_secs(1);
        fair.admits(later, &packet(2), 0, true);
        fair.trunk_shrank(shrank(later, 16, 1));
        assert_eq!(fair.exempt(), 48);
    }
}
