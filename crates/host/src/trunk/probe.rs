//! A probe of the path to a peer: datagrams as sealed carriage has them, that nobody is sent.
//!
//! At first they are few, so that what is lost and how long a round trip takes is the path's own affair; then as many as the
//! circuit permits.

use headend_engine::circuit::turns::Waiting;
use headend_engine::time::{Duration, Time};

use super::bundle::Bundle;
use super::config::Config;
use super::peer::{Hold, Peer, To};
use super::sealed;
use super::store::Store;
use crate::offload::HEADER_BYTES;
use headend_datagram::Outbox;

/// The time between two datagrams while they are few.
const EVERY: Duration = Duration::from_millis(5);
/// Packets that always wait while there are as many as the circuit permits.
const BACKLOG: u64 = 512;
/// The name of all packets' flow.
const FLOW: u64 = 0;

/// Packets for the peers of a trunk that is only a probe.
#[derive(Debug)]
pub(super) struct Probe {
    store: Store,
    packet: Vec<u8>,
    /// The time for which datagrams are few.
    gentle: Duration,
    begun: Option<Time>,
    trickled: u64,
}

impl Probe {
    pub(super) fn new(config: &Config) -> Probe {
        let packet = vec![0x45; sealed::mtu(config) as usize];
        Probe { store: Store::default(), packet, gentle: config.gentle, begun: None, trickled: 0 }
    }

    /// Lets packets leave, as far as they may now. Nothing more may before the time that it returns.
    pub(super) fn release(&mut self, peer: &mut Peer, now: Time, outbox: &mut Outbox) -> Option<Time> {
        if !matches!(peer.to, To::Circuit(_)) {
            self.begun = None;
            return None;
        }
        let begun = *self.begun.get_or_insert(now);
        let wanted = if now.since(begun) < self.gentle {
            let due = now.since(begun).as_nanos() / EVERY.as_nanos();
            let wanted = due.saturating_sub(self.trickled);
            self.trickled = due;
            wanted
        } else {
            BACKLOG.saturating_sub(peer.edge.counters().map(|class| class.waiting).sum())
        };
        for _ in 0..wanted {
            let bundle = Bundle::read(&[0; HEADER_BYTES], self.packet.clone()).expect("it looks like a packet of IP");
            let len = bundle.len_of(0) as u32;
            let id = self.store.insert(bundle);
            if let Some(victim) = peer.edge.push(0, Waiting { id, flow: FLOW, len }) {
                self.store.remove(victim.id);
            }
        }
        let may = peer.release(now, &mut Hold::Here(&mut self.store), outbox);
        headend_engine::time::earlier(may, Some(now + EVERY))
    }
}
