//! A reader of what happened to a world's packets: sequence numbers become places in the streams.

use std::sync::Arc;

use headend_engine::packet::{Body, Packet};
use headend_engine::tcp::segment::{EcnFlags, Flags, Segment};
use headend_engine::time::Time;
use headend_scenario::results::trace::{PacketRow, What};

/// Something that happened to a packet at a place that keeps a log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) time: Time,
    pub(crate) what: What,
    pub(crate) packet: Packet,
}

/// One end of a flow, as seen by whoever reads its packets: it turns sequence numbers into places in the stream.
#[derive(Clone, Debug)]
pub(crate) struct EndReader {
    pub(crate) flow: Arc<str>,
    pub(crate) instance: u64,
    pub(crate) host: Arc<str>,
    isn: u32,
    /// Stream position near which the next sequence number lies.
    near: u64,
    /// End of the stream as far as this end has sent it.
    sent: u64,
    /// The first packet that was sent with data that had been sent before, and those after it, ascending.
    retransmissions: Vec<u64>,
}

impl EndReader {
    /// A reader for what the end of this flow on `host` sends, counted from `isn`.
    pub(crate) fn new(flow: Arc<str>, instance: u64, host: Arc<str>, isn: u32) -> EndReader {
        EndReader { flow, instance, host, isn, near: 0, sent: 0, retransmissions: Vec::new() }
    }

    /// The place in the stream that `number` means: the one nearest to the last one, SYN at 0 and the first byte at 1.
    fn position(&mut self, number: u32) -> u64 {
        let near_number = self.isn.wrapping_add(self.near as u32);
        let step = i64::from(number.wrapping_sub(near_number) as i32);
        self.near = self.near.saturating_add_signed(step);
        self.near
    }
}

/// Reads `event`, which happened at `place` to a packet from `sender` to `receiver`.
pub(crate) fn read_event(
    event: &Event,
    place: &Arc<str>,
    sender: &mut EndReader,
    receiver: &mut EndReader,
    flag_names: &mut impl FnMut(&str) -> Arc<str>,
) -> Option<PacketRow> {
    let Body::Tcp(segment) = &event.packet.body else { return None };
    let start = sender.position(segment.seq);
    let end = start + u64::from(segment.len);
    if event.what == What::Sent && segment.len > 0 {
        if start < sender.sent {
            sender.retransmissions.push(event.packet.number());
        }
        sender.sent = sender.sent.max(end);
    }
    Some(PacketRow {
        time: event.time,
        place: place.clone(),
        what: event.what,
        from: sender.host.clone(),
        id: event.packet.number(),
        flow: sender.flow.clone(),
        instance: sender.instance,
        flags: flag_names(&flag_letters(segment)),
        seq: start.saturating_sub(1),
        ack: if segment.flags.ack { receiver.position(segment.ack).saturating_sub(1) } else { 0 },
        len: u64::from(segment.len),
        retransmission: sender.retransmissions.binary_search(&event.packet.number()).is_ok(),
    })
}

fn flag_letters(segment: &Segment) -> String {
    let Flags { syn, ack, fin, rst, psh, ecn } = segment.flags;
    // E and W as tcpdump writes ECE and CWR.
    let (ece, cwr) = (ecn.has(EcnFlags::ECE), ecn.has(EcnFlags::CWR));
    [(syn, 'S'), (fin, 'F'), (rst, 'R'), (psh, 'P'), (ack, 'A'), (ece, 'E'), (cwr, 'W')]
        .iter()
        .filter(|(set, _)| *set)
        .map(|&(_, c)| c)
        .collect()
}
