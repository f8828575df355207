//! Data over one connection from end to end, or over two through a proxy.

use headend_engine::circuit::Sender;
use headend_engine::packet::Endpoint;
use headend_engine::tcp::connection::Fault;
use headend_engine::time::Time;
use headend_engine::units::Bytes;

use super::connection::{Joint, Legs, Opening, Plan, Plans, answer, conserve_bytes};
use super::{Instance, Running, Site};
use crate::host::{Closing, End};
use crate::traffic::Application;
use crate::world::World;
use headend_scenario::results::FlowRow;
use headend_scenario::{Opening as Opens, Talk, Transfer};

#[derive(Debug)]
struct Transferring {
    /// Bytes to transfer; `None` for a flow without end.
    bytes: Option<Bytes>,
    /// Bytes that arrive at the receiver before those of the file: a response header.
    header: Bytes,
    /// Initial sequence numbers of the two ends.
    isn: [u32; 2],
    /// The proxy's ends between them, if there is one.
    split: Option<Between>,
}

/// A proxy's two ends of a flow: the one that faces the sender of the data, and the one that faces its receiver.
#[derive(Clone, Copy, Debug)]
struct Between {
    at: [Endpoint; 2],
    isn: [u32; 2],
}

pub(super) fn build(site: &mut Site<'_>, transfer: &Transfer) -> Instance {
    let joint = Joint::new(site, transfer.socket());
    let mss = joint.mss();
    let asked = site.drawn.bytes;
    let bytes = match asked {
        None => Bytes::MAX,
        Some(bytes) if transfer.whole_segments() => Bytes::new(bytes.get().div_ceil(mss) * mss),
        Some(bytes) => bytes,
    };
    let split = joint.split.as_ref().map(|split| Between { at: split.at, isn: split.isn });
    let running = Transferring { bytes: asked, header: transfer.talk.header(), isn: joint.isn, split };
    let start = joint.start;
    let at = joint.put(site, plans(&transfer.talk, bytes), |_, _, _, _| None);
    site.instance(start, at, Box::new(running))
}

/// The plans of both ends for a transfer of `bytes`; `Bytes::MAX` has no end.
fn plans(talk: &Talk, bytes: Bytes) -> Plans {
    let opening = match *talk {
        Talk::Push { opening, .. } => opening,
        Talk::Answer { request, header, header_apart } => return answer(request, header, header_apart, bytes),
    };
    let [sender, receiver] = match opening {
        Opens::Beforehand => [(Opening::Beforehand, Closing::Never), (Opening::Beforehand, Closing::Never)],
        Opens::BySender => [(Opening::Active, Closing::AfterWriting), (Opening::Passive, Closing::AfterPeer)],
    };
    let source = Application::Source { left: bytes };
    [
        Plan { opening: sender.0, application: source, expected: Bytes::ZERO, closing: sender.1 },
        Plan { opening: receiver.0, application: Application::Sink, expected: bytes, closing: receiver.1 },
    ]
}

impl Running for Transferring {
    fn rows(&self, world: &World, instance: &Instance, end: Time) -> Vec<FlowRow> {
        let (sender, receiver) = (world.end(instance.sender), world.end(instance.receiver));
        let split = self.split.map(|split| legs(world, split));
        conserve_bytes(instance, sender, receiver, split.as_ref());
        let since_start = |at: Time| at.since(instance.start).as_nanos();
        let failed = [sender, receiver].into_iter().filter_map(|end| end.record.failed).min();
        let delivered = receiver.record.read.saturating_sub(self.header).min(self.bytes.unwrap_or(Bytes::MAX));
        let transferred = receiver.record.all_read;
        let mut counters = sender.connection().counters();
        let mut spurious = receiver.connection().duplicates_received();
        if let Some(Legs { legs: [faces_from, faces_to], .. }) = &split {
            // The data are sent twice, and both senders' work counts.
            let onward = faces_to.connection.counters();
            counters.timeouts += onward.timeouts;
            counters.fast_retransmits += onward.fast_retransmits;
            counters.segments += onward.segments;
            counters.retransmits += onward.retransmits;
            spurious += faces_from.connection.duplicates_received();
        }
        vec![FlowRow {
            flow: instance.flow.clone(),
            instance: u64::from(instance.instance),
            bytes: self.bytes.unwrap_or(delivered).get(),
            start_ns: instance.start.as_nanos(),
            transfer_ns: transferred.map(since_start),
            acked_ns: sender.record.all_acked.map(since_start),
            active_ns: since_start(transferred.or(failed).unwrap_or(end)),
            delivered_bytes: delivered.get(),
            wire_bytes: receiver.record.wire.get(),
            timeouts: counters.timeouts,
            fast_retransmits: counters.fast_retransmits,
            segments_sent: counters.segments,
            retransmits: counters.retransmits,
            spurious,
            rtt_ns: sender.record.rtt.summary().map(|rtt| rtt.map(|rtt| rtt.as_nanos())),
            cwnd_max_bytes: sender.record.cwnd_max.get(),
            fault: fault(sender).or(fault(receiver)).unwrap_or_default().into(),
        }]
    }

    fn arrived_bytes(&self, world: &World, instance: &Instance) -> u64 {
        world.end(instance.receiver).record.wire.get()
    }

    fn connections(&self, instance: &Instance) -> Vec<[(Endpoint, u32); 2]> {
        let [from, to] = [(instance.sender, self.isn[0]), (instance.receiver, self.isn[1])];
        match self.split {
            None => vec![[from, to]],
            Some(Between { at, isn }) => vec![[from, (at[0], isn[0])], [(at[1], isn[1]), to]],
        }
    }

    fn has_series(&self) -> bool {
        true
    }

    fn circuit<'w>(&self, world: &'w World, instance: &Instance) -> Option<&'w Sender> {
        world.end(instance.sender).gated()?.gate.sends()
    }
}

/// The two connections of a proxy that split a flow.
fn legs(world: &World, split: Between) -> Legs<'_> {
    let proxy = world.proxy(split.at[0].node);
    let sides = split.at.map(|at| (proxy.pair(at), proxy.side_of(at)));
    Legs { legs: sides.map(|(pair, side)| pair.leg(side)), held: sides.map(|(pair, side)| pair.held(side)) }
}

fn fault(end: &End) -> Option<&'static str> {
    Some(match end.connection().fault()? {
        Fault::Reset => "reset by the peer",
        Fault::Refused => "refused by the peer",
        Fault::TimedOut => "timed out",
        Fault::Aborted => "aborted",
    })
}
